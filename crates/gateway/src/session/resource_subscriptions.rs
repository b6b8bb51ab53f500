//! Resource subscriptions of a session. They are stored with the session, under the URIs that the client uses.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gatelodge_mcp::aggregate_names::{prefix_uri, split_prefixed_uri};
use gatelodge_store::{IdDigest, ServerName};
use tokio::sync::Notify;

use super::lazy_box::LazyBox;
use super::lock;

/// Maximum number of subscriptions per session.
const MAX_SUBSCRIPTIONS: usize = 256;
/// Maximum total size of the subscribed URIs per session.
const MAX_SUBSCRIBED_URI_BYTES: usize = 256 << 10;

/// A session's subscriptions with one server. An aggregate session shares one set with its server sessions.
#[derive(Debug)]
pub(crate) struct ResourceSubscriptions {
    stored: Arc<StoredSubscriptions>,
    /// The server, if this is one server's part of an aggregate session.
    server: Option<ServerName>,
    /// Notified when the set changes; the task that holds the upstream's stream reopens it.
    pub changed: Notify,
    /// The handshake attempt in which all subscriptions were requested from the server.
    subscribed_in_attempt: AtomicU64,
}

/// Value of `subscribed_in_attempt` before any request.
const NEVER_SUBSCRIBED: u64 = u64::MAX;

/// The set of subscriptions that is stored with a session.
#[derive(Debug)]
struct StoredSubscriptions {
    /// The session with which the set is stored.
    id: IdDigest,
    uris: Mutex<BTreeSet<String>>,
    /// URIs whose denial by the current policy has been recorded in the call log.
    denied_uris: LazyBox<Mutex<BTreeSet<String>>>,
    /// Held while the set is written to the store, so that an older state cannot overwrite a newer one.
    write_lock: LazyBox<tokio::sync::Mutex<()>>,
}

impl ResourceSubscriptions {
    /// Creates the set of a new or restored session. URIs that were stored under larger limits and exceed the current
    /// ones are dropped.
    pub fn new(id: IdDigest, uris: Vec<String>) -> Self {
        let mut own = BTreeSet::new();
        for uri in uris {
            if has_room(&own, &uri) {
                own.insert(uri);
            }
        }
        let stored = StoredSubscriptions {
            id,
            uris: Mutex::new(own),
            denied_uris: LazyBox::default(),
            write_lock: LazyBox::default(),
        };
        // At the first handshake the client subscribes itself.
        Self::with_stored(Arc::new(stored), None, 0)
    }

    /// Returns one server's part of an aggregate session's subscriptions.
    pub fn for_server(&self, server: &ServerName) -> Self {
        Self::with_stored(Arc::clone(&self.stored), Some(server.clone()), NEVER_SUBSCRIBED)
    }

    fn with_stored(stored: Arc<StoredSubscriptions>, server: Option<ServerName>, attempt: u64) -> Self {
        Self { stored, server, changed: Notify::new(), subscribed_in_attempt: AtomicU64::new(attempt) }
    }

    /// Marks all URIs as requested in a handshake attempt. Returns false if they were already marked.
    pub fn try_begin_subscribing(&self, attempt: u64) -> bool {
        self.subscribed_in_attempt.swap(attempt, Ordering::AcqRel) != attempt
    }

