//! What a legacy session remembers. It is no authority: every request shows its token, and a session of another grant
//! is not there.

mod calls;
mod hub;
pub(crate) mod keeping;
mod parts;
mod replay;
mod words;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_json::{Limits, Value, read};
use gatelodge_mcp::bridge::Retry;
use gatelodge_mcp::{Id, Revision};
use gatelodge_store::{GrantId, IdHash, ServerName, SessionRow};
use http::HeaderValue;
use jiff::Timestamp;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use self::hub::Hub;
use self::parts::Parts;
use self::words::{OwnWords, Watched};
use crate::call::Progress;
use crate::lists::Lists;
use crate::upstream::Link;

pub(crate) use self::calls::{Calls, UnderWay, cancelled};
pub(crate) use self::replay::{Place, STANDALONE, Streams};

/// The most of a client's name that is kept.
const MAX_CLIENT_TEXT: usize = 128;
/// Calls that have made tasks and of whose progress the client hears, and tasks of the client's own; beyond that the
/// oldest is forgotten.
const MAX_TASKS: usize = 256;
/// Questions of an upstream that wait for the client's answer; beyond that the oldest is forgotten.
const MAX_ASKED: usize = 256;

/// An id has 256 random bits, and is written in base sixteen.
const ID_BYTES: usize = 32;

/// A session that nobody has used for so long may lose its process to another.
const OUT_OF_USE: Duration = Duration::from_secs(10);

/// What a client says of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientInfo {
    pub name: Option<String>,
    pub version: Option<String>,
}

impl ClientInfo {
    /// Takes name and version from what a client declares, cut to a fair length and without control characters.
    pub fn of(info: Option<Value<'_>>) -> Self {
        let text = |member: &str| {
            let value = info?.get(member)?.as_str()?;
            Some(value.chars().filter(|character| !character.is_control()).take(MAX_CLIENT_TEXT).collect())
        };
        Self { name: text("name"), version: text("version") }
    }
}

/// What was agreed in a handshake, and what is under way.
#[derive(Debug)]
pub(crate) struct Session {
    id: Box<str>,
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
    /// What the upstream said of itself: the result of its handshake, or of `server/discover`.
    pub welcome: Bytes,
    /// Of which lists the client was promised to hear when they change; none where that is not known any more.
    lists: Mutex<Option<Lists>>,
    pub takes_log: bool,
    /// What the client said of itself, where the upstream wants it said with each request.
    words: Option<OwnWords>,
    /// The upstream's end. Written at the handshake and when it is done again.
    link: Mutex<Link>,
    openings: AtomicU64,
    /// Whether the server has said that it has tasks, or has made one.
    has_tasks: AtomicBool,
    /// The client's own tasks: by which method the upstream asked for what they do.
    client_tasks: Mutex<VecDeque<(String, String)>>,
    /// What the client hears of the progress of calls that have made tasks, by our own tokens.
    progress: Mutex<VecDeque<(String, Arc<Progress>)>>,
    /// The client's requests under way, by the ids it gave them: each is told when the client cancels.
    under_way: Calls,
    /// What the upstream asked of the client, by the ids we gave it.
    asked: Mutex<HashMap<String, Asked>>,
    /// The stream that the client holds open. Whoever opens another, or ends the session, tells this one to end; the
    /// task that serves it listens.
    stream: Mutex<Option<Arc<Notify>>>,
    /// For clients that listen by requests that stand alone.
    pub hub: Hub,
    /// What is heard of resources, where the upstream has no session to keep it in.
    pub watched: Watched,
    streams: Streams,
    /// The last event of the upstream's own stream of what belongs to no request.
    heard: Mutex<Option<HeaderValue>>,
    /// Held by whoever serves the client's stream, so that one that takes its place finds all that was sent on it.
    pub streaming: tokio::sync::Mutex<()>,
    used_at: Mutex<Instant>,
    /// Held while the handshake is done again, so that many calls that find the session lost do it once.
    pub reopening: tokio::sync::Mutex<()>,
    /// The sessions at single servers, where this one is for all of them.
    pub parts: Parts,
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

/// A question of an upstream.
#[derive(Debug)]
struct Asked {
    to: AskedBy,
    at: Instant,
}

/// Who waits for the answer to a question.
#[derive(Debug)]
pub(crate) enum AskedBy {
    /// The upstream, under its own id of it; and which method it asked by.
    Upstream(Id<'static>, String),
    /// A call of ours, which sends it on with the next request.
    Call(oneshot::Sender<Bytes>),
}

impl Session {
    /// A new one; none if there is no randomness.
    pub fn new(opening: Opening) -> Option<Self> {
        let mut random = [0; ID_BYTES];
        getrandom::fill(&mut random).ok()?;
        Self::of_id(&HEXLOWER.encode(&random), opening)
    }

