//! Bodies: a caller's, read within bounds; and ours, one text or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::call::Room;
use crate::gathered::{Gathered, Taken};
use crate::text::Text;

/// How much is read of a message that is too large, so that its sender hears why it is refused.
const MOST_PASSED_OVER: usize = 64 << 20;
/// Who sends nothing for so long waits for the answer.
const SILENCE: Duration = Duration::from_secs(1);

/// What we answer with.
#[derive(Debug)]
pub(crate) enum Body {
    /// A text, or nothing, and the place of its request among those in flight.
    Whole(Text, Option<Room>),
    /// Events, as they come. It ends when all senders are gone.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body {
    pub fn empty() -> Self {
        Self::Whole(Text::default(), None)
    }

    /// Keeps a place until the text is taken.
    pub fn hold(&mut self, held: Option<Room>) {
        if let Self::Whole(_, room) = self {
            *room = held;
        }
    }

    pub fn text(text: impl Into<Text>) -> Self {
        Self::Whole(text.into(), None)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            // A large text goes out in pieces, so that it, and its place, is let go when the caller has taken it, but for
            // what one piece and the connection's buffer hold.
            Self::Whole(text, _) => Pin::new(text).poll_frame(cx),
            Self::Stream(events) => events.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(text, _) if text.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(text, _) => text.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// Reads a caller's body.
///
/// # Errors
/// It is too large, too slow, or broken off; with the status and the words to answer.
pub(crate) async fn read(mut body: Incoming, limit: usize, time: Duration) -> Result<Taken, (StatusCode, String)> {
    let until = Instant::now() + time;
    match tokio::time::timeout_at(until, collected(&mut body, limit)).await {
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, format!("the message did not come within {} s", time.as_secs()))),
        Ok(Read::Whole(taken)) => Ok(taken),
        Ok(Read::TooLarge) => {
            let _ = tokio::time::timeout_at(until, pass_over(body)).await;
            Err((StatusCode::PAYLOAD_TOO_LARGE, format!("the message has more than {limit} bytes")))
        }
        Ok(Read::BrokenOff) => Err((StatusCode::BAD_REQUEST, "the message broke off".to_owned())),
    }
}

enum Read {
    Whole(Taken),
    TooLarge,
    BrokenOff,
}

async fn collected(body: &mut Incoming, limit: usize) -> Read {
    if body.size_hint().lower() > limit as u64 {
        return Read::TooLarge;
    }
    let mut gathered = Gathered::of_caller();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Read::BrokenOff };
        // Trailers say nothing here.
        let Ok(piece) = frame.into_data() else { continue };
        let left = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let expected = left.saturating_add(gathered.len() + piece.len());
        if expected > limit {
            return Read::TooLarge;
        }
        gathered.push(piece, expected);
    }
    Read::Whole(gathered.taken())
}

/// Takes what is not wanted, and keeps nothing of it: many clients read no answer before they have sent everything.
async fn pass_over(mut body: Incoming) {
    let mut left = MOST_PASSED_OVER;
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE, body.frame()).await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(less) => left = less,
            None => return,
        }
    }
}
