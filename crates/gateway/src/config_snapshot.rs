//! What is in force: servers, grants and policies, as one immutable picture that is swapped whole.
//!
//! A request keeps the picture it began with. Look-ups take no lock and allocate nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gatelodge_mcp::Revision;
use gatelodge_policy::Policy;
use gatelodge_store::{EnforcementMode, GrantId, PolicyName, PolicyVersion, ServerName, TokenHash};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use crate::aggregate::ServerInfoCache;
use crate::in_flight_limit::InFlightLimit;
use crate::upstream::{Upstream, UpstreamConfig};

/// A policy, compiled, with the name and version that logs give.
#[derive(Debug)]
pub struct ActivePolicy {
    /// Its name.
    pub name: PolicyName,
    /// Its version.
    pub version: PolicyVersion,
    /// What it says.
    pub policy: Policy,
}

/// What a grant has for one server.
#[derive(Debug, Clone)]
pub struct ServerAccess {
    /// The policy; without one every call is refused.
    pub policy: Option<Arc<ActivePolicy>>,
    /// Whether it refuses.
    pub mode: EnforcementMode,
}

impl ServerAccess {
    /// Whether both judge by the same rules. A policy of a file has no versions; there it must be the very same.
    pub(crate) fn has_same_rules(&self, other: &Self) -> bool {
        let is_same_policy = match (&self.policy, &other.policy) {
            (Some(own), Some(other)) => {
                let has_versions = own.version != PolicyVersion(0);
                Arc::ptr_eq(own, other) || (has_versions && own.name == other.name && own.version == other.version)
            }
            (None, None) => true,
            _ => false,
        };
        is_same_policy && self.mode == other.mode
    }
}

/// A grant as the configuration or the store has it.
#[derive(Debug, Clone)]
pub struct GrantConfig {
    /// Its id.
    pub id: GrantId,
    /// What people call it.
    pub label: Arc<str>,
    /// Facts for policies.
    pub labels: BTreeMap<String, String>,
    /// The hash of its token.
    pub token: TokenHash,
    /// When it ends.
    pub expires: Option<Timestamp>,
    /// The oldest revision of the protocol that its bearer may speak; none for any.
    pub minimum_revision: Option<Revision>,
    /// What it may reach.
    pub servers: HashMap<ServerName, ServerAccess>,
}

/// A grant in force.
#[derive(Debug)]
pub struct ActiveGrant {
    /// What was configured.
    pub config: GrantConfig,
    /// Bounds its requests in flight; the same one for as long as the grant lives. So are those below.
    pub(crate) in_flight: Arc<InFlightLimit>,
    /// Bounds its open streams.
    pub(crate) streams: Arc<InFlightLimit>,
    /// Bounds its sessions.
    pub(crate) sessions: Arc<Semaphore>,
    /// What its servers last said of themselves.
    pub(crate) server_info_cache: Arc<ServerInfoCache>,
}

impl ActiveGrant {
    /// Whether the grant has ended.
    pub fn is_expired(&self, at: Timestamp) -> bool {
        self.config.expires.is_some_and(|end| end <= at)
    }
}

/// Everything in force.
#[derive(Debug, Default)]
pub struct ConfigSnapshot {
    servers: foldhash::HashMap<ServerName, Arc<Upstream>>,
    grants: foldhash::HashMap<TokenHash, Arc<ActiveGrant>>,
}

impl ConfigSnapshot {
    /// Makes the next picture. What has not changed is taken over: connections, sessions and what is in flight.
    pub(crate) fn with_changes(
        &self,
        servers: Vec<UpstreamConfig>,
        grants: Vec<GrantConfig>,
        bounds: &ConcurrencyLimits,
    ) -> Self {
        let upstream = |config: UpstreamConfig| match self.servers.get(&config.name) {
            Some(old) if *old.config() == config => {
                old.tool_registry.invalidate();
                Arc::clone(old)
            }
            _ => Arc::new(Upstream::new(config, bounds.in_flight_per_server, bounds.processes_per_server)),
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
                    in_flight: InFlightLimit::new(bounds.in_flight_per_grant),
                    streams: InFlightLimit::new(bounds.in_flight_per_grant),
                    sessions: Arc::new(Semaphore::new(bounds.sessions_per_grant)),
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

    /// All servers.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.servers.values()
    }

    /// All grants.
    pub fn grants(&self) -> impl Iterator<Item = &Arc<ActiveGrant>> {
        self.grants.values()
    }
}

/// How much may be in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConcurrencyLimits {
    pub in_flight_per_grant: usize,
    pub in_flight_per_server: usize,
    pub sessions_per_grant: usize,
    pub processes_per_server: usize,
}
