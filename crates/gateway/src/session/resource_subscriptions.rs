//! The resources that a session wants to hear of. They are kept with it, as its client named them.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gatelodge_mcp::aggregate_names::{prefix_uri, split_prefixed_uri};
use gatelodge_store::{IdHash, ServerName};
use tokio::sync::Notify;

use super::lazy_box::LazyBox;
use super::lock;

/// Resources that one session may watch, and the bytes of their URIs.
const MAX_SUBSCRIPTIONS: usize = 256;
const MAX_SUBSCRIBED_URI_BYTES: usize = 256 << 10;

/// What a session at a server wants to hear of. That of a session for all servers is one for all its parts.
#[derive(Debug)]
pub(crate) struct ResourceSubscriptions {
    stored: Arc<StoredSubscriptions>,
    /// Whose resources these are, where they are a part of those of all servers.
    server: Option<ServerName>,
    /// Told when they change; whoever holds the upstream's stream open opens it anew.
    pub changed: Notify,
    /// In which opening of the session the server was asked for all of them.
    subscribed_in_attempt: AtomicU64,
}

/// That it was asked in none.
const NEVER_SUBSCRIBED: u64 = u64::MAX;

/// What is kept of it.
#[derive(Debug)]
struct StoredSubscriptions {
    /// The session that it is kept with.
    id: IdHash,
    uris: Mutex<BTreeSet<String>>,
    /// Those of which it was written that the policy denies them by now.
    denied_uris: LazyBox<Mutex<BTreeSet<String>>>,
    /// Held by whoever writes them down, so that nobody writes what was before over what is.
    write_lock: LazyBox<tokio::sync::Mutex<()>>,
}

impl ResourceSubscriptions {
    /// Of a session that was kept, or begins. What would be too much was kept by somebody who takes more.
    pub fn new(id: IdHash, uris: Vec<String>) -> Self {
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
        // In the first opening the client asks for them itself.
        Self::with_stored(Arc::new(stored), None, 0)
    }

    /// Those of one server, of a session for all of them.
    pub fn for_server(&self, server: &ServerName) -> Self {
        Self::with_stored(Arc::clone(&self.stored), Some(server.clone()), NEVER_SUBSCRIBED)
    }

    fn with_stored(stored: Arc<StoredSubscriptions>, server: Option<ServerName>, asked_in: u64) -> Self {
        Self { stored, server, changed: Notify::new(), subscribed_in_attempt: AtomicU64::new(asked_in) }
    }

    /// Begins to ask the server for all of them in an opening of the session; false if somebody has.
    pub fn try_begin_subscribing(&self, opening: u64) -> bool {
        self.subscribed_in_attempt.swap(opening, Ordering::AcqRel) != opening
    }

    /// Has the server asked again, unless that was done in a later opening.
    pub fn request_resubscribe(&self, opening: u64) {
        let _ =
            self.subscribed_in_attempt.compare_exchange(opening, NEVER_SUBSCRIBED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// By what they are kept, and what: as the client named them.
    pub fn to_row(&self) -> (IdHash, Vec<String>) {
        (self.stored.id, lock(&self.stored.uris).iter().cloned().collect())
    }

    /// A turn to write down what is kept.
    pub async fn lock_for_write(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.stored.write_lock.lock().await
    }

    /// Whether one more may be watched, or is.
    pub fn has_room_for(&self, uri: &str) -> bool {
        has_room(&lock(&self.stored.uris), &self.client_uri(uri))
    }

    /// Adds a resource. Whether it is a new one.
    pub fn add(&self, uri: &str) -> bool {
        let named = self.client_uri(uri);
        let mut uris = lock(&self.stored.uris);
        let is_new = has_room(&uris, &named) && uris.insert(named);
        self.notify_if_changed(is_new)
    }

    /// Takes one away. Whether it was there.
    pub fn remove(&self, uri: &str) -> bool {
        let was_there = lock(&self.stored.uris).remove(&self.client_uri(uri));
        self.clear_denied(uri);
        self.notify_if_changed(was_there)
    }

    /// Notes that the policy denies one of them. Whether that is to be written.
    pub fn mark_denied(&self, uri: &str) -> bool {
        lock(&self.stored.denied_uris).insert(self.client_uri(uri))
    }

    /// Notes that it does not, or that nobody asks.
    pub fn clear_denied(&self, uri: &str) {
        lock(&self.stored.denied_uris).remove(&self.client_uri(uri));
    }

    pub fn contains(&self, uri: &str) -> bool {
        lock(&self.stored.uris).contains(&self.client_uri(uri))
    }

    /// Whether there are any.
    pub fn has_any(&self) -> bool {
        lock(&self.stored.uris).iter().any(|uri| self.find_server_uri(uri).is_some())
    }

    pub fn uris(&self) -> Vec<String> {
        lock(&self.stored.uris).iter().filter_map(|uri| self.find_server_uri(uri)).collect()
    }

    /// All of them, for whoever opens the upstream's stream: what changed before that is not told any more.
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

    /// As the client names a resource.
    fn client_uri(&self, uri: &str) -> String {
        self.server.as_ref().map_or_else(|| uri.to_owned(), |server| prefix_uri(server.as_str(), uri))
    }

    /// As its server names what the client does; none for what is another's.
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

    fn watched() -> ResourceSubscriptions {
        ResourceSubscriptions::new(IdHash::of(&["s"]), Vec::new())
    }

    #[test]
    fn what_is_watched_has_bounds() {
        let own = watched();
        assert!((0..MAX_SUBSCRIPTIONS).all(|number| own.add(&format!("note://{number}"))));
        assert!(!own.has_room_for("note://more") && !own.add("note://more"));
        assert!(own.has_room_for("note://0") && !own.add("note://0"), "it is there");
        assert!(own.remove("note://0") && !own.remove("note://0") && own.add("note://more"));
        assert!(!watched().add(&"x".repeat(MAX_SUBSCRIBED_URI_BYTES + 1)));
        let (id, uris) = own.to_row();
        assert_eq!(
            ResourceSubscriptions::new(id, uris.clone()).to_row(),
            (id, uris),
            "it is found again as it was kept"
        );
    }

    #[test]
    fn each_server_has_its_own_of_those_of_all() {
        let all = watched();
        let (desk, zoo) =
            (all.for_server(&"desk".parse().expect("a name")), all.for_server(&"zoo".parse().expect("a name")));
        assert!(desk.add("note://1") && zoo.add("ui://view"));
        assert_eq!((desk.uris(), zoo.uris()), (vec!["note://1".to_owned()], vec!["ui://view".to_owned()]));
        assert_eq!(all.to_row().1, ["ui://x-zoo+view", "x-desk+note://1"]);
        assert!(!zoo.contains("note://1") && zoo.remove("ui://view") && !zoo.has_any() && desk.has_any());
    }
}
