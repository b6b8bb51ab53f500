//! Sessions of ours at upstreams that want one, for clients whose requests stand alone: one for each grant and for what
//! its clients can do, so that an upstream asks no client for more than it has declared; and some more where that alone
//! tells to which call a question belongs.

mod session_group;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::JsonValue;
use gatelodge_mcp::translate::shared_capabilities;
use gatelodge_mcp::{ClientCapabilities, ClientRequest, Revision};
use gatelodge_store::{GrantId, ServerName};
use sha2::{Digest, Sha256};

use self::session_group::{NO_EXCLUSIVE_SESSION_MESSAGE, Row, Slot};
use super::initialize::{HandshakeResult, handshake_timeout, handshake_upstream, reserve_session_slot, start_timeout};
use super::protocol_probe::probe_is_stateless;
use crate::Gateway;
use crate::pipeline::{Refusal, can_request_input};
use crate::request_context::{ClientProtocol, RequestContext, StatelessClient};
use crate::session::{ClientInfo, Session, SessionParams, has_logging_capability};
use crate::upstream::{SendError, UpstreamLink};

pub(crate) use self::session_group::ExclusiveSession;

/// A session that no call has had to itself for so long is ended, but for the one that all share.
const SPARE_SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Who shares a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SessionPoolKey {
    grant: GrantId,
    server: ServerName,
    /// Of what the clients can do, and of the log messages they want.
    capabilities_hash: [u8; 32],
}

/// What a client says of itself with a request, by which it shares sessions.
struct PooledClientProfile<'r> {
    key: SessionPoolKey,
    capabilities: String,
    client_info: Option<JsonValue<'r>>,
    log_level: Option<String>,
}

impl<'r> PooledClientProfile<'r> {
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

/// The sessions that are shared.
#[derive(Debug, Default)]
pub(crate) struct SessionPool {
    groups: Mutex<HashMap<SessionPoolKey, Arc<Row>>>,
}

impl SessionPool {
    fn group(&self, key: &SessionPoolKey) -> Arc<Row> {
        Arc::clone(self.lock().entry(key.clone()).or_default())
    }

    /// Forgets places whose session is over.
    fn remove_closed(&self, is_open: impl Fn(&str, &GrantId, &ServerName) -> bool) {
        self.lock().retain(|key, row| match row.first().try_lock() {
            Ok(id) => row.is_more_than_first() || id.as_ref().is_some_and(|id| is_open(id, &key.grant, &key.server)),
            // Somebody is opening it.
            Err(_) => true,
        });
    }

