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
const MOST: usize = 256;
const MOST_BYTES: usize = 256 << 10;

/// What a session at a server wants to hear of. That of a session for all servers is one for all its parts.
#[derive(Debug)]
pub(crate) struct Watched {
    kept: Arc<Kept>,
    /// Whose resources these are, where they are a part of those of all servers.
    server: Option<ServerName>,
    /// Told when they change; whoever holds the upstream's stream open opens it anew.
    pub changed: Notify,
    /// In which opening of the session the server was asked for all of them.
    asked_in: AtomicU64,
}

/// That it was asked in none.
const UNASKED: u64 = u64::MAX;

/// What is kept of it.
#[derive(Debug)]
struct Kept {
    /// The session that it is kept with.
    id: IdHash,
    uris: Mutex<BTreeSet<String>>,
    /// Those of which it was written that the policy denies them by now.
    denied: LazyBox<Mutex<BTreeSet<String>>>,
    /// Held by whoever writes them down, so that nobody writes what was before over what is.
    writing: LazyBox<tokio::sync::Mutex<()>>,
}

impl Watched {
    /// Of a session that was kept, or begins. What would be too much was kept by somebody who takes more.
    pub fn new(id: IdHash, uris: Vec<String>) -> Self {
        let mut own = BTreeSet::new();
        for uri in uris {
            if has_room(&own, &uri) {
                own.insert(uri);
            }
        }
        let kept = Kept { id, uris: Mutex::new(own), denied: LazyBox::default(), writing: LazyBox::default() };
        // In the first opening the client asks for them itself.
        Self::of(Arc::new(kept), None, 0)
    }

    /// Those of one server, of a session for all of them.
    pub fn part(&self, server: &ServerName) -> Self {
        Self::of(Arc::clone(&self.kept), Some(server.clone()), UNASKED)
    }

    fn of(kept: Arc<Kept>, server: Option<ServerName>, asked_in: u64) -> Self {
        Self { kept, server, changed: Notify::new(), asked_in: AtomicU64::new(asked_in) }
    }

    /// Begins to ask the server for all of them in an opening of the session; false if somebody has.
    pub fn begin_asking(&self, opening: u64) -> bool {
        self.asked_in.swap(opening, Ordering::AcqRel) != opening
    }

    /// Has the server asked again, unless that was done in a later opening.
    pub fn ask_again(&self, opening: u64) {
        let _ = self.asked_in.compare_exchange(opening, UNASKED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// By what they are kept, and what: as the client named them.
    pub fn row(&self) -> (IdHash, Vec<String>) {
        (self.kept.id, lock(&self.kept.uris).iter().cloned().collect())
    }

    /// A turn to write down what is kept.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.kept.writing.lock().await
    }

    /// Whether one more may be watched, or is.
    pub fn has_room_for(&self, uri: &str) -> bool {
        has_room(&lock(&self.kept.uris), &self.named(uri))
    }

    /// Adds a resource. Whether it is a new one.
    pub fn add(&self, uri: &str) -> bool {
        let named = self.named(uri);
        let mut uris = lock(&self.kept.uris);
        let is_new = has_room(&uris, &named) && uris.insert(named);
        self.told(is_new)
    }

    /// Takes one away. Whether it was there.
    pub fn remove(&self, uri: &str) -> bool {
        let was_there = lock(&self.kept.uris).remove(&self.named(uri));
        self.allow(uri);
        self.told(was_there)
    }

    /// Notes that the policy denies one of them. Whether that is to be written.
    pub fn deny(&self, uri: &str) -> bool {
        lock(&self.kept.denied).insert(self.named(uri))
    }

    /// Notes that it does not, or that nobody asks.
    pub fn allow(&self, uri: &str) {
        lock(&self.kept.denied).remove(&self.named(uri));
    }

    pub fn has(&self, uri: &str) -> bool {
        lock(&self.kept.uris).contains(&self.named(uri))
    }

    /// Whether there are any.
    pub fn is_any(&self) -> bool {
        lock(&self.kept.uris).iter().any(|uri| self.own(uri).is_some())
    }

    pub fn all(&self) -> Vec<String> {
        lock(&self.kept.uris).iter().filter_map(|uri| self.own(uri)).collect()
    }

    /// All of them, for whoever opens the upstream's stream: what changed before that is not told any more.
    pub fn to_hear(&self) -> Vec<String> {
        let uris = lock(&self.kept.uris);
        pin!(self.changed.notified()).enable();
        uris.iter().filter_map(|uri| self.own(uri)).collect()
    }

    fn told(&self, has_changed: bool) -> bool {
        if has_changed {
            self.changed.notify_one();
        }
        has_changed
    }

    /// As the client names a resource.
    fn named(&self, uri: &str) -> String {
        self.server.as_ref().map_or_else(|| uri.to_owned(), |server| prefix_uri(server.as_str(), uri))
    }

    /// As its server names what the client does; none for what is another's.
    fn own(&self, uri: &str) -> Option<String> {
        let Some(server) = &self.server else { return Some(uri.to_owned()) };
        split_prefixed_uri(uri).filter(|(own, _)| *own == server.as_str()).map(|(_, uri)| uri.into_owned())
    }
}

fn has_room(uris: &BTreeSet<String>, uri: &str) -> bool {
    let bytes: usize = uris.iter().map(String::len).sum();
    uris.contains(uri) || (uris.len() < MOST && bytes + uri.len() <= MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> Watched {
        Watched::new(IdHash::of(&["s"]), Vec::new())
    }

    #[test]
    fn what_is_watched_has_bounds() {
        let own = watched();
        assert!((0..MOST).all(|number| own.add(&format!("note://{number}"))));
        assert!(!own.has_room_for("note://more") && !own.add("note://more"));
        assert!(own.has_room_for("note://0") && !own.add("note://0"), "it is there");
        assert!(own.remove("note://0") && !own.remove("note://0") && own.add("note://more"));
        assert!(!watched().add(&"x".repeat(MOST_BYTES + 1)));
        let (id, uris) = own.row();
        assert_eq!(Watched::new(id, uris.clone()).row(), (id, uris), "it is found again as it was kept");
    }

    #[test]
    fn each_server_has_its_own_of_those_of_all() {
        let all = watched();
        let (desk, zoo) = (all.part(&"desk".parse().expect("a name")), all.part(&"zoo".parse().expect("a name")));
        assert!(desk.add("note://1") && zoo.add("ui://view"));
        assert_eq!((desk.all(), zoo.all()), (vec!["note://1".to_owned()], vec!["ui://view".to_owned()]));
        assert_eq!(all.row().1, ["ui://x-zoo+view", "x-desk+note://1"]);
        assert!(!zoo.has("note://1") && zoo.remove("ui://view") && !zoo.is_any() && desk.is_any());
    }
}
