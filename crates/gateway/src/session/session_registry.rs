//! All sessions of all clients, by their ids.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::HashMap;
use gatelodge_mutants::mutant;
use gatelodge_store::{GrantId, IdHash, ServerName};
use tokio::sync::Semaphore;

use super::{Session, lock, replay};
use crate::upstream::UpstreamLink;

/// A session that nobody has used for so long may lose its process to another.
const PROCESS_EVICTION_IDLE_TIME: Duration = Duration::from_secs(10);

/// All sessions, in several tables so that callers do not wait for one another.
pub(crate) struct SessionRegistry {
    shards: Vec<Mutex<SessionShard>>,
    max_sessions: usize,
    idle_timeout: Duration,
    /// For what clients may come back for.
    replay_budget: Arc<Semaphore>,
}

/// Sessions by their ids, which they share.
type SessionShard = HashMap<Arc<str>, Arc<Session>>;

/// The most bytes of events that are kept for clients of all sessions.
const MAX_REPLAY_BYTES: usize = 256 << 20;

const SHARD_COUNT: usize = 16;

impl SessionRegistry {
    pub fn new(max_sessions: usize, idle_timeout: Duration) -> Self {
        let shards = (0..SHARD_COUNT).map(|_| Mutex::default()).collect();
        Self { shards, max_sessions, idle_timeout, replay_budget: replay::replay_budget(MAX_REPLAY_BYTES) }
    }

    /// Whether there is room for one more.
    pub fn has_capacity(&self) -> bool {
        self.count() < self.max_sessions
    }

    /// Keeps a session, or finds the one of its id that somebody else has kept meanwhile; none if there is no room.
    pub fn insert(&self, mut session: Session) -> Option<Arc<Session>> {
        if !self.has_capacity() {
            return None;
        }
        session.replay_buffers.set_budget(&self.replay_budget);
        let mut table = lock(self.shard(session.id())?);
        let entry = table.entry(Arc::clone(&session.id)).or_insert_with(|| Arc::new(session));
        Some(Arc::clone(entry))
    }

    /// Whether there is one of this id, whosever it is.
    pub fn contains(&self, id: &str) -> bool {
        self.shard(id).is_some_and(|table| lock(table).contains_key(id))
    }

    /// The hashes of those that were used within a time, or whose stream is open.
    pub fn recently_used(&self, time: Duration) -> Vec<IdHash> {
        let tables = self.shards.iter().map(lock);
        tables.flat_map(|table| recently_used_hashes(&table, time).collect::<Vec<_>>()).collect()
    }

    /// Finds a session of a grant at a server, or at all. One of another grant is not there.
    pub fn find(&self, id: &str, grant: &GrantId, server: Option<&ServerName>) -> Option<Arc<Session>> {
        let session = lock(self.shard(id)?).get(id).cloned()?;
        let is_of_grant = *session.grant() == *grant || mutant!("session-open-to-any-grant");
        let is_own = is_of_grant && session.server() == server && !session.is_idle(self.idle_timeout);
        if is_own {
            session.touch();
        }
        is_own.then_some(session)
    }

    /// Whether there is such a session; asking is not using it.
    pub fn exists(&self, id: &str, grant: &GrantId, server: &ServerName) -> bool {
        let session = self.shard(id).and_then(|table| lock(table).get(id).cloned());
        session.is_some_and(|session| *session.grant() == *grant && session.server() == Some(server))
    }

    /// Whether nobody has used a session for so long, or it is over.
    pub fn is_unused(&self, id: &str, time: Duration) -> bool {
        let session = self.shard(id).and_then(|table| lock(table).get(id).cloned());
        session.is_none_or(|session| session.is_unused(time))
    }

    pub fn remove(&self, id: &str) {
        if let Some(table) = self.shard(id) {
            lock(table).remove(id);
        }
    }

    /// Forgets sessions that nobody uses, or whose grant is no more, and gives them.
    pub fn remove_expired(&self, has_grant: impl Fn(&GrantId) -> bool) -> Vec<Arc<Session>> {
        let idle = |session: &Arc<Session>| {
            session.replay_buffers.remove_expired();
            session.is_idle(self.idle_timeout) || !has_grant(session.grant())
        };
        let tables = self.shards.iter().map(lock);
        tables
            .flat_map(|mut table| table.extract_if(|_, session| idle(session)).collect::<Vec<_>>())
            .map(|(_, session)| session)
            .collect()
    }

    /// Has sessions for all servers forget those at single ones that are over: each keeps a place of its grant's.
    pub fn sweep_server_sessions(&self) {
        for session in self.shards.iter().flat_map(|table| lock(table).values().cloned().collect::<Vec<_>>()) {
            if let Some(server_sessions) = session.server_sessions.get_if_initialized() {
                server_sessions.sweep(|part| self.contains(part.id()));
            }
        }
    }

    /// Ends the process of the session at a server that was not used for longest. False if none is out of use.
    pub fn stop_least_recently_used_process(&self, server: &ServerName) -> bool {
        let all = self.shards.iter().flat_map(|table| lock(table).values().cloned().collect::<Vec<_>>());
        let unused =
            all.filter(|session| session.server() == Some(server) && session.is_unused(PROCESS_EVICTION_IDLE_TIME));
        let processes = unused.filter_map(|session| match session.upstream_link() {
            UpstreamLink::Process(process) if !process.is_ended() => Some((session.last_used(), process)),
            _ => None,
        });
        let least = processes.min_by_key(|(used_at, _)| *used_at);
        least.inspect(|(_, child)| child.stop()).is_some()
    }

    /// Looks again at what processes of sessions offer, and ends those, and connections, that are not to stay.
    pub fn drop_stale_links(&self, stays: impl Fn(&Session, &UpstreamLink) -> bool) {
        for session in self.shards.iter().flat_map(|table| lock(table).values().cloned().collect::<Vec<_>>()) {
            let link = session.upstream_link();
            match (&link, stays(&session, &link)) {
                (UpstreamLink::Process(process), true) => process.tool_registry().invalidate(),
                (UpstreamLink::Process(process), false) => process.stop(),
                (UpstreamLink::Sse(connection), false) => connection.close(),
                (UpstreamLink::Sse(_), true)
                | (UpstreamLink::NoSession | UpstreamLink::NotOpened | UpstreamLink::Http(_), _) => {}
            }
        }
    }

    pub fn count(&self) -> usize {
        self.shards.iter().map(|table| lock(table).len()).sum()
    }

    fn shard(&self, id: &str) -> Option<&Mutex<SessionShard>> {
        // Ids are random digits of base sixteen; a guessed one may be anything.
        let at = id.bytes().last().and_then(|digit| char::from(digit).to_digit(16)).unwrap_or_default();
        self.shards.get(at as usize % SHARD_COUNT)
    }
}

impl fmt::Debug for SessionRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.count())
    }
}

/// The hashes of the sessions of a table that were used within a time.
fn recently_used_hashes(table: &SessionShard, time: Duration) -> impl Iterator<Item = IdHash> {
    table.values().filter(move |session| !session.is_idle(time)).map(|session| session.id_hash())
}
