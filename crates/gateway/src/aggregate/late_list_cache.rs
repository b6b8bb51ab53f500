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
const LATE_LIST_TTL: Duration = Duration::from_secs(60);
/// The longest that is kept: a list of hundreds of tools has some hundred thousand bytes.
const MAX_LATE_LIST_BYTES: usize = 4 << 20;
/// Changes that wait for whoever listens.
const MAX_QUEUED_CHANGES: usize = 64;

/// Which list of which server, for whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LateListKey {
    grant: GrantId,
    /// A client's own, where it has one.
    session: Option<Box<str>>,
    server: ServerName,
    method: String,
}

impl LateListKey {
    pub fn new(aggregate: &AggregateRequest, ctx: &RequestContext, method: &Method<'_>) -> Self {
        Self {
            grant: aggregate.grant.config.id.clone(),
            session: aggregate.client_protocol.session().map(|session| session.id().into()),
            server: ctx.upstream.name().clone(),
            method: method.name().to_owned(),
        }
    }
}

/// What is known of one that was late.
#[derive(Debug, Default)]
struct LateListEntry {
    /// Alive while it is being asked.
    in_progress: Weak<()>,
    list: Option<LateList>,
}

#[derive(Debug)]
struct LateList {
    response: Bytes,
    received_at: Instant,
    /// What was in force then: the answer was filtered by it.
    snapshot: Weak<ConfigSnapshot>,
}

/// A list of one of a grant's servers that is another one now.
#[derive(Debug, Clone)]
pub(crate) struct ListChange {
    pub grant: GrantId,
    pub method: Method<'static>,
}

/// All that are late.
#[derive(Debug)]
pub(crate) struct LateListCache {
    entries: Mutex<HashMap<LateListKey, LateListEntry>>,
    change_sender: broadcast::Sender<ListChange>,
}

impl Default for LateListCache {
    fn default() -> Self {
        Self { entries: Mutex::default(), change_sender: broadcast::Sender::new(MAX_QUEUED_CHANGES) }
    }
}

impl LateListCache {
    /// Where one hears of lists that are others now.
    pub fn subscribe_changes(&self) -> broadcast::Receiver<ListChange> {
        self.change_sender.subscribe()
    }

    /// Whether it is being asked, and was late before. Asking it twice would cost twice.
    pub(super) fn is_in_progress(&self, key: &LateListKey) -> bool {
        self.lock().get(key).is_some_and(|entry| entry.in_progress.strong_count() > 0)
    }

    /// Notes that nobody waits any more; `asking` lives as long as it is being asked. Gives what it said last.
    pub(super) fn mark_late(
        &self,
        key: &LateListKey,
        asking: &Weak<()>,
        snapshot: &Arc<ConfigSnapshot>,
    ) -> Option<Bytes> {
        let mut entries = self.lock();
        entries.retain(|_, entry| entry.in_progress.strong_count() > 0 || entry.is_fresh());
        let entry = entries.entry(key.clone()).or_default();
        entry.in_progress = Weak::clone(asking);
        entry.valid_response(snapshot)
    }

    /// What it said last, if that holds under what is in force now.
    pub(super) fn find_response(&self, key: &LateListKey, snapshot: &Arc<ConfigSnapshot>) -> Option<Bytes> {
        self.lock().get(key)?.valid_response(snapshot)
    }

    /// Keeps an answer that nobody waited for, and tells those who listen if it is another one than before.
    pub(super) fn store_response(&self, key: &LateListKey, answer: &Bytes, snapshot: &Arc<ConfigSnapshot>) {
        if answer.len() > MAX_LATE_LIST_BYTES {
            return;
        }
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(key) else { return };
        let is_known = entry.valid_response(snapshot).is_some_and(|before| before == *answer);
        entry.list = Some(LateList {
            response: answer.clone(),
            received_at: Instant::now(),
            snapshot: Arc::downgrade(snapshot),
        });
        drop(entries);
        if !is_known && let Some(method) = list_changed_method(&key.method) {
            // Nobody listening is nothing lost.
            let _ = self.change_sender.send(ListChange { grant: key.grant.clone(), method });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LateListKey, LateListEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LateListEntry {
    fn is_fresh(&self) -> bool {
        self.list.as_ref().is_some_and(|cached| cached.received_at.elapsed() < LATE_LIST_TTL)
    }

    fn valid_response(&self, snapshot: &Arc<ConfigSnapshot>) -> Option<Bytes> {
        let cached = self.list.as_ref().filter(|_| self.is_fresh())?;
        cached.snapshot.upgrade().is_some_and(|then| Arc::ptr_eq(&then, snapshot)).then(|| cached.response.clone())
    }
}

/// How a client is told that a list is another one.
fn list_changed_method(list: &str) -> Option<Method<'static>> {
    match Method::of(list.into()) {
        Method::ToolsList => Some(Method::ToolsListChanged),
        Method::PromptsList => Some(Method::PromptsListChanged),
        Method::ResourcesList | Method::ResourceTemplatesList => Some(Method::ResourcesListChanged),
        _ => None,
    }
}
