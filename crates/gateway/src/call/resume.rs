//! Takes up an upstream's stream again that ended before the answer: from 2025-11-25 on a server may hang up and let
//! itself be polled. The request itself is never repeated.

use std::time::Duration;

use http::header::HeaderValue;

use super::forward::attend;
use super::{Errand, Permit};
use crate::http::line::Line;
use crate::upstream::{Exchange, Link, Outgoing, SendError};

/// How often it is tried without one event more.
const MAX_TRIES: usize = 10;
/// When the server does not say how long it wants to be left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// What is heeded of what it says.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(30);

/// Where a stream ended, and how to get back there.
#[derive(Debug)]
pub(crate) struct Resumption {
    /// None where streams cannot be taken up again.
    back: Option<Outgoing>,
    last: Option<HeaderValue>,
    pause: Duration,
    tries: usize,
}

impl Resumption {
    /// For the stream that may answer what a permit sends.
    pub fn of(permit: &Permit) -> Self {
        Self { back: permit.way_back(), last: None, pause: PAUSE, tries: 0 }
    }

    /// The stream again, behind the last event that came of it; none if nobody waits for it any more.
    ///
    /// # Errors
    /// What ended it, if it cannot be had again.
    pub async fn again(
        &mut self,
        errand: &Errand<'_>,
        ended: &Exchange,
        fault: SendError,
        line: &mut Line,
    ) -> Result<Option<Exchange>, SendError> {
        let (last, pause) = ended.left_at();
        self.pause = pause.unwrap_or(self.pause).clamp(SHORTEST, LONGEST);
        if last.is_some() && last != self.last {
            self.tries = 0;
            self.last = last;
        }
        let (Some(back), Some(last)) = (self.back.clone(), self.last.clone()) else { return Err(fault) };
        while self.tries < MAX_TRIES {
            self.tries += 1;
            let mut back = back.clone();
            if matches!(back.link, Link::None) {
                back.link = ended.link.clone();
            }
            let asking = async {
                tokio::time::sleep(self.pause).await;
                errand.gw.client.send(&errand.visit.upstream, Permit::to_resume(back, last.clone())).await
            };
            match attend(errand, line, asking).await {
                None => return Ok(None),
                Some(Ok(exchange)) if exchange.is_stream() => return Ok(Some(exchange)),
                // A bad moment.
                Some(Err(SendError::NotSent(_) | SendError::Gone(_) | SendError::Status(500..))) => {}
                Some(_) => return Err(fault),
            }
        }
        Err(fault)
    }
}
