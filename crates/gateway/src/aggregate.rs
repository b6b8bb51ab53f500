//! The aggregate endpoint `/mcp`, which serves all servers of a grant under one URL.
//!
//! A request for one server takes that server's normal request path, under its own names, policy and limits. A request
//! for all servers takes that path once per server, in parallel, and does not wait for servers that are down.

mod aggregate_server_sessions;
mod fan_out;
pub(crate) mod late_list_cache;
mod merged_list;
mod merged_server_info;
pub(crate) mod merged_stream;
mod merged_subscription;
pub(crate) mod router;
pub(crate) mod tool_name_limit;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::ClientRequest;
use gatelodge_store::ServerName;

use self::late_list_cache::LateListCache;
use self::tool_name_limit::WarnedNames;
use crate::active_policy::GrantServerAccess;
use crate::config_snapshot::{ActiveConfig, ActiveGrant, ConfigSnapshot};
use crate::refusal::Refusal;
use crate::request_context::{ClientContext, ClientProtocol, RequestContext, StreamRevalidation};
use crate::services::GatewayServices;
use crate::telemetry::RequestTrace;
use crate::upstream::Upstream;
use crate::upstream_session::pooled_session;

/// Time limit for each server in a fan-out. The rest of a one-second budget is left for merging the responses.
const FAN_OUT_TIMEOUT: Duration = Duration::from_millis(500);
/// `_meta` key that tells a client which servers did not respond, and why.
const UNAVAILABLE_META_KEY: &str = "gatelodge/unavailable";

/// What the aggregate endpoint remembers between requests.
#[derive(Debug, Default)]
pub(crate) struct AggregateCaches {
    pub late_lists: LateListCache,
    pub warned_names: WarnedNames,
}

/// A request on the aggregate endpoint.
#[derive(Debug, Clone)]
pub(crate) struct AggregateRequest {
    pub grant: Arc<ActiveGrant>,
    pub address: Arc<str>,
    /// The client's protocol. A stateful client has one session for all servers.
    pub client_protocol: ClientProtocol,
    pub trace: Option<Box<RequestTrace>>,
    pub caches: Arc<AggregateCaches>,
    /// One context per server, ordered by server name. A context's protocol is set once its upstream session is known.
    contexts: Vec<RequestContext>,
}

impl AggregateRequest {
    pub fn new(
        snapshot: &ConfigSnapshot,
        grant: &Arc<ActiveGrant>,
        address: &Arc<str>,
        caches: &Arc<AggregateCaches>,
    ) -> Self {
        let mut contexts: Vec<RequestContext> = granted_servers(snapshot, grant)
            .map(|(upstream, server_access)| RequestContext {
                grant: Arc::clone(grant),
                server_access: server_access.clone(),
                pins_epoch: upstream.pins_epoch(),
                upstream: Arc::clone(upstream),
                client_address: Arc::clone(address),
                client_protocol: ClientProtocol::Stateful(None),
                trace: None,
                request_body: Bytes::new(),
                streaming_digest: None,
            })
            .collect();
        contexts.sort_by(|one, other| one.upstream.name().cmp(other.upstream.name()));
        let (grant, address) = (Arc::clone(grant), Arc::clone(address));
        let (client_protocol, caches) = (ClientProtocol::Stateful(None), Arc::clone(caches));
        Self { grant, address, client_protocol, trace: None, caches, contexts }
    }

    pub fn client(&self) -> ClientContext<'_> {
        ClientContext {
            grant: &self.grant,
            address: &self.address,
            protocol: &self.client_protocol,
            trace: self.trace.as_deref(),
        }
    }

    /// Returns the context for a server, or `None` if the grant does not include it.
    fn find_context(&self, server: &str) -> Option<&RequestContext> {
        self.contexts.iter().find(|ctx| ctx.upstream.name().as_str() == server)
    }

    /// Returns a copy of `server_ctx` with the upstream session to use: the client's own for a stateful client; a
    /// pooled one, or none, for a stateless client.
    ///
    /// # Errors
    /// The server cannot be used. No part of the request has been sent.
    async fn open_server_session(
        &self,
        gw: &GatewayServices,
        server_ctx: &RequestContext,
        request: &ClientRequest<'_>,
    ) -> Result<RequestContext, Refusal> {
        let session_ctx = match &self.client_protocol {
            ClientProtocol::Stateful(Some(session)) => aggregate_server_sessions::ensure_open(gw, session, server_ctx)
                .await
                .map(|part| server_ctx.with_session(part)),
            ClientProtocol::Stateful(None) => Err(Refusal::UnknownReference),
            ClientProtocol::Stateless(stateless) => {
                let opened = pooled_session::with_pooled_session(gw, server_ctx, request, stateless.clone()).await;
                opened.map(|opened| RequestContext {
                    client_protocol: ClientProtocol::Stateless(opened),
                    ..server_ctx.clone()
                })
            }
        };
        let session_ctx = session_ctx.map(|session_ctx| RequestContext { trace: self.trace.clone(), ..session_ctx });
        session_ctx.map_err(Refusal::into_handshake_failure)
    }
}

fn granted_servers<'l>(
    snapshot: &'l ConfigSnapshot,
    grant: &'l ActiveGrant,
) -> impl Iterator<Item = (&'l Arc<Upstream>, &'l GrantServerAccess)> {
    let server_access = |(name, server_access): (&'l ServerName, &'l GrantServerAccess)| {
        Some((snapshot.find_server(name.as_str())?, server_access))
    };
    grant.config.servers.iter().filter_map(server_access)
}

impl ActiveConfig {
    /// Checks the grant and servers of a long-lived aggregate stream against the active configuration.
    fn revalidate_aggregate(&self, aggregate: &AggregateRequest) -> StreamRevalidation<AggregateRequest> {
        let (snapshot, config) = (self.snapshot(), &aggregate.grant.config);
        let grant = snapshot.find_grant(&config.token).filter(|grant| !grant.is_expired(self.clock.now()));
        let Some(grant) =
            grant.filter(|grant| grant.config.id == config.id && grant.allows_protocol(&aggregate.client_protocol))
        else {
            return StreamRevalidation::Revoked;
        };
        let is_complete = granted_servers(&snapshot, grant).count() == aggregate.contexts.len();
        if is_complete && aggregate.contexts.iter().all(|ctx| self.is_context_current(ctx)) {
            return StreamRevalidation::Unchanged;
        }
        let (client_protocol, trace) = (aggregate.client_protocol.clone(), aggregate.trace.clone());
        StreamRevalidation::Replaced(Box::new(AggregateRequest {
            client_protocol,
            trace,
            ..AggregateRequest::new(&snapshot, grant, &aggregate.address, &aggregate.caches)
        }))
    }
}
