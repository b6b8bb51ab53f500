//! What a session keeps of its client where the upstream keeps nothing: it is said anew with each request.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use gatelodge_json::{Limits, read};
use gatelodge_mcp::bridge::{ClientWords, Retry, to_stateless};
use tokio::sync::Notify;

/// Resources that one session may watch.
const MAX_WATCHED: usize = 256;

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

/// The resources that a session wants to hear of.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    uris: Mutex<BTreeSet<String>>,
    /// Told when they change; whoever holds the upstream's stream open opens it anew.
    pub changed: Notify,
}

impl Watched {
    /// Adds a resource. False if there are too many.
    pub fn add(&self, uri: &str) -> bool {
        let mut uris = self.uris.lock().unwrap_or_else(PoisonError::into_inner);
        if uris.len() >= MAX_WATCHED && !uris.contains(uri) {
            return false;
        }
        if uris.insert(uri.to_owned()) {
            self.changed.notify_one();
        }
        true
    }

    pub fn remove(&self, uri: &str) {
        if self.uris.lock().unwrap_or_else(PoisonError::into_inner).remove(uri) {
            self.changed.notify_one();
        }
    }

    /// All of them, for whoever opens the upstream's stream: what changed before that is not told any more.
    pub fn all(&self) -> Vec<String> {
        let uris = self.uris.lock().unwrap_or_else(PoisonError::into_inner);
        pin!(self.changed.notified()).enable();
        uris.iter().cloned().collect()
    }
}
