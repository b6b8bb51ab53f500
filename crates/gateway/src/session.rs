//! What a legacy session remembers. It is no authority: every request shows its token, and a session of another grant
//! is not there.

mod asked;
mod calls;
mod client;
mod hub;
pub(crate) mod keeping;
mod parts;
mod replay;
mod seldom;
mod table;
mod tasks;
mod watched;
mod words;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_json::{JsonLimits, read};
use gatelodge_mcp::translate::{RetryInput, to_json_string};
use gatelodge_mcp::{ClientCapabilities, RequestId, Revision};
use gatelodge_mutants::mutant;
use gatelodge_store::{GrantId, IdHash, ServerName, SessionRow};
use http::HeaderValue;
use jiff::Timestamp;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use self::asked::Questions;
use self::hub::Hub;
use self::parts::Parts;
use self::seldom::Seldom;
use self::tasks::Tasks;
use self::watched::Watched;
use self::words::{OwnWords, declared_in};
use crate::lists::Lists;
use crate::upstream::{Child, Link};

pub(crate) use self::asked::AskedBy;
pub(crate) use self::calls::{Calls, Entry, UnderWay, cancelled};
pub(crate) use self::client::ClientInfo;
pub(crate) use self::hub::Standing;
pub(crate) use self::replay::{Place, STANDALONE, Streams};
pub(crate) use self::table::Sessions;

/// An id has 256 random bits, and is written in base sixteen.
const ID_BYTES: usize = 32;

/// What was agreed in a handshake, and what is under way.
#[derive(Debug)]
pub(crate) struct Session {
    id: Arc<str>,
    /// By which it is kept.
    hash: IdHash,
    /// By which limits count it: a part of another is counted as that one at its server, however often it is opened.
    counted: IdHash,
    /// The least severe log message that we have asked the upstream for.
    level: Mutex<Option<Box<str>>>,
    /// Held by those who use it without being its client.
    held: Arc<()>,
    grant: GrantId,
    /// At which server; none for all of the grant's together.
    server: Option<ServerName>,
    revision: Revision,
    client: ClientInfo,
    /// The client's handshake, for doing it again with an upstream that has forgotten us.
    handshake: Bytes,
    /// What the client declared there.
    declared: ClientCapabilities,
    /// What the upstream said of itself: the result of its handshake, or of `server/discover`.
    pub welcome: Bytes,
    /// Of which lists the client was promised to hear when they change; none where that is not known any more.
    lists: Mutex<Option<Lists>>,
    pub takes_log: bool,
    /// What the client said of itself, where the upstream wants it said with each request.
    words: Option<Box<OwnWords>>,
    /// The upstream's end. Written at the handshake and when it is done again.
    link: Mutex<Link>,
    openings: AtomicU64,
    links: AtomicU64,
    /// Those of the server, and the client's own.
    pub tasks: Tasks,
    /// The client's requests under way, by the ids it gave them: each is told when the client cancels.
    under_way: Arc<Calls>,
    /// What the upstream asked of the client.
    pub questions: Seldom<Questions>,
    /// The stream that the client holds open. Whoever opens another, or ends the session, tells this one to end; the
    /// task that serves it listens.
    stream: Mutex<Option<Arc<Notify>>>,
    /// For clients that listen by requests that stand alone.
    pub hub: Arc<Seldom<Hub>>,
    /// What its client wants to hear of resources.
    pub watched: Watched,
    streams: Streams,
    /// The last event of the upstream's own stream of what belongs to no request.
    heard: Seldom<Mutex<Option<HeaderValue>>>,
    /// Held by whoever serves the client's stream, so that one that takes its place finds all that was sent on it.
    pub streaming: Seldom<tokio::sync::Mutex<()>>,
    used_at: Mutex<Instant>,
    /// Held while the handshake is done again, so that many calls that find the session lost do it once.
    pub reopening: Seldom<tokio::sync::Mutex<()>>,
    /// The sessions at single servers, where this one is for all of them.
    pub parts: Seldom<Parts>,
    /// The place among the sessions of its grant.
    _room: OwnedSemaphorePermit,
}

