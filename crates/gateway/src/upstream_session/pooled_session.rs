//! Opens sessions with stateful upstreams for stateless clients, or takes them from the pool.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::JsonValue;
use gatelodge_mcp::translate::shared_capabilities;
use gatelodge_mcp::{ClientRequest, Revision};
use sha2::{Digest, Sha256};

use super::call_cancellation::evict_suspended_call;
use super::handshake::{HandshakeResult, handshake_timeout, handshake_upstream, start_timeout};
use super::protocol_probe::probe_is_stateless;
use super::session_slot::reserve_session_slot;
use crate::refusal::Refusal;
use crate::request_context::{ClientProtocol, RequestContext, StatelessClient};
use crate::services::GatewayServices;
use crate::session::session_pool_group::{NO_EXCLUSIVE_SESSION_MESSAGE, PooledSessionSlot};
use crate::session::{ClientInfo, Session, SessionParams, SessionPoolKey, has_logging_capability};
use crate::upstream::{UpstreamSendError, UpstreamSessionLink};

/// The properties that a client declares in a request, and the pool key derived from them.
struct SessionPoolProfile<'r> {
    key: SessionPoolKey,
    capabilities: String,
    client_info: Option<JsonValue<'r>>,
    log_level: Option<String>,
}

impl<'r> SessionPoolProfile<'r> {
    fn of(ctx: &RequestContext, request: &'r ClientRequest<'_>) -> Self {
        let meta = request.meta();
        let capabilities = meta.client_capabilities().map_or_else(|| "{}".to_owned(), shared_capabilities);
        let log_level = meta.log_level().map(|level| level.to_string());
        let mut hash = Sha256::new();
        hash.update(&capabilities);
        hash.update([0]);
        hash.update(log_level.as_deref().unwrap_or_default());
        let (grant, server) = (ctx.grant.config.id.clone(), ctx.upstream.name().clone());
        let key = SessionPoolKey { grant, server, capabilities_hash: hash.finalize().into() };
        Self { key, capabilities, client_info: meta.client_info(), log_level }
    }
}

/// Adds a pooled session to the client's protocol state if the upstream is stateful.
///
/// # Errors
/// The upstream cannot be probed, or does not open a session.
pub(crate) async fn with_pooled_session(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    client: Box<StatelessClient>,
) -> Result<Box<StatelessClient>, Refusal> {
    let opening = async {
        if probe_is_stateless(gw, ctx).await? {
            return Ok(client);
        }
        let profile = SessionPoolProfile::of(ctx, request);
        let group = gw.sessions.pool.group(&profile.key);
        let upstream_session = ensure_session(gw, ctx, group.shared_slot(), &profile, None).await?;
        Ok(Box::new(StatelessClient { upstream_session: Some(upstream_session), ..*client }))
    };
    // The time limit covers waiting for the lock, so waiters do not add up their timeouts.
    let timeout = handshake_timeout(&gw.settings, ctx);
    let opened = tokio::time::timeout(timeout, opening).await;
    opened.unwrap_or(Err(Refusal::Upstream(UpstreamSendError::HandshakeTimeout(timeout))))
}

/// Returns whether a call needs an exclusive session: the upstream may ask for input, and on a shared connection the
/// request could not be attributed to the call. Over HTTP each call has a stream of its own.
pub(crate) fn needs_exclusive_session(ctx: &RequestContext, request: &ClientRequest<'_>) -> bool {
    let ClientProtocol::Stateless(client) = &ctx.client_protocol else { return false };
    let is_one_stream = |upstream_session: &Arc<Session>| {
        matches!(
            upstream_session.upstream_link.current(),
            UpstreamSessionLink::Process(_) | UpstreamSessionLink::Sse(_)
        )
    };
    request.method().can_request_input()
        && client.client_capabilities.can_answer_server_requests()
        && client.upstream_session.as_ref().is_some_and(is_one_stream)
}

