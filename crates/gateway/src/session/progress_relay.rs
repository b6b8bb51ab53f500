//! Relays progress notifications to the client under its own token, with strictly increasing values.

use std::sync::{Mutex, PoisonError};

use gatelodge_json::Decimal;
use gatelodge_mcp::{ClientRequest, RequestId, ServerNotification};

/// The client's progress token and the last value sent under it. One client request can cause several upstream
/// requests.
#[derive(Debug)]
pub(crate) struct ProgressRelay {
    token: RequestId<'static>,
    last_reported: Mutex<String>,
}

impl ProgressRelay {
    /// Creates a relay; returns `None` if the client did not ask for progress.
    pub fn of(request: &ClientRequest<'_>) -> Option<Self> {
        let token = request.meta().progress_token()?.into_owned();
        Some(Self { token, last_reported: Mutex::default() })
    }

    /// Returns the notification under the client's token, or `None` if its value is not higher than the last one. A
    /// notification without a number is passed on, because there is nothing to compare.
    pub fn rewrite_if_advanced(&self, notification: &ServerNotification<'_>) -> Option<String> {
        if let Some((value, number)) = notification.progress().and_then(|value| Some((value, Decimal::new(value)?))) {
            let mut last_reported = self.last_reported.lock().unwrap_or_else(PoisonError::into_inner);
            if Decimal::new(&last_reported).is_some_and(|before| number <= before) {
                return None;
            }
            last_reported.clear();
            last_reported.push_str(value);
        }
        notification.with_reference(&self.token)
    }
}
