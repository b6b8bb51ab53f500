//! All sessions in memory, by id.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::HashMap;
use gatelodge_mutants::mutant;
use gatelodge_store::{GrantId, IdDigest, ServerName};
use tokio::sync::Semaphore;

use super::{Session, lock, replay};
use crate::upstream::UpstreamSessionLink;

/// After this idle time, the process of a session may be stopped in favor of another session.
const PROCESS_EVICTION_IDLE_TIME: Duration = Duration::from_secs(10);

/// All sessions, sharded to reduce lock contention.
pub(crate) struct SessionRegistry {
    shards: Vec<Mutex<SessionShard>>,
    max_sessions: usize,
    idle_timeout: Duration,
    /// Budget for replay buffers of all sessions.
    replay_budget: Arc<Semaphore>,
}

/// Sessions by id. Key and session share the id's allocation.
type SessionShard = HashMap<Arc<str>, Arc<Session>>;

/// Maximum total size of the replay buffers of all sessions.
const MAX_REPLAY_BYTES: usize = 256 << 20;

const SHARD_COUNT: usize = 16;

impl SessionRegistry {
    pub fn new(max_sessions: usize, idle_timeout: Duration) -> Self {
        let shards = (0..SHARD_COUNT).map(|_| Mutex::default()).collect();
        Self { shards, max_sessions, idle_timeout, replay_budget: replay::replay_budget(MAX_REPLAY_BYTES) }
    }

    /// Returns whether there is room for another session.
    pub fn has_capacity(&self) -> bool {
        self.count() < self.max_sessions
    }

    /// Adds a session, or returns the one with the same id that was added concurrently; `None` at the session limit.
    pub fn insert(&self, mut session: Session) -> Option<Arc<Session>> {
        if !self.has_capacity() {
            return None;
        }
        session.streams.replay_buffers.set_budget(&self.replay_budget);
        let mut shard = lock(self.shard(session.id())?);
        let entry = shard.entry(Arc::clone(&session.identity.id)).or_insert_with(|| Arc::new(session));
        Some(Arc::clone(entry))
    }

    /// Returns whether a session has this id, regardless of its grant.
    pub fn contains(&self, id: &str) -> bool {
        self.shard(id).is_some_and(|shard| lock(shard).contains_key(id))
    }

    /// Returns the id hashes of sessions that were used within `time` or have an open stream.
    pub fn recently_used(&self, time: Duration) -> Vec<IdDigest> {
        let shards = self.shards.iter().map(lock);
        shards.flat_map(|shard| recently_used_hashes(&shard, time).collect::<Vec<_>>()).collect()
    }

    /// Finds a session of a grant with a server, or with the aggregate endpoint if `server` is `None`, and marks it as
    /// used. A session of another grant is not found.
    pub fn find(&self, id: &str, grant: &GrantId, server: Option<&ServerName>) -> Option<Arc<Session>> {
        let session = lock(self.shard(id)?).get(id).cloned()?;
        let is_of_grant = *session.grant() == *grant || mutant!("session-open-to-any-grant");
        let is_own = is_of_grant && session.server() == server && !session.is_idle(self.idle_timeout);
        if is_own {
            session.usage.touch();
        }
        is_own.then_some(session)
    }

    /// Returns whether a session exists, without marking it as used.
    pub fn exists(&self, id: &str, grant: &GrantId, server: &ServerName) -> bool {
        let session = self.shard(id).and_then(|shard| lock(shard).get(id).cloned());
        session.is_some_and(|session| *session.grant() == *grant && session.server() == Some(server))
    }

    /// Returns whether a session has been idle for longer than `time`, or does not exist.
    pub fn is_unused(&self, id: &str, time: Duration) -> bool {
        let session = self.shard(id).and_then(|shard| lock(shard).get(id).cloned());
        session.is_none_or(|session| session.is_unused(time))
    }

    pub fn remove(&self, id: &str) {
        if let Some(shard) = self.shard(id) {
            lock(shard).remove(id);
        }
    }

    /// Removes and returns sessions that are idle or whose grant no longer exists.
    pub fn remove_expired(&self, has_grant: impl Fn(&GrantId) -> bool) -> Vec<Arc<Session>> {
        let idle = |session: &Arc<Session>| {
            session.streams.replay_buffers.remove_expired();
            session.is_idle(self.idle_timeout) || !has_grant(session.grant())
        };
        let shards = self.shards.iter().map(lock);
        shards
            .flat_map(|mut shard| shard.extract_if(|_, session| idle(session)).collect::<Vec<_>>())
            .map(|(_, session)| session)
            .collect()
    }

    /// Removes ended server sessions from aggregate sessions: each holds one of the grant's session permits.
    pub fn sweep_server_sessions(&self) {
        for session in self.shards.iter().flat_map(|shard| lock(shard).values().cloned().collect::<Vec<_>>()) {
            if let Some(server_sessions) = session.server_sessions.get_if_initialized() {
                server_sessions.sweep(|server_session| self.contains(server_session.id()));
            }
        }
    }

    /// Stops the process of the least recently used session with a server. Returns false if all processes are in use.
    pub fn stop_least_recently_used_process(&self, server: &ServerName) -> bool {
        let all = self.shards.iter().flat_map(|shard| lock(shard).values().cloned().collect::<Vec<_>>());
        let unused =
            all.filter(|session| session.server() == Some(server) && session.is_unused(PROCESS_EVICTION_IDLE_TIME));
        let processes = unused.filter_map(|session| match session.upstream_link.current() {
            UpstreamSessionLink::Process(process) if !process.is_ended() => Some((session.usage.last(), process)),
            _ => None,
        });
        let least = processes.min_by_key(|(used_at, _)| *used_at);
        least.inspect(|(_, process)| process.stop()).is_some()
    }

    /// Invalidates the tool registries of session processes, and closes processes and connections for which `stays`
    /// returns false.
    pub fn drop_stale_links(&self, stays: impl Fn(&Session, &UpstreamSessionLink) -> bool) {
        for session in self.shards.iter().flat_map(|shard| lock(shard).values().cloned().collect::<Vec<_>>()) {
            let link = session.upstream_link.current();
            match (&link, stays(&session, &link)) {
                (UpstreamSessionLink::Process(process), true) => process.tool_registry().invalidate(),
                (UpstreamSessionLink::Process(process), false) => process.stop(),
                (UpstreamSessionLink::Sse(connection), false) => connection.close(),
                (UpstreamSessionLink::Sse(_), true)
                | (UpstreamSessionLink::NoSession | UpstreamSessionLink::NotOpened | UpstreamSessionLink::Http(_), _) =>
                    {}
            }
        }
    }

    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    fn shard(&self, id: &str) -> Option<&Mutex<SessionShard>> {
        // The last hexadecimal digit. A guessed id may contain anything.
        let at = id.bytes().last().and_then(|digit| char::from(digit).to_digit(16)).unwrap_or_default();
        self.shards.get(at as usize % SHARD_COUNT)
    }
}

impl fmt::Debug for SessionRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionRegistry({})", self.count())
    }
}

/// Returns the id hashes of a shard's sessions that were used within `time`.
fn recently_used_hashes(shard: &SessionShard, time: Duration) -> impl Iterator<Item = IdDigest> {
    shard.values().filter(move |session| !session.is_idle(time)).map(|session| session.id_hash())
}