    /// One that was kept. An upstream's end has to be opened before anything can be sent.
    pub fn restored(id: &str, row: SessionRow, room: OwnedSemaphorePermit) -> Option<Self> {
        let opening = Opening {
            grant: row.grant,
            server: row.server,
            revision: row.revision.parse().ok()?,
            client: ClientInfo { name: row.client_name, version: row.client_version },
            handshake: row.handshake.into(),
            welcome: Bytes::new(),
            link: if row.is_far_stateless { Link::None } else { Link::Unopened },
            room,
            is_far_stateless: row.is_far_stateless,
            takes_log: true,
        };
        Self::of_id(id, opening)
    }

    fn of_id(id: &str, opening: Opening) -> Option<Self> {
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
            words: is_far_stateless.then(|| OwnWords::of(&handshake)),
            handshake,
            lists: Mutex::new((!welcome.is_empty()).then(|| Lists::advertised(&welcome))),
            welcome,
            takes_log,
            link: Mutex::new(link),
            openings: AtomicU64::new(0),
            has_tasks: AtomicBool::new(false),
            client_tasks: Mutex::default(),
            progress: Mutex::default(),
            under_way: Calls::default(),
            asked: Mutex::default(),
            stream: Mutex::default(),
            hub: Hub::default(),
            watched: Watched::default(),
            streams: Streams::new(replay::room_for(0))?,
            heard: Mutex::default(),
            streaming: tokio::sync::Mutex::default(),
            used_at: Mutex::new(Instant::now()),
            reopening: tokio::sync::Mutex::default(),
            parts: Parts::default(),
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
            is_far_stateless: self.is_far_stateless(),
            used_at,
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
        let server = self.server.as_ref().map_or("", |server| server.as_str());
        self.counted = IdHash::of(&[whole.id(), server]);
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
    pub fn hold(&self) -> Arc<()> {
        Arc::clone(&self.held)
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

    /// The revision as each request says it in its head; the first revisions had no such header.
    pub fn spoken_in_head(&self) -> Option<Revision> {
        Some(self.revision).filter(|revision| *revision >= Revision::R2025_06_18)
    }

    pub fn client(&self) -> &ClientInfo {
        &self.client
    }

    pub fn handshake(&self) -> &Bytes {
        &self.handshake
    }

    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Where the upstream's own stream was left.
    pub fn heard(&self) -> Option<HeaderValue> {
        lock(&self.heard).clone()
    }

    pub fn set_heard(&self, last: Option<HeaderValue>) {
        *lock(&self.heard) = last;
    }

    pub fn link(&self) -> Link {
        lock(&self.link).clone()
    }

    pub fn set_link(&self, link: Link) {
        *lock(&self.link) = link;
        self.set_heard(None);
        // Nobody waits for the answers to what the old one asked, and the new one may use the same ids.
        lock(&self.asked).clear();
        self.note_opening();
    }

    /// Notes that it was tried to open it at the upstream.
    pub fn note_opening(&self) {
        self.openings.fetch_add(1, Ordering::AcqRel);
    }

    /// How often that was tried since the client's own handshake.
    pub fn openings(&self) -> u64 {
        self.openings.load(Ordering::Acquire)
    }

    /// Whether the server has tasks. Of one that could not be asked again yet nobody knows.
    pub fn has_tasks(&self) -> bool {
        self.has_tasks.load(Ordering::Relaxed) || matches!(*lock(&self.link), Link::Unopened)
    }

    pub fn note_tasks(&self) {
        self.has_tasks.store(true, Ordering::Relaxed);
    }

    /// Notes what the client hears of the progress of a call that has made a task.
    pub fn note_progress(&self, own: &str, told: Arc<Progress>) {
        let mut progress = lock(&self.progress);
        progress.push_back((own.to_owned(), told));
        if progress.len() > MAX_TASKS {
            progress.pop_front();
        }
    }

    /// What the client hears of progress under a token of ours.
    pub fn progress_of(&self, own: &Id<'_>) -> Option<Arc<Progress>> {
        let own = own.as_str()?;
        lock(&self.progress).iter().find(|(known, _)| *known == own).map(|(_, told)| Arc::clone(told))
    }

    /// Notes a task that the client has made of what the upstream asked by a method.
    pub fn note_client_task(&self, task: String, method: String) {
        let mut tasks = lock(&self.client_tasks);
        tasks.push_back((task, method));
        if tasks.len() > MAX_TASKS {
            tasks.pop_front();
        }
    }

    /// The method by which the upstream asked for what a task of the client does.
    pub fn asked_for(&self, task: &str) -> Option<String> {
        lock(&self.client_tasks).iter().rfind(|(own, _)| own == task).map(|(_, method)| method.clone())
    }

    /// The client's requests that are under way.
    pub fn calls(&self) -> &Calls {
        &self.under_way
    }

    /// Finds a request of the client by the id it gave it.
    pub fn find(&self, id: &Id<'_>) -> Option<Arc<UnderWay>> {
        self.under_way.find(id)
    }

    /// Whether the upstream has declared a capability.
    pub fn offers_member(&self, capability: &str) -> bool {
        let welcome = read(&self.welcome, &Limits::REPLY).ok();
        welcome.is_some_and(|welcome| welcome.root().get("capabilities").and_then(|own| own.get(capability)).is_some())
    }

    /// Whether the upstream knows of no session.
    pub fn is_far_stateless(&self) -> bool {
        self.words.is_some()
    }

    /// A request of the client as one that stands alone.
    pub fn stateless(&self, text: &str, retry: Option<&Retry<'_>>) -> Option<String> {
        self.words.as_ref()?.stateless(text, retry)
    }

    /// Notes the least severe log message that the client wants, as JSON.
    pub fn set_level(&self, level: String) {
        if let Some(words) = &self.words {
            *lock(&words.level) = Some(level);
        }
    }

    /// Notes what is asked, and gives the id to ask the client under.
    pub fn ask(&self, to: AskedBy) -> Option<String> {
        let mut random = [0; 12];
        getrandom::fill(&mut random).ok()?;
        let own = format!("gl-{}", HEXLOWER.encode(&random));
        let mut asked = lock(&self.asked);
        if asked.len() >= MAX_ASKED {
            let oldest = asked.iter().min_by_key(|(_, question)| question.at).map(|(own, _)| own.clone());
            oldest.and_then(|oldest| asked.remove(&oldest));
        }
        asked.insert(own.clone(), Asked { to, at: Instant::now() });
        Some(own)
    }

    /// Takes what the client answers: who waits for it.
    pub fn answered(&self, id: &Id<'_>) -> Option<AskedBy> {
        lock(&self.asked).remove(id.as_str()?).map(|question| question.to)
    }

    /// Nobody will answer any more what the client was asked.
    pub fn forget_asked(&self) {
        lock(&self.asked).clear();
    }

    /// Whether the client was asked something under this id.
    pub fn has_asked(&self, id: &Id<'_>) -> bool {
        id.as_str().is_some_and(|id| lock(&self.asked).contains_key(id))
    }

    /// Forgets what the upstream asked under `id`, and gives the id under which the client was asked.
    pub fn taken_back(&self, id: &Id<'_>) -> Option<String> {
        let mut asked = lock(&self.asked);
        let is_it = |question: &Asked| matches!(&question.to, AskedBy::Upstream(own, _) if own == id);
        let own = asked.iter().find(|(_, question)| is_it(question)).map(|(own, _)| own.clone())?;
        asked.remove(&own);
        Some(own)
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

/// All sessions, in several tables so that callers do not wait for one another.
pub(crate) struct Sessions {
    tables: Vec<Mutex<HashMap<Box<str>, Arc<Session>>>>,
    limit: usize,
    idle: Duration,
    /// For what clients may come back for.
    room: Arc<Semaphore>,
}

/// The most bytes of events that are kept for clients of all sessions.
const MAX_KEPT: usize = 256 << 20;

const TABLES: usize = 16;

impl Sessions {
    pub fn new(limit: usize, idle: Duration) -> Self {
        let tables = (0..TABLES).map(|_| Mutex::default()).collect();
        Self { tables, limit, idle, room: replay::room_for(MAX_KEPT) }
    }

    /// Whether there is room for one more.
    pub fn has_room(&self) -> bool {
        self.count() < self.limit
    }

    /// Keeps a session, or finds the one of its id that somebody else has kept meanwhile; none if there is no room.
    pub fn insert(&self, mut session: Session) -> Option<Arc<Session>> {
        if !self.has_room() {
            return None;
        }
        session.streams.share(&self.room);
        let mut table = lock(self.table(session.id())?);
        let entry = table.entry(session.id().into()).or_insert_with(|| Arc::new(session));
        Some(Arc::clone(entry))
    }

    /// Whether there is one of this id, whosever it is.
    pub fn has(&self, id: &str) -> bool {
        self.table(id).is_some_and(|table| lock(table).contains_key(id))
    }

    /// The hashes of those that were used within a time, or whose stream is open.
    pub fn used_within(&self, time: Duration) -> Vec<IdHash> {
        let tables = self.tables.iter().map(lock);
        tables.flat_map(|table| in_use(&table, time).collect::<Vec<_>>()).collect()
    }

    /// Finds a session of a grant at a server, or at all. One of another grant is not there.
    pub fn find(&self, id: &str, grant: &GrantId, server: Option<&ServerName>) -> Option<Arc<Session>> {
        let session = lock(self.table(id)?).get(id).cloned()?;
        let is_own = session.grant == *grant && session.server() == server && !session.is_idle(self.idle);
        if is_own {
            session.touch();
        }
        is_own.then_some(session)
    }

    /// Whether there is such a session; asking is not using it.
    pub fn is_there(&self, id: &str, grant: &GrantId, server: &ServerName) -> bool {
        let session = self.table(id).and_then(|table| lock(table).get(id).cloned());
        session.is_some_and(|session| session.grant == *grant && session.server() == Some(server))
    }

    pub fn remove(&self, id: &str) {
        if let Some(table) = self.table(id) {
            lock(table).remove(id);
        }
    }

    /// Forgets sessions that nobody uses, or whose grant is no more, and gives them.
    pub fn sweep(&self, has_grant: impl Fn(&GrantId) -> bool) -> Vec<Arc<Session>> {
        let idle = |session: &Arc<Session>| {
            session.streams.forget_old();
            session.is_idle(self.idle) || !has_grant(&session.grant)
        };
        let tables = self.tables.iter().map(lock);
        tables
            .flat_map(|mut table| table.extract_if(|_, session| idle(session)).collect::<Vec<_>>())
            .map(|(_, session)| session)
            .collect()
    }

    /// Has sessions for all servers forget those at single ones that are over: each keeps a place of its grant's.
    pub fn sweep_parts(&self) {
        for session in self.tables.iter().flat_map(|table| lock(table).values().cloned().collect::<Vec<_>>()) {
            session.parts.sweep(|part| self.has(part.id()));
        }
    }

    /// Ends the process of the session at a server that was not used for longest. False if none is out of use.
    pub fn end_least_used_child(&self, server: &ServerName) -> bool {
        let all = self.tables.iter().flat_map(|table| lock(table).values().cloned().collect::<Vec<_>>());
        let unused = all.filter(|session| session.server() == Some(server) && session.is_out_of_use(OUT_OF_USE));
        let children = unused.filter_map(|session| match session.link() {
            Link::Child(child) if !child.is_over() => Some((*lock(&session.used_at), child)),
            _ => None,
        });
        let least = children.min_by_key(|(used_at, _)| *used_at);
        least.inspect(|(_, child)| child.end()).is_some()
    }

    /// Looks again at what processes of sessions offer, and ends those, and connections, that are not to stay.
    pub fn look_at_links(&self, stays: impl Fn(&Session, &Link) -> bool) {
        for session in self.tables.iter().flat_map(|table| lock(table).values().cloned().collect::<Vec<_>>()) {
            let link = session.link();
            match (&link, stays(&session, &link)) {
                (Link::Child(child), true) => child.offers().forget(),
                (Link::Child(child), false) => child.end(),
                (Link::Sse(connection), false) => connection.end(),
                (Link::Sse(_), true) | (Link::None | Link::Unopened | Link::Http(_), _) => {}
            }
        }
    }

    pub fn count(&self) -> usize {
        self.tables.iter().map(|table| lock(table).len()).sum()
    }

    fn table(&self, id: &str) -> Option<&Mutex<HashMap<Box<str>, Arc<Session>>>> {
        // Ids are random digits of base sixteen; a guessed one may be anything.
        let at = id.bytes().last().and_then(|digit| char::from(digit).to_digit(16)).unwrap_or_default();
        self.tables.get(at as usize % TABLES)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.count())
    }
}

/// The hashes of the sessions of a table that were used within a time.
fn in_use(table: &HashMap<Box<str>, Arc<Session>>, time: Duration) -> impl Iterator<Item = IdHash> {
    table.values().filter(move |session| !session.is_idle(time)).map(|session| session.hash)
}

/// A panic while holding one of these leaves the table whole: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
