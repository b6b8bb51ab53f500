//! Reads the body of a request, within a limit on its size and on the time that it takes to arrive.

use std::time::Duration;

use bytes::Bytes;
use gatelodge_policy::format_duration;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::time::Instant;

use crate::body::{BodyBuffer, ReceivedBody};

/// How many bytes of an oversized body are read and discarded, so that the client receives the error.
const MAX_DISCARDED_BYTES: usize = 64 << 20;
/// A client that sends nothing for this long is assumed to be waiting for the response.
const DISCARD_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads a request body.
///
/// # Errors
/// The body is too large, arrives too slowly or is truncated. The error contains the status and message for the client.
pub(crate) async fn read_request_body(
    mut body: Incoming,
    limit: usize,
    time: Duration,
) -> Result<ReceivedBody, (StatusCode, String)> {
    let until = Instant::now() + time;
    match tokio::time::timeout_at(until, collect(&mut body, limit)).await {
        Err(_) => {
            Err((StatusCode::REQUEST_TIMEOUT, format!("the message did not arrive within {}", format_duration(time))))
        }
        Ok(BodyReadOutcome::Complete(taken)) => Ok(taken),
        Ok(BodyReadOutcome::TooLarge) => {
            let _ = tokio::time::timeout_at(until, discard(body)).await;
            Err((StatusCode::PAYLOAD_TOO_LARGE, format!("the message is larger than {limit} bytes")))
        }
        Ok(BodyReadOutcome::Truncated) => Err((StatusCode::BAD_REQUEST, "the request body is incomplete".to_owned())),
    }
}

enum BodyReadOutcome {
    Complete(ReceivedBody),
    TooLarge,
    Truncated,
}

async fn collect(body: &mut Incoming, limit: usize) -> BodyReadOutcome {
    if body.size_hint().lower() > limit as u64 {
        return BodyReadOutcome::TooLarge;
    }
    let mut buffer = BodyBuffer::for_client();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return BodyReadOutcome::Truncated };
        // Trailers are ignored.
        let Ok(piece) = frame.into_data() else { continue };
        let left = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let expected = left.saturating_add(buffer.len() + piece.len());
        if expected > limit {
            return BodyReadOutcome::TooLarge;
        }
        buffer.push(piece, expected);
    }
    BodyReadOutcome::Complete(buffer.finish())
}

/// Reads and discards the rest of a body: many clients do not read the response until they have sent everything.
async fn discard(mut body: Incoming) {
    let mut left = MAX_DISCARDED_BYTES;
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(DISCARD_IDLE_TIMEOUT, body.frame()).await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(less) => left = less,
            None => return,
        }
    }
}
