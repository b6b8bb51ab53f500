//! The active configuration: servers, grants and compiled policies in one immutable snapshot, replaced as a whole.
//!
//! A request keeps the snapshot it started with. Look-ups take no lock and allocate nothing.

mod server_info_fallback;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use gatelodge_mcp::Revision;
use gatelodge_store::{Clock, GrantId, ServerName, TokenHash};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use self::server_info_fallback::ServerInfoFallback;
use crate::active_policy::GrantServerAccess;
use crate::runtime::InFlightLimit;
use crate::settings::GatewaySettings;
use crate::upstream::{Upstream, UpstreamConfig};

/// A grant as defined in the configuration file or the store.
#[derive(Debug, Clone)]
pub struct GrantConfig {
    /// Id of the grant.
    pub id: GrantId,
    /// Human-readable name.
    pub label: Arc<str>,
    /// Labels that policies can refer to.
    pub labels: BTreeMap<String, String>,
    /// Hash of the token.
    pub token: TokenHash,
    /// Time of expiry.
    pub expires: Option<Timestamp>,
    /// Oldest protocol revision the client may use; `None` allows any.
    pub minimum_revision: Option<Revision>,
    /// The servers that the grant gives access to.
    pub servers: HashMap<ServerName, GrantServerAccess>,
}

/// A grant in the active configuration. Its limits and caches survive reloads as long as the grant exists.
#[derive(Debug)]
pub struct ActiveGrant {
    /// The grant's configuration.
    pub config: GrantConfig,
    /// Limits the number of requests in flight.
    pub(crate) in_flight: Arc<InFlightLimit>,
    /// Limits the number of open streams.
    pub(crate) streams: Arc<InFlightLimit>,
    /// Limits the number of sessions.
    pub(crate) sessions: Arc<Semaphore>,
    /// Server information from the most recent handshakes, for the aggregate endpoint.
    pub(crate) server_info_cache: Arc<ServerInfoFallback>,
}

impl ActiveGrant {
    /// Returns whether the grant has expired.
    pub fn is_expired(&self, at: Timestamp) -> bool {
        self.config.expires.is_some_and(|end| end <= at)
    }
}

/// The servers and grants in the active configuration.
#[derive(Debug, Default)]
pub struct ConfigSnapshot {
    servers: foldhash::HashMap<ServerName, Arc<Upstream>>,
    grants: foldhash::HashMap<TokenHash, Arc<ActiveGrant>>,
}

impl ConfigSnapshot {
    /// Builds the next snapshot. Unchanged servers keep their connections and sessions, and grants with the same id
    /// keep their limits.
    pub(crate) fn with_changes(
        &self,
        servers: Vec<UpstreamConfig>,
        grants: Vec<GrantConfig>,
        limits: &ConcurrencyLimits,
    ) -> Self {
        let upstream = |config: UpstreamConfig| match self.servers.get(&config.name) {
            Some(old) if *old.config() == config => {
                old.tool_registry.invalidate();
                Arc::clone(old)
            }
            _ => Arc::new(Upstream::new(config, limits.in_flight_per_server, limits.processes_per_server)),
        };
        let by_id: HashMap<&GrantId, &Arc<ActiveGrant>> =
            self.grants.values().map(|grant| (&grant.config.id, grant)).collect();
        let grant = |config: GrantConfig| {
            Arc::new(match by_id.get(&config.id) {
                Some(old) => ActiveGrant {
                    config,
                    in_flight: Arc::clone(&old.in_flight),
                    streams: Arc::clone(&old.streams),
                    sessions: Arc::clone(&old.sessions),
                    server_info_cache: Arc::clone(&old.server_info_cache),
                },
                None => ActiveGrant {
                    config,
                    in_flight: InFlightLimit::new(limits.in_flight_per_grant),
                    streams: InFlightLimit::new(limits.in_flight_per_grant),
                    sessions: Arc::new(Semaphore::new(limits.max_sessions_per_grant)),
                    server_info_cache: Arc::default(),
                },
            })
        };
        Self {
            servers: servers.into_iter().map(|config| (config.name.clone(), upstream(config))).collect(),
            grants: grants.into_iter().map(|config| (config.token, grant(config))).collect(),
        }
    }

    /// Finds a server by its name.
    pub fn find_server(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.servers.get(name)
    }

    /// Finds a grant by its token's hash.
    pub fn find_grant(&self, token: &TokenHash) -> Option<&Arc<ActiveGrant>> {
        self.grants.get(token)
    }

    /// Returns all servers.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.servers.values()
    }

    /// Returns all grants.
    pub fn grants(&self) -> impl Iterator<Item = &Arc<ActiveGrant>> {
        self.grants.values()
    }
}

/// Holds the active snapshot, and the clock by which grants expire.
pub(crate) struct ActiveConfig {
    current: ArcSwap<ConfigSnapshot>,
    pub clock: Arc<dyn Clock>,
}

impl ActiveConfig {
    /// Creates an empty configuration.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { current: ArcSwap::default(), clock }
    }

    /// Returns the active snapshot.
    pub fn snapshot(&self) -> arc_swap::Guard<Arc<ConfigSnapshot>> {
        self.current.load()
    }

    /// Activates a snapshot for every request that starts from now on.
    pub fn activate(&self, next: ConfigSnapshot) {
        self.current.store(Arc::new(next));
    }
}

/// Concurrency limits for each grant and each server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConcurrencyLimits {
    pub in_flight_per_grant: usize,
    pub in_flight_per_server: usize,
    pub max_sessions_per_grant: usize,
    pub processes_per_server: usize,
}

impl ConcurrencyLimits {
    pub fn of(settings: &GatewaySettings) -> Self {
        Self {
            in_flight_per_grant: settings.in_flight_per_grant,
            in_flight_per_server: settings.in_flight_per_server,
            max_sessions_per_grant: settings.max_sessions_per_grant,
            processes_per_server: settings.processes_per_server,
        }
    }
}
