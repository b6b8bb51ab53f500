//! Servers that take longer to list what they have than all wait for them. What they say in the end is kept for the
//! next who asks, and those who listen are told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatelodge_mcp::Method;
use gatelodge_store::{GrantId, ServerName};
use tokio::sync::broadcast;

use super::AggregateRequest;
use crate::config_snapshot::ConfigSnapshot;
use crate::request_context::RequestContext;

/// How long a late answer is good for.
const KEPT: Duration = Duration::from_secs(60);
/// The longest that is kept: a list of hundreds of tools has some hundred thousand bytes.
const MAX_BYTES: usize = 4 << 20;
/// Changes that wait for whoever listens.
const WAITING: usize = 64;

/// Which list of which server, for whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    grant: GrantId,
    /// A client's own, where it has one.
    session: Option<Box<str>>,
    server: ServerName,
    method: String,
}

impl Key {
    pub fn new(all: &AggregateRequest, visit: &RequestContext, method: &Method<'_>) -> Self {
        Self {
            grant: all.grant.config.id.clone(),
            session: all.client_protocol.session().map(|session| session.id().into()),
            server: visit.upstream.name().clone(),
            method: method.name().to_owned(),
        }
    }
}

/// What is known of one that was late.
#[derive(Debug, Default)]
struct Entry {
    /// Alive while it is being asked.
    asking: Weak<()>,
    came: Option<Came>,
}

#[derive(Debug)]
struct Came {
    answer: Bytes,
    at: Instant,
    /// What was in force then: the answer was filtered by it.
    live: Weak<ConfigSnapshot>,
}

/// A list of one of a grant's servers that is another one now.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    pub grant: GrantId,
    pub method: Method<'static>,
}

/// All that are late.
#[derive(Debug)]
pub(crate) struct Late {
    entries: Mutex<HashMap<Key, Entry>>,
    changes: broadcast::Sender<Changed>,
}

impl Default for Late {
    fn default() -> Self {
        Self { entries: Mutex::default(), changes: broadcast::Sender::new(WAITING) }
    }
}

impl Late {
    /// Where one hears of lists that are others now.
    pub fn changes(&self) -> broadcast::Receiver<Changed> {
        self.changes.subscribe()
    }

    /// Whether it is being asked, and was late before. Asking it twice would cost twice.
    pub(super) fn is_asked(&self, key: &Key) -> bool {
        self.lock().get(key).is_some_and(|entry| entry.asking.strong_count() > 0)
    }

    /// Notes that nobody waits any more; `asking` lives as long as it is being asked. Gives what it said last.
    pub(super) fn note(&self, key: &Key, asking: &Weak<()>, live: &Arc<ConfigSnapshot>) -> Option<Bytes> {
        let mut entries = self.lock();
        entries.retain(|_, entry| entry.asking.strong_count() > 0 || entry.is_fresh());
        let entry = entries.entry(key.clone()).or_default();
        entry.asking = Weak::clone(asking);
        entry.answer(live)
    }

    /// What it said last, if that holds under what is in force now.
    pub(super) fn answer(&self, key: &Key, live: &Arc<ConfigSnapshot>) -> Option<Bytes> {
        self.lock().get(key)?.answer(live)
    }

    /// Keeps an answer that nobody waited for, and tells those who listen if it is another one than before.
    pub(super) fn came(&self, key: &Key, answer: &Bytes, live: &Arc<ConfigSnapshot>) {
        if answer.len() > MAX_BYTES {
            return;
        }
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(key) else { return };
        let is_known = entry.answer(live).is_some_and(|before| before == *answer);
        entry.came = Some(Came { answer: answer.clone(), at: Instant::now(), live: Arc::downgrade(live) });
        drop(entries);
        if !is_known && let Some(method) = changed(&key.method) {
            // Nobody listening is nothing lost.
            let _ = self.changes.send(Changed { grant: key.grant.clone(), method });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is_fresh(&self) -> bool {
        self.came.as_ref().is_some_and(|came| came.at.elapsed() < KEPT)
    }

    fn answer(&self, live: &Arc<ConfigSnapshot>) -> Option<Bytes> {
        let came = self.came.as_ref().filter(|_| self.is_fresh())?;
        came.live.upgrade().is_some_and(|then| Arc::ptr_eq(&then, live)).then(|| came.answer.clone())
    }
}

/// How a client is told that a list is another one.
fn changed(list: &str) -> Option<Method<'static>> {
    match Method::of(list.into()) {
        Method::ToolsList => Some(Method::ToolsListChanged),
        Method::PromptsList => Some(Method::PromptsListChanged),
        Method::ResourcesList | Method::ResourceTemplatesList => Some(Method::ResourcesListChanged),
        _ => None,
    }
}
