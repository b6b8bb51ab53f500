//! Caches list responses that arrive after the fan-out deadline, and notifies subscribers when a list has changed.

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

/// How long a cached response may be used.
const LATE_LIST_TTL: Duration = Duration::from_secs(60);
/// Maximum size of a cached response. A list of hundreds of tools takes a few hundred thousand bytes.
const MAX_LATE_LIST_BYTES: usize = 4 << 20;
/// Capacity of the channel for list changes.
const MAX_QUEUED_CHANGES: usize = 64;

/// Identifies one list of one server, for one grant or session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LateListKey {
    grant: GrantId,
    /// The client's session; `None` for stateless clients.
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

/// State of a list request that has missed the deadline at least once.
#[derive(Debug, Default)]
struct LateListRequestState {
    /// Refers to the running request; can be upgraded until the request is done.
    in_progress: Weak<()>,
    list: Option<LateList>,
}

#[derive(Debug)]
struct LateList {
    response: Bytes,
    received_at: Instant,
    /// The configuration under which the response was filtered.
    snapshot: Weak<ConfigSnapshot>,
}

/// Notification that a list has changed on one of the grant's servers.
#[derive(Debug, Clone)]
pub(crate) struct ListChange {
    pub grant: GrantId,
    pub method: Method<'static>,
}

/// All late list requests and their cached responses.
#[derive(Debug)]
pub(crate) struct LateListCache {
    entries: Mutex<HashMap<LateListKey, LateListRequestState>>,
    change_sender: broadcast::Sender<ListChange>,
}

impl Default for LateListCache {
    fn default() -> Self {
        Self { entries: Mutex::default(), change_sender: broadcast::Sender::new(MAX_QUEUED_CHANGES) }
    }
}

impl LateListCache {
    /// Returns a receiver for list changes.
    pub fn subscribe_changes(&self) -> broadcast::Receiver<ListChange> {
        self.change_sender.subscribe()
    }

    /// Returns whether an earlier request that missed the deadline is still running. A second request would only double
    /// the load.
    pub(super) fn is_in_progress(&self, key: &LateListKey) -> bool {
        self.lock().get(key).is_some_and(|entry| entry.in_progress.strong_count() > 0)
    }

    /// Records that the request missed the deadline, and returns the cached response, if any. `asking` refers to the
    /// running request and can be upgraded until the request is done.
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

    /// Returns the cached response if it was filtered under the same configuration.
    pub(super) fn find_response(&self, key: &LateListKey, snapshot: &Arc<ConfigSnapshot>) -> Option<Bytes> {
        self.lock().get(key)?.valid_response(snapshot)
    }

    /// Caches a late response, and notifies subscribers if it differs from the previous one.
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
            // Sending fails only when there are no subscribers.
            let _ = self.change_sender.send(ListChange { grant: key.grant.clone(), method });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LateListKey, LateListRequestState>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LateListRequestState {
    fn is_fresh(&self) -> bool {
        self.list.as_ref().is_some_and(|cached| cached.received_at.elapsed() < LATE_LIST_TTL)
    }

    fn valid_response(&self, snapshot: &Arc<ConfigSnapshot>) -> Option<Bytes> {
        let cached = self.list.as_ref().filter(|_| self.is_fresh())?;
        cached.snapshot.upgrade().is_some_and(|then| Arc::ptr_eq(&then, snapshot)).then(|| cached.response.clone())
    }
}

/// Returns the notification method that announces changes to a list.
fn list_changed_method(list: &str) -> Option<Method<'static>> {
    match Method::of(list.into()) {
        Method::ToolsList => Some(Method::ToolsListChanged),
        Method::PromptsList => Some(Method::PromptsListChanged),
        Method::ResourcesList | Method::ResourceTemplatesList => Some(Method::ResourcesListChanged),
        _ => None,
    }
}