    /// Gives up sessions that calls had to themselves, and that nobody uses; gives their ids.
    fn take_unused(&self, is_unused: impl Fn(&str) -> bool) -> Vec<Box<str>> {
        self.lock().values().flat_map(|row| row.give_up(&is_unused)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionPoolKey, Arc<Row>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gateway {
    /// Ends sessions that calls had to themselves, and that nobody uses any more: each is a process or a connection. Places
    /// whose session is over are forgotten.
    pub(crate) fn end_spare_sessions(&self) {
        let ids = self.session_pool.take_unused(|id| self.sessions.is_unused(id, SPARE_SESSION_IDLE_TIMEOUT));
        ids.iter().for_each(|id| self.sessions.remove(id));
        self.session_pool.remove_closed(|id, grant, server| self.sessions.exists(id, grant, server));
    }
}

/// The client's side with a session of ours, where the upstream wants one.
///
/// # Errors
/// The upstream does not say how it speaks, or opens no session.
pub(crate) async fn with_pooled_session(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    side: Box<StatelessClient>,
) -> Result<Box<StatelessClient>, Refusal> {
    let joining = async {
        if probe_is_stateless(gw, ctx).await? {
            return Ok(side);
        }
        let words = PooledClientProfile::of(ctx, request);
        let row = gw.session_pool.group(&words.key);
        let far = ensure_session(gw, ctx, row.first(), &words, None).await?;
        Ok(Box::new(StatelessClient { upstream_session: Some(far), ..*side }))
    };
    // Many may wait for one that asks a server which hangs; none of them for all that were before it.
    let timeout = handshake_timeout(gw, ctx);
    let joined = tokio::time::timeout(timeout, joining).await;
    joined.unwrap_or(Err(Refusal::Upstream(SendError::HandshakeTimeout(timeout))))
}

/// Whether a call needs a session to itself: the upstream may ask something in its middle, and nothing else would tell
/// that it asks for this one. Over HTTP each call has a stream of its own.
pub(crate) fn needs_exclusive_session(ctx: &RequestContext, request: &ClientRequest<'_>) -> bool {
    let ClientProtocol::Stateless(side) = &ctx.client_protocol else { return false };
    let is_one_stream =
        |far: &Arc<Session>| matches!(far.upstream_link(), UpstreamLink::Process(_) | UpstreamLink::Sse(_));
    can_request_input(request.method())
        && side.client_capabilities.can_answer_server_requests()
        && side.upstream_session.as_ref().is_some_and(is_one_stream)
}

/// The same visit by a session that the call has to itself.
///
/// # Errors
/// As many as may have one.
pub(crate) async fn acquire_exclusive_session(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
) -> Result<RequestContext, Refusal> {
    let words = PooledClientProfile::of(ctx, request);
    let row = gw.session_pool.group(&words.key);
    let make_room = || {
        gw.evict_suspended_call(|suspended| {
            suspended.exclusive_session.as_ref().is_some_and(|exclusive_session| exclusive_session.is_of(&row))
        })
    };
    let exclusive_session = row
        .turn(gw.settings.call_time, make_room)
        .await
        .ok_or(Refusal::CapacityReached(NO_EXCLUSIVE_SESSION_MESSAGE))?;
    let shared = ctx.upstream_session().map(|shared| &**shared);
    let sibling = shared.filter(|_| !exclusive_session.is_first());
    let far = ensure_session(gw, ctx, exclusive_session.slot(), &words, sibling)
        .await
        .map_err(Refusal::as_handshake_failure)?;
    Ok(ctx.with_upstream_session(far, Some(Arc::new(exclusive_session))))
}

/// The session of a place, which is opened if there is none; beside the one that is shared, if it is not that.
async fn ensure_session(
    gw: &Gateway,
    ctx: &RequestContext,
    slot: &Slot,
    words: &PooledClientProfile<'_>,
    shared: Option<&Session>,
) -> Result<Arc<Session>, Refusal> {
    let (grant, server) = (&ctx.grant.config.id, ctx.upstream.name());
    let mut open = slot.lock().await;
    if let Some(session) = open.as_deref().and_then(|id| gw.sessions.find(id, grant, Some(server))) {
        return Ok(session);
    }
    let session =
        open_session(gw, ctx, words, shared).await.inspect_err(|_| ctx.upstream.forget_stateless_support())?;
    // With no wait in between: a session that is open and in no place would be left behind.
    *open = Some(session.id().into());
    Ok(session)
}

async fn open_session(
    gw: &Gateway,
    ctx: &RequestContext,
    words: &PooledClientProfile<'_>,
    shared: Option<&Session>,
) -> Result<Arc<Session>, Refusal> {
    let handshake = initialize_request(&words.capabilities, words.client_info);
    let greeting = async {
        let session_permit = reserve_session_slot(gw, ctx, handshake.len()).await?;
        Ok::<_, Refusal>((session_permit, handshake_upstream(gw, ctx, &handshake).await?))
    };
    let timeout = start_timeout(gw, ctx);
    let greeted = tokio::time::timeout(timeout, greeting).await;
    let (session_permit, handshake_result) =
        greeted.unwrap_or(Err(Refusal::Upstream(SendError::HandshakeTimeout(timeout))))?;
    let level = words.log_level.as_deref().filter(|_| has_logging_capability(&handshake_result.server_info));
    handshake_result.send_initialized(gw, ctx, level).await;
    let HandshakeResult { link, revision, server_info: welcome } = handshake_result;
    let opening = SessionParams {
        grant: ctx.grant.config.id.clone(),
        server: Some(ctx.upstream.name().clone()),
        revision,
        client_info: ClientInfo::of(words.client_info),
        handshake,
        server_info: welcome,
        upstream_link: link,
        session_permit,
        is_upstream_stateless: false,
        accepts_log_messages: words.log_level.is_some(),
    };
    let session = Session::new(opening).map(|session| match shared {
        Some(shared) => session.sharing_hub_with(shared),
        None => session,
    });
    let session = session.and_then(|session| gw.sessions.insert(session)).ok_or(Refusal::Busy("sessions"))?;
    if let Some(level) = level {
        session.note_upstream_log_level(level);
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

impl RequestContext {
    /// The same visit of a client without a session, by another session of ours.
    pub fn with_upstream_session(&self, far: Arc<Session>, exclusive_session: Option<Arc<ExclusiveSession>>) -> Self {
        let mut ctx = self.clone();
        if let ClientProtocol::Stateless(side) = &mut ctx.client_protocol {
            (side.upstream_session, side.exclusive_session) = (Some(far), exclusive_session);
        }
        ctx
    }

    /// The same visit, to go through a session of ours.
    pub fn on_behalf_of_session(&self, session: Arc<Session>) -> Self {
        let side = StatelessClient {
            revision: Revision::R2026_07_28,
            client: ClientInfo::default(),
            client_capabilities: ClientCapabilities::default(),
            wants_log_messages: false,
            param_headers: None,
            upstream_session: Some(session),
            exclusive_session: None,
        };
        Self {
            grant: Arc::clone(&self.grant),
            server_access: self.server_access.clone(),
            upstream: Arc::clone(&self.upstream),
            pins_epoch: self.pins_epoch,
            client_address: Arc::clone(&self.client_address),
            client_protocol: ClientProtocol::Stateless(Box::new(side)),
            // What is sent so belongs to no request of the caller's.
            trace: None,
            request_body: Bytes::new(),
            streaming_digest: None,
        }
    }
}
