//! What a caller hears of the progress of its request: under its own token, and never less than before.

use std::sync::{Mutex, PoisonError};

use gatelodge_json::Decimal;
use gatelodge_mcp::{ClientRequest, RequestId, ServerNotification};

/// The caller's token, and what was told under it. Of one request we may make several.
#[derive(Debug)]
pub(crate) struct ProgressRelay {
    token: RequestId<'static>,
    last_reported: Mutex<String>,
}

impl ProgressRelay {
    /// None for a caller that does not want to hear of it.
    pub fn of(request: &ClientRequest<'_>) -> Option<Self> {
        let token = request.meta().progress_token()?.into_owned();
        Some(Self { token, last_reported: Mutex::default() })
    }

    /// A notification as the caller gets it; none if it does not tell of more than the one before. One that names no
    /// number passes: there is nothing to compare.
    pub fn rewrite_if_advanced(&self, said: &ServerNotification<'_>) -> Option<String> {
        if let Some((value, number)) = said.progress().and_then(|value| Some((value, Decimal::new(value)?))) {
            let mut last_reported = self.last_reported.lock().unwrap_or_else(PoisonError::into_inner);
            if Decimal::new(&last_reported).is_some_and(|before| number <= before) {
                return None;
            }
            last_reported.clear();
            last_reported.push_str(value);
        }
        said.with_reference(&self.token)
    }
}
