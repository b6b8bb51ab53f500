//! Resumes an upstream's response stream that ended before the response: from 2025-11-25 on, a server may close the
//! stream and let the client poll. The request itself is never sent again.

use std::time::Duration;

use http::header::HeaderValue;

use super::{ForwardContext, wait_or_cancel};
use crate::responder::Responder;
use crate::upstream::{Permit, UpstreamResponse, UpstreamSendError, UpstreamSessionLink};

/// Maximum number of attempts without receiving a new event.
const MAX_RESUME_ATTEMPTS: usize = 10;
/// Delay before an attempt if the server does not send `retry`.
const DEFAULT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Range to which the server's `retry` value is limited.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Position of an interrupted stream, and the number of attempts to resume it.
#[derive(Debug, Default)]
pub(crate) struct UpstreamStreamResumption {
    last_event_id: Option<HeaderValue>,
    retry_delay: Option<Duration>,
    attempts: usize,
}

impl UpstreamStreamResumption {
    /// Reopens the stream after the last received event. Returns `None` if the client is no longer waiting.
    ///
    /// # Errors
    /// Returns the error that ended the stream if the stream cannot be resumed.
    pub async fn reconnect(
        &mut self,
        forward_ctx: &ForwardContext<'_>,
        ended: &mut UpstreamResponse,
        error: UpstreamSendError,
        responder: &mut Responder,
    ) -> Result<Option<UpstreamResponse>, UpstreamSendError> {
        let has_hung_up = matches!(error, UpstreamSendError::InvalidResponse(_));
        let (last, pause) = ended.last_event();
        self.retry_delay = pause.or(self.retry_delay);
        if last.is_some() && last != self.last_event_id {
            self.attempts = 0;
            self.last_event_id = last;
        }
        let (Some(mut back), Some(last)) = (ended.resume_target.take(), self.last_event_id.clone()) else {
            return Err(error);
        };
        if matches!(back.session_link, UpstreamSessionLink::NoSession) {
            back.session_link = ended.session_link.clone();
        }
        let pause = self.retry_delay.unwrap_or(DEFAULT_RETRY_DELAY).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
        while self.attempts < MAX_RESUME_ATTEMPTS {
            self.attempts += 1;
            let permit = Permit::for_stream_resumption(&back, last.clone());
            let asking = async {
                tokio::time::sleep(pause).await;
                forward_ctx.gw.upstream_client.send(&forward_ctx.ctx.upstream, permit).await
            };
            match wait_or_cancel(forward_ctx, responder, std::pin::pin!(asking)).await {
                None => return Ok(None),
                Some(Ok(mut exchange)) if exchange.is_stream() => {
                    if has_hung_up {
                        responder.close_for_polling();
                    }
                    exchange.resume_target = Some(back);
                    return Ok(Some(exchange));
                }
                // A temporary failure: try again.
                Some(Err(
                    UpstreamSendError::NotSent(_)
                    | UpstreamSendError::ConnectionLost(_)
                    | UpstreamSendError::Status(500..),
                )) => {}
                Some(_) => return Err(error),
            }
        }
        Err(error)
    }
}