/// What a session begins with.
#[derive(Debug)]
pub(crate) struct Opening {
    pub grant: GrantId,
    pub server: Option<ServerName>,
    pub revision: Revision,
    pub client: ClientInfo,
    pub handshake: Bytes,
    pub welcome: Bytes,
    pub link: Link,
    pub room: OwnedSemaphorePermit,
    /// Whether the upstream takes requests that stand alone, and knows of no session.
    pub is_far_stateless: bool,
    /// Whether log messages are for the client: one whose requests stand alone says so with each.
    pub takes_log: bool,
}

impl Session {
    /// A new one; none if there is no randomness.
    pub fn new(opening: Opening) -> Option<Self> {
        let mut random = [0; ID_BYTES];
        getrandom::fill(&mut random).ok()?;
        Self::of_id(&HEXLOWER.encode(&random), opening, Vec::new())
    }

    /// One that was kept. An upstream's end has to be opened before anything can be sent.
    pub fn restored(id: &str, row: SessionRow, room: OwnedSemaphorePermit) -> Option<Self> {
        let opening = Opening {
            grant: row.grant,
            server: row.server,
            revision: row.revision.parse().ok()?,
            client: ClientInfo::new(row.client_name, row.client_version),
            handshake: row.handshake.into(),
            welcome: Bytes::new(),
            link: if row.is_upstream_stateless { Link::None } else { Link::Unopened },
            room,
            is_far_stateless: row.is_upstream_stateless,
            takes_log: true,
        };
        let watched = if mutant!("subscriptions-lost-at-restart") { Vec::new() } else { row.subscribed_uris };
        let session = Self::of_id(id, opening, watched)?;
        if let Some(level) = row.log_level {
            session.want_log(&level);
        }
        Some(session)
    }

    fn of_id(id: &str, opening: Opening, watched: Vec<String>) -> Option<Self> {
        let Opening { grant, server, revision, client, handshake, welcome, link, room, is_far_stateless, takes_log } =
            opening;
        Some(Self {
            id: id.into(),
            hash: IdHash::of(&[id]),
            counted: IdHash::of(&[id]),
            level: Mutex::default(),
            held: Arc::default(),
            grant,
            server,
            revision,
            client,
            words: is_far_stateless.then(|| Box::new(OwnWords::of(&handshake))),
            declared: declared_in(&handshake),
            handshake,
            lists: Mutex::new((!welcome.is_empty()).then(|| Lists::advertised(&welcome))),
            welcome,
            takes_log,
            link: Mutex::new(link),
            openings: AtomicU64::new(0),
            links: AtomicU64::new(0),
            tasks: Tasks::default(),
            under_way: Arc::default(),
            questions: Seldom::default(),
            stream: Mutex::default(),
            hub: Arc::default(),
            watched: Watched::new(IdHash::of(&[id]), watched),
            streams: Streams::new(replay::room_for(0))?,
            heard: Seldom::default(),
            streaming: Seldom::default(),
            used_at: Mutex::new(Instant::now()),
            reopening: Seldom::default(),
            parts: Seldom::default(),
            _room: room,
        })
    }