/// Returns a context with a session that is exclusive to the call.
///
/// # Errors
/// The limit on exclusive sessions is reached.
pub(crate) async fn acquire_exclusive_session(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
) -> Result<RequestContext, Refusal> {
    let profile = SessionPoolProfile::of(ctx, request);
    let group = gw.sessions.pool.group(&profile.key);
    let evict = || {
        evict_suspended_call(gw, |suspended| {
            suspended.exclusive_session.as_ref().is_some_and(|exclusive_session| exclusive_session.is_of(&group))
        })
    };
    let exclusive_session = group
        .acquire_exclusive(gw.settings.call_timeout, evict)
        .await
        .ok_or(Refusal::CapacityReached(NO_EXCLUSIVE_SESSION_MESSAGE))?;
    let shared = ctx.upstream_session().map(|shared| &**shared);
    let sibling = shared.filter(|_| !exclusive_session.is_shared());
    let upstream_session = ensure_session(gw, ctx, exclusive_session.slot(), &profile, sibling)
        .await
        .map_err(Refusal::into_handshake_failure)?;
    Ok(ctx.with_upstream_session(upstream_session, Some(Arc::new(exclusive_session))))
}

/// Returns the session in `slot`, opening one if the slot is empty. All sessions of a group use the shared session's
/// notification hub.
async fn ensure_session(
    gw: &GatewayServices,
    ctx: &RequestContext,
    slot: &PooledSessionSlot,
    profile: &SessionPoolProfile<'_>,
    shared: Option<&Session>,
) -> Result<Arc<Session>, Refusal> {
    let (grant, server) = (&ctx.grant.config.id, ctx.upstream.name());
    let mut open = slot.lock().await;
    if let Some(session) = open.as_deref().and_then(|id| gw.sessions.registry.find(id, grant, Some(server))) {
        return Ok(session);
    }
    let session =
        open_session(gw, ctx, profile, shared).await.inspect_err(|_| ctx.upstream.forget_stateless_support())?;
    // No await in between: otherwise cancellation could leak an open session.
    *open = Some(session.id().into());
    Ok(session)
}

async fn open_session(
    gw: &GatewayServices,
    ctx: &RequestContext,
    profile: &SessionPoolProfile<'_>,
    shared: Option<&Session>,
) -> Result<Arc<Session>, Refusal> {
    let handshake = initialize_request(&profile.capabilities, profile.client_info);
    let opening = async {
        let session_permit = reserve_session_slot(gw, ctx, handshake.len()).await?;
        Ok::<_, Refusal>((session_permit, handshake_upstream(gw, ctx, &handshake).await?))
    };
    let timeout = start_timeout(&gw.settings, ctx);
    let opened = tokio::time::timeout(timeout, opening).await;
    let (session_permit, handshake_result) =
        opened.unwrap_or(Err(Refusal::Upstream(UpstreamSendError::HandshakeTimeout(timeout))))?;
    let level = profile.log_level.as_deref().filter(|_| has_logging_capability(&handshake_result.server_info));
    handshake_result.send_initialized(gw, ctx, level).await;
    let HandshakeResult { link, revision, server_info } = handshake_result;
    let opening = SessionParams {
        grant: ctx.grant.config.id.clone(),
        server: Some(ctx.upstream.name().clone()),
        revision,
        client_info: ClientInfo::of(profile.client_info),
        handshake,
        server_info,
        upstream_link: link,
        session_permit,
        is_local: false,
        accepts_log_messages: profile.log_level.is_some(),
    };
    let session = Session::new(opening).map(|session| match shared {
        Some(shared) => session.sharing_hub_with(shared),
        None => session,
    });
    let session = session.and_then(|session| gw.sessions.registry.insert(session)).ok_or(Refusal::Busy("sessions"))?;
    if let Some(level) = level {
        session.negotiated.note_upstream_log_level(level);
    }
    Ok(session)
}

fn initialize_request(capabilities: &str, info: Option<JsonValue<'_>>) -> Bytes {
    const GATEWAY_CLIENT_INFO: &str = concat!(r#"{"name":"gatelodge","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
    let info = info.map_or(GATEWAY_CLIENT_INFO, |info| info.raw());
    format!(
        r#"{{"jsonrpc":"2.0","id":"0","method":"initialize","params":{{"protocolVersion":"{}","capabilities":{capabilities},"clientInfo":{info}}}}}"#,
        Revision::R2025_11_25
    )
    .into()
}
