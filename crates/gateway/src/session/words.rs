//! What a session keeps of its client where the upstream keeps nothing: it is said anew with each request.

use std::sync::{Mutex, PoisonError};

use gatelodge_json::{Limits, read};
use gatelodge_mcp::bridge::{ClientWords, Retry, to_stateless};

/// What the client said of itself in its handshake, as JSON.
#[derive(Debug)]
pub(crate) struct OwnWords {
    capabilities: String,
    info: Option<String>,
    /// Set by `logging/setLevel`.
    pub(super) level: Mutex<Option<String>>,
}

impl OwnWords {
    /// Takes them from the text of a handshake.
    pub fn of(handshake: &[u8]) -> Self {
        let document = read(handshake, &Limits::REQUEST).ok();
        let member = |name: &str| {
            let params = document.as_ref()?.root().get("params")?;
            Some(params.get(name)?.raw().to_owned())
        };
        let capabilities = member("capabilities").unwrap_or_else(|| "{}".to_owned());
        Self { capabilities, info: member("clientInfo"), level: Mutex::default() }
    }

    pub fn stateless(&self, text: &str, retry: Option<&Retry<'_>>) -> Option<String> {
        let level = self.level.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let client =
            ClientWords { capabilities: &self.capabilities, info: self.info.as_deref(), log_level: level.as_deref() };
        to_stateless(text, &client, retry)
    }
}