    /// The session as it is kept.
    pub fn row(&self, used_at: Timestamp) -> SessionRow {
        SessionRow {
            id: self.hash,
            grant: self.grant.clone(),
            server: self.server.clone(),
            revision: self.revision.as_str().to_owned(),
            client_name: self.client.name.clone(),
            client_version: self.client.version.clone(),
            // INVARIANT: it was read as a message, so it is UTF-8.
            handshake: str::from_utf8(&self.handshake).unwrap_or_default().to_owned(),
            is_upstream_stateless: self.is_far_stateless(),
            subscribed_uris: self.watched.row().1,
            // It is said after the handshake, and kept then.
            log_level: None,
            last_used_at: used_at,
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// By which it is kept and counted: the id itself is on no disk.
    pub fn hash(&self) -> IdHash {
        self.hash
    }

    pub fn counted(&self) -> IdHash {
        self.counted
    }

    /// The same as a part of a session for all servers.
    pub fn part_of(mut self, whole: &Self) -> Self {
        if let Some(server) = &self.server {
            self.counted = IdHash::of(&[whole.id(), server.as_str()]);
            self.watched = whole.watched.part(server);
        }
        self
    }

    /// The same beside another at the same server: what either says to nobody in particular is for all who listen there.
    pub fn beside(mut self, other: &Self) -> Self {
        self.hub = Arc::clone(&other.hub);
        self
    }

    /// Notes what the server promised to tell of, unless the client was promised something before.
    pub fn note_lists(&self, welcome: &[u8]) {
        lock(&self.lists).get_or_insert_with(|| Lists::advertised(welcome));
    }

    pub fn lists(&self) -> Option<Lists> {
        *lock(&self.lists)
    }

    /// Notes which log messages were asked for, for asking again.
    pub fn note_level(&self, level: &str) {
        *lock(&self.level) = Some(level.into());
    }

    pub fn noted_level(&self) -> Option<Box<str>> {
        lock(&self.level).clone()
    }

    /// Keeps it from being taken for one that nobody uses.
    pub fn hold(self: &Arc<Self>) -> Held {
        Held { session: Arc::clone(self), _count: Arc::clone(&self.held) }
    }

    pub fn grant(&self) -> &GrantId {
        &self.grant
    }

    /// At which server; none for all of the grant's together.
    pub fn server(&self) -> Option<&ServerName> {
        self.server.as_ref()
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn spoken_in_head(&self) -> Option<Revision> {
        spoken_in_head(self.revision)
    }

    pub fn client(&self) -> &ClientInfo {
        &self.client
    }

    /// What the client has declared that it can be asked.
    pub fn declared(&self) -> ClientCapabilities {
        self.declared
    }

    pub fn handshake(&self) -> &Bytes {
        &self.handshake
    }

    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Where the upstream's own stream was left.
    pub fn heard(&self) -> Option<HeaderValue> {
        self.heard.if_used().and_then(|heard| lock(heard).clone())
    }

    /// Notes where it was left in an opening of the session. Another one knows nothing of the events of this.
    pub fn set_heard(&self, last: Option<HeaderValue>, opening: u64) {
        let mut heard = lock(&self.heard);
        if self.openings() == opening {
            *heard = last;
        }
    }

    pub fn link(&self) -> Link {
        lock(&self.link).clone()
    }

    /// The process of its own, if its server is one.
    pub fn child(&self) -> Option<Arc<Child>> {
        match &*lock(&self.link) {
            Link::Child(child) => Some(Arc::clone(child)),
            _ => None,
        }
    }

    pub fn set_link(&self, link: Link) {
        // In this order: who has the new link finds its number, too.
        self.links.fetch_add(1, Ordering::AcqRel);
        *lock(&self.link) = link;
        // In this order: who notes an event of the opening before comes too late, or it is forgotten here.
        self.note_opening();
        // Not only if it is used: who notes an event makes it, and then asks which opening this is.
        *lock(&self.heard) = None;
        // Nobody waits for the answers to what the old one asked, and the new one may use the same ids.
        self.forget_questions();
    }

    /// Nobody will answer any more what the client was asked.
    pub fn forget_questions(&self) {
        if let Some(questions) = self.questions.if_used() {
            questions.forget();
        }
    }

    /// Notes that it was tried to open it at the upstream.
    pub fn note_opening(&self) {
        self.openings.fetch_add(1, Ordering::AcqRel);
    }

    /// How often that was tried since the client's own handshake.
    pub fn openings(&self) -> u64 {
        self.openings.load(Ordering::Acquire)
    }

    /// How often it was opened anew.
    pub fn links(&self) -> u64 {
        self.links.load(Ordering::Acquire)
    }

    /// Whether the server has tasks. Of one that could not be asked again yet nobody knows.
    pub fn has_tasks(&self) -> bool {
        self.tasks.are_there() || matches!(*lock(&self.link), Link::Unopened)
    }

    /// The client's requests that are under way.
    pub fn calls(&self) -> &Arc<Calls> {
        &self.under_way
    }

    /// Finds a request of the client by the id it gave it.
    pub fn find(&self, id: &RequestId<'_>) -> Option<UnderWay> {
        self.under_way.find(id)
    }

    /// Has a request of the client cancelled; false if there is none of this id.
    pub fn cancel(&self, id: &RequestId<'_>) -> bool {
        self.find(id).inspect(|under_way| under_way.cancelled.notify_one()).is_some()
    }

    /// Whether the upstream knows of no session.
    pub fn is_far_stateless(&self) -> bool {
        self.words.is_some()
    }

    /// A request of the client as one that stands alone.
    pub fn stateless(&self, text: &str, retry: Option<&RetryInput<'_>>) -> Option<String> {
        self.words.as_ref()?.stateless(text, retry)
    }

    /// Whether the client has said which log messages it wants.
    pub fn wants_log(&self) -> bool {
        self.words.as_ref().is_some_and(|words| lock(&words.level).is_some())
    }

    /// Notes the least severe log message that the client wants, wherever the session ends: for each request, for asking
    /// again, or for those that are opened at single servers.
    pub fn want_log(&self, level: &str) {
        match (&self.words, &self.server) {
            (Some(words), _) => *lock(&words.level) = Some(to_json_string(level)),
            (None, Some(_)) => self.note_level(level),
            (None, None) => self.parts.set_level(level),
        }
    }

    /// Opens the one stream of the session; an earlier one is told to end. The handle is told when this one has to.
    pub fn open_stream(&self) -> Arc<Notify> {
        let handle = Arc::new(Notify::new());
        if let Some(earlier) = lock(&self.stream).replace(Arc::clone(&handle)) {
            earlier.notify_one();
        }
        handle
    }

    /// Notes that a stream has ended.
    pub fn close_stream(&self, handle: &Arc<Notify>) {
        let mut stream = lock(&self.stream);
        if stream.as_ref().is_some_and(|own| Arc::ptr_eq(own, handle)) {
            *stream = None;
        }
    }

    /// Tells the stream to end.
    pub fn end_stream(&self) {
        if let Some(stream) = lock(&self.stream).take() {
            stream.notify_one();
        }
    }

    fn used_at(&self) -> Instant {
        *lock(&self.used_at)
    }

    fn touch(&self) {
        *lock(&self.used_at) = Instant::now();
    }

    fn is_idle(&self, limit: Duration) -> bool {
        self.is_out_of_use(limit) && lock(&self.stream).is_none()
    }

    fn is_out_of_use(&self, limit: Duration) -> bool {
        let is_held = Arc::strong_count(&self.held) > 1;
        !is_held && lock(&self.used_at).elapsed() > limit && self.under_way.is_empty()
    }
}

/// The use of a session, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    session: Arc<Session>,
    _count: Arc<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // How long nobody has used it counts from the end.
        self.session.touch();
    }
}

/// A revision as each request says it in its head; the first revisions had no such header.
pub(crate) fn spoken_in_head(revision: Revision) -> Option<Revision> {
    Some(revision).filter(|revision| *revision >= Revision::R2025_06_18)
}

/// Whether an upstream that speaks of itself so has log messages to ask for.
pub(crate) fn has_log(welcome: &[u8]) -> bool {
    let welcome = read(welcome, &JsonLimits::REPLY).ok();
    welcome.is_some_and(|welcome| welcome.root().get("capabilities").and_then(|own| own.get("logging")).is_some())
}

/// A panic while holding one of these leaves the table whole: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn a_session_is_out_of_use_from_the_end_of_its_last_use_on() {
        let room = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("room");
        let opening = Opening {
            grant: GrantId("ci".into()),
            server: None,
            revision: Revision::R2025_11_25,
            client: ClientInfo::default(),
            handshake: Bytes::new(),
            welcome: Bytes::new(),
            link: Link::None,
            room,
            is_far_stateless: false,
            takes_log: false,
        };
        let (session, minute) = (Arc::new(Session::new(opening).expect("a session")), Duration::from_secs(60));
        let long_ago = || Instant::now().checked_sub(minute * 2).expect("a time");
        let held = session.hold();
        *lock(&session.used_at) = long_ago();
        assert!(!session.is_out_of_use(minute), "it is in use");
        drop(held);
        assert!(!session.is_out_of_use(minute), "it was until now");
        *lock(&session.used_at) = long_ago();
        assert!(session.is_out_of_use(minute));
    }
}
