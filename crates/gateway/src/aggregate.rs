//! `/mcp`: all servers of a grant under one URL.
//!
//! What is for one server goes the ordinary road of that server, under its own names, policy and limits. What is for
//! all goes that road once for each, beside one another, and nobody waits for a server that does not answer.

mod fan_out;
pub(crate) mod late_list_cache;
mod merged_list;
mod merged_server_info;
pub(crate) mod merged_stream;
mod merged_subscription;
mod per_server_session;
pub(crate) mod router;
mod server_info_cache;
pub(crate) mod tool_name_limit;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::ClientRequest;
use gatelodge_store::ServerName;

use crate::Gateway;
use crate::config_snapshot::{ActiveGrant, ConfigSnapshot, ServerAccess};
use crate::methods::session_pool;
use crate::pipeline::Refusal;
use crate::request_context::{ClientProtocol, RequestContext};
use crate::request_trace::RequestTrace;
use crate::revalidation::Revalidation;
use crate::upstream::Upstream;

pub(crate) use server_info_cache::ServerInfoCache;

/// How long all wait for one. The rest of a second is for putting together what came.
const FAN_OUT_TIMEOUT: Duration = Duration::from_millis(500);
/// Where a client finds that a server did not answer, and why.
const UNAVAILABLE_META_KEY: &str = "gatelodge/unavailable";

/// A request for all servers of a grant.
#[derive(Debug, Clone)]
pub(crate) struct AggregateRequest {
    pub grant: Arc<ActiveGrant>,
    pub address: Arc<str>,
    /// How the client speaks. Its session is one for all.
    pub client_protocol: ClientProtocol,
    pub trace: Option<Box<RequestTrace>>,
    /// A visit to each server, by their names, before it is known how it is spoken to.
    contexts: Vec<RequestContext>,
}

impl AggregateRequest {
    pub fn new(snapshot: &ConfigSnapshot, grant: &Arc<ActiveGrant>, address: &Arc<str>) -> Self {
        let mut contexts: Vec<RequestContext> = granted_servers(snapshot, grant)
            .map(|(upstream, door)| RequestContext {
                grant: Arc::clone(grant),
                server_access: door.clone(),
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
        Self { grant, address, client_protocol: ClientProtocol::Stateful(None), trace: None, contexts }
    }

    /// The visit to one of the servers; none if the grant has none of this name.
    fn find_context(&self, server: &str) -> Option<&RequestContext> {
        self.contexts.iter().find(|ctx| ctx.upstream.name().as_str() == server)
    }

    /// The same visit as the server is spoken to: by a session of the client's there, or as requests are that stand
    /// alone.
    ///
    /// # Errors
    /// The server cannot be spoken to. Nothing of the request was sent.
    async fn with_upstream_session(
        &self,
        gw: &Gateway,
        visit: &RequestContext,
        request: &ClientRequest<'_>,
    ) -> Result<RequestContext, Refusal> {
        let session_ctx = match &self.client_protocol {
            ClientProtocol::Stateful(Some(session)) => {
                per_server_session::ensure_open(gw, session, visit).await.map(|part| visit.with_session(part))
            }
            ClientProtocol::Stateful(None) => Err(Refusal::UnknownReference),
            ClientProtocol::Stateless(modern) => {
                let joined = session_pool::with_pooled_session(gw, visit, request, modern.clone()).await;
                joined.map(|joined| RequestContext {
                    client_protocol: ClientProtocol::Stateless(joined),
                    ..visit.clone()
                })
            }
        };
        let session_ctx = session_ctx.map(|seated| RequestContext { trace: self.trace.clone(), ..seated });
        session_ctx.map_err(Refusal::as_handshake_failure)
    }
}

fn granted_servers<'l>(
    snapshot: &'l ConfigSnapshot,
    grant: &'l ActiveGrant,
) -> impl Iterator<Item = (&'l Arc<Upstream>, &'l ServerAccess)> {
    let door = |(name, door): (&'l ServerName, &'l ServerAccess)| Some((snapshot.find_server(name.as_str())?, door));
    grant.config.servers.iter().filter_map(door)
}

impl Gateway {
    /// What became of what a long stream was opened by: the grant, and all of its servers as they were.
    fn revalidate_aggregate(&self, aggregate: &AggregateRequest) -> Revalidation<AggregateRequest> {
        let (snapshot, config) = (self.config_snapshot(), &aggregate.grant.config);
        let grant = snapshot.find_grant(&config.token).filter(|grant| !grant.is_expired(self.clock.now()));
        let Some(grant) =
            grant.filter(|grant| grant.config.id == config.id && grant.allows_protocol(&aggregate.client_protocol))
        else {
            return Revalidation::Revoked;
        };
        let is_complete = granted_servers(&snapshot, grant).count() == aggregate.contexts.len();
        if is_complete && aggregate.contexts.iter().all(|ctx| self.is_context_current(ctx)) {
            return Revalidation::Unchanged;
        }
        let (side, trace) = (aggregate.client_protocol.clone(), aggregate.trace.clone());
        Revalidation::Replaced(Box::new(AggregateRequest {
            client_protocol: side,
            trace,
            ..AggregateRequest::new(&snapshot, grant, &aggregate.address)
        }))
    }
}