    /// Causes the URIs to be requested again, unless they were requested in a later attempt.
    pub fn request_resubscribe(&self, attempt: u64) {
        let _ =
            self.subscribed_in_attempt.compare_exchange(attempt, NEVER_SUBSCRIBED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns the session's key and the URIs as the client named them.
    pub fn to_row(&self) -> (IdDigest, Vec<String>) {
        (self.stored.id, lock(&self.stored.uris).iter().cloned().collect())
    }

    /// Acquires the lock for writing the set to the store.
    pub async fn lock_for_write(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.stored.write_lock.lock().await
    }

    /// Returns whether a URI is in the set or can still be added to it.
    pub fn has_room_for(&self, uri: &str) -> bool {
        has_room(&lock(&self.stored.uris), &self.client_uri(uri))
    }

    /// Adds a URI. Returns whether it is new.
    pub fn add(&self, uri: &str) -> bool {
        let named = self.client_uri(uri);
        let mut uris = lock(&self.stored.uris);
        let is_new = has_room(&uris, &named) && uris.insert(named);
        self.notify_if_changed(is_new)
    }

    /// Removes a URI. Returns whether it was in the set.
    pub fn remove(&self, uri: &str) -> bool {
        let was_there = lock(&self.stored.uris).remove(&self.client_uri(uri));
        self.clear_denied(uri);
        self.notify_if_changed(was_there)
    }

    /// Marks a URI as denied by the policy. Returns whether the denial has to be recorded.
    pub fn mark_denied(&self, uri: &str) -> bool {
        lock(&self.stored.denied_uris).insert(self.client_uri(uri))
    }

    /// Removes the mark from a URI that is allowed again or no longer subscribed.
    pub fn clear_denied(&self, uri: &str) {
        lock(&self.stored.denied_uris).remove(&self.client_uri(uri));
    }

    pub fn contains(&self, uri: &str) -> bool {
        lock(&self.stored.uris).contains(&self.client_uri(uri))
    }

    /// Returns whether the set contains any URI of this server.
    pub fn has_any(&self) -> bool {
        lock(&self.stored.uris).iter().any(|uri| self.find_server_uri(uri).is_some())
    }

    pub fn uris(&self) -> Vec<String> {
        lock(&self.stored.uris).iter().filter_map(|uri| self.find_server_uri(uri)).collect()
    }

    /// Returns all URIs for a new upstream stream. Consumes a pending change notification, since the result includes
    /// the change.
    pub fn uris_for_stream(&self) -> Vec<String> {
        let uris = lock(&self.stored.uris);
        pin!(self.changed.notified()).enable();
        uris.iter().filter_map(|uri| self.find_server_uri(uri)).collect()
    }

    fn notify_if_changed(&self, has_changed: bool) -> bool {
        if has_changed {
            self.changed.notify_one();
        }
        has_changed
    }

    /// Returns the URI as the client names it.
    fn client_uri(&self, uri: &str) -> String {
        self.server.as_ref().map_or_else(|| uri.to_owned(), |server| prefix_uri(server.as_str(), uri))
    }

    /// Returns the URI as the server names it, or `None` if it belongs to another server.
    fn find_server_uri(&self, uri: &str) -> Option<String> {
        let Some(server) = &self.server else { return Some(uri.to_owned()) };
        split_prefixed_uri(uri).filter(|(own, _)| *own == server.as_str()).map(|(_, uri)| uri.into_owned())
    }
}

fn has_room(uris: &BTreeSet<String>, uri: &str) -> bool {
    let bytes: usize = uris.iter().map(String::len).sum();
    uris.contains(uri) || (uris.len() < MAX_SUBSCRIPTIONS && bytes + uri.len() <= MAX_SUBSCRIBED_URI_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscriptions() -> ResourceSubscriptions {
        ResourceSubscriptions::new(IdDigest::of(&["s"]), Vec::new())
    }

    #[test]
    fn subscriptions_are_limited_in_number_and_bytes() {
        let own = subscriptions();
        assert!((0..MAX_SUBSCRIPTIONS).all(|number| own.add(&format!("note://{number}"))));
        assert!(!own.has_room_for("note://more") && !own.add("note://more"));
        assert!(own.has_room_for("note://0") && !own.add("note://0"), "it is in the set");
        assert!(own.remove("note://0") && !own.remove("note://0") && own.add("note://more"));
        assert!(!subscriptions().add(&"x".repeat(MAX_SUBSCRIBED_URI_BYTES + 1)));
        let (id, uris) = own.to_row();
        assert_eq!(ResourceSubscriptions::new(id, uris.clone()).to_row(), (id, uris), "it is restored as stored");
    }

    #[test]
    fn each_server_has_its_part_of_an_aggregate_set() {
        let all = subscriptions();
        let (helpdesk, zoo) =
            (all.for_server(&"helpdesk".parse().expect("a name")), all.for_server(&"zoo".parse().expect("a name")));
        assert!(helpdesk.add("note://1") && zoo.add("ui://view"));
        assert_eq!((helpdesk.uris(), zoo.uris()), (vec!["note://1".to_owned()], vec!["ui://view".to_owned()]));
        assert_eq!(all.to_row().1, ["ui://x-zoo+view", "x-helpdesk+note://1"]);
        assert!(!zoo.contains("note://1") && zoo.remove("ui://view") && !zoo.has_any() && helpdesk.has_any());
    }
}
