//! Handshake with a stateful client: performs the handshake with the upstream, then opens the client's session.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::{JsonKind, read};
use gatelodge_mcp::translate::{shared_capabilities, to_json_string};
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, ProtocolGeneration, RequestId, Revision, read_client_message,
};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use tokio::sync::OwnedSemaphorePermit;

use super::policy_exempt_messages::{exchange_with_upstream, reply_refusal};
use super::protocol_probe::fetch_server_info;
use super::resources_subscribe;
use super::server_message_filter::send_one_way;
use crate::config_snapshot::ActiveGrant;
use crate::pipeline::{CallRecorder, await_own_response, response_for_client, result_text};
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::session::{ClientInfo, Session, SessionParams, protocol_version_header};
use crate::upstream::{Permit, Upstream, UpstreamRequest, UpstreamResponse, UpstreamSendError, UpstreamSessionLink};
use crate::{Gateway, reply};

/// Maximum size of a handshake; real ones have a few hundred bytes.
pub(crate) const MAX_HANDSHAKE_BYTES: usize = 64 << 10;
/// Time limit for a process to start and respond to the handshake; clients give up after 30 s.
const PROCESS_START_TIMEOUT: Duration = Duration::from_secs(25);
const INITIALIZED_NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Handles `initialize`.
pub(crate) async fn handle_initialize(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    let timeout = handshake_timeout(gw, ctx);
    let opening = async {
        let session_permit = reserve_session_slot(gw, ctx, request.text().len()).await?;
        open_session(gw, ctx, request, &recorder, session_permit, &mut responder).await
    };
    let opened = tokio::time::timeout(timeout, opening).await;
    match opened.unwrap_or(Err(Refusal::Upstream(UpstreamSendError::HandshakeTimeout(timeout)))) {
        Ok((text, outcome)) => {
            responder.finish(text).await;
            gw.write_row(recorder.outcome_row(outcome, None)).await;
        }
        Err(Refusal::Upstream(error)) => {
            let outcome = error.outcome();
            reply_refusal(gw, request.id(), &mut recorder, (Refusal::Handshake(error), outcome), responder).await;
        }
        Err(refusal) => {
            responder.finish(reply::internal_error_reply(request.id(), recorder.call_id(), &refusal)).await;
            gw.record_refusal(&mut recorder, &refusal).await;
        }
    }
}

/// Acquires one of the grant's session slots. If all process slots of the server are taken, first tries to stop a
/// process to make room for the new session.
pub(crate) async fn reserve_session_slot(
    gw: &Gateway,
    ctx: &RequestContext,
    handshake: usize,
) -> Result<OwnedSemaphorePermit, Refusal> {
    // The handshake is kept for the lifetime of the session.
    if handshake > MAX_HANDSHAKE_BYTES {
        return Err(Refusal::TooLarge("the handshake", MAX_HANDSHAKE_BYTES));
    }
    evict_process_if_full(gw, ctx).await;
    gw.acquire_session_permit(&ctx.grant).await.ok_or(Refusal::Busy("sessions"))
}

async fn open_session(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    recorder: &CallRecorder,
    session_permit: OwnedSemaphorePermit,
    responder: &mut Responder,
) -> Result<(Bytes, CallOutcome), Refusal> {
    let exchanged = exchange_with_upstream(gw, ctx, request, recorder, responder).await.map_err(|error| match error {
        UpstreamSendError::Timeout => UpstreamSendError::HandshakeTimeout(gw.settings.call_timeout),
        other => other,
    });
    let is_refused = is_handshake_rejected(&exchanged, gw);
    // The server may have been upgraded to the stateless protocol since it was probed.
    if is_refused && ctx.upstream.supports_stateless() == Some(false) {
        ctx.upstream.forget_stateless_support();
    }
    if is_refused && let Ok(Some(server_info)) = fetch_server_info(gw, ctx).await {
        drop(exchanged);
        return open_local_session(gw, ctx, request, server_info, session_permit, responder).await;
    }
    let (message, exchange) = exchanged?;
    let gone = |what: &str| UpstreamSendError::InvalidResponse(what.to_owned());
    let (text, outcome) = response_for_client(ctx, &message, request.id(), &gw.settings.reply_limits)
        .ok_or_else(|| gone("the response cannot be read"))?;
    let Some(result) = result_text(&message, &gw.settings.reply_limits)? else { return Ok((text, outcome)) };
    let revision = agreed_revision(&result).filter(|revision| revision.generation() == ProtocolGeneration::Stateful);
    let revision = revision.ok_or_else(|| gone("the server chose a revision that has no handshake or is unknown"))?;
    if let Err(protocol_error) = ctx.check_revision(revision) {
        end_upstream_session(gw, &ctx.upstream, exchange.session_link.clone()).await;
        return Err(Refusal::Protocol(protocol_error));
    }
    let client = ClientInfo::of(request.params().and_then(|params| params.get("clientInfo")));
    let handshake = Bytes::copy_from_slice(request.text().as_bytes());
    let opening = SessionParams {
        grant: ctx.grant.config.id.clone(),
        server: Some(ctx.upstream.name().clone()),
        revision,
        client_info: client,
        handshake,
        server_info: Bytes::new(),
        upstream_link: exchange.session_link.clone().after_handshake(&ctx.upstream),
        session_permit,
        is_upstream_stateless: false,
        accepts_log_messages: true,
    };
    let Some(session) = Session::new(opening).and_then(|session| gw.sessions.insert(session)) else {
        end_upstream_session(gw, &ctx.upstream, exchange.session_link.clone()).await;
        return Err(gone("there are too many sessions").into());
    };
    session.note_list_changed(&result);
    if has_tasks(&result) {
        session.tasks.note_server_task();
    }
    if responder.set_session(&session) {
        gw.persist_session(&session).await;
    }
    Ok((text, outcome))
}

/// Returns whether the upstream rejected the handshake, which suggests that it does not support handshakes.
fn is_handshake_rejected(exchanged: &Result<(Bytes, UpstreamResponse), UpstreamSendError>, gw: &Gateway) -> bool {
    match exchanged {
        Err(UpstreamSendError::Status(400 | 404 | 405)) => true,
        Ok((message, _)) => matches!(result_text(message, &gw.settings.reply_limits), Ok(None)),
        Err(_) => false,
    }
}

/// Opens a session with a stateful client of a stateless upstream. The session exists only in the gateway.
async fn open_local_session(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    server_info: Bytes,
    session_permit: OwnedSemaphorePermit,
    responder: &mut Responder,
) -> Result<(Bytes, CallOutcome), Refusal> {
    let params = request.params();
    let wanted = params.and_then(|params| params.get("protocolVersion")?.as_str()?.parse().ok());
    let revision = wanted
        .filter(|revision: &Revision| revision.generation() == ProtocolGeneration::Stateful)
        .unwrap_or(Revision::R2025_11_25);
    ctx.check_revision(revision).map_err(Refusal::Protocol)?;
    let text = to_initialize_result(ctx, &server_info, revision);
    let opening = SessionParams {
        grant: ctx.grant.config.id.clone(),
        server: Some(ctx.upstream.name().clone()),
        revision,
        client_info: ClientInfo::of(params.and_then(|params| params.get("clientInfo"))),
        handshake: Bytes::copy_from_slice(request.text().as_bytes()),
        server_info,
        upstream_link: UpstreamSessionLink::NoSession,
        session_permit,
        is_upstream_stateless: true,
        accepts_log_messages: true,
    };
    let session = Session::new(opening).and_then(|session| gw.sessions.insert(session));
    let session = session.ok_or_else(|| UpstreamSendError::NotSent("there are too many sessions".to_owned()))?;
    if responder.set_session(&session) {
        gw.persist_session(&session).await;
    }
    Ok((gatelodge_mcp::result_response(request.id(), &text).into(), CallOutcome::Ok))
}

/// Translates the result of `server/discover` into a result of `initialize`.
fn to_initialize_result(ctx: &RequestContext, server_info: &[u8], revision: Revision) -> String {
    let document = read(server_info, &gatelodge_json::JsonLimits::REPLY).ok();
    let member = |name: &str| document.as_ref().and_then(|document| document.root().get(name));
    let capabilities = member("capabilities").filter(|own| own.kind() == JsonKind::Object);
    let capabilities = capabilities.map_or_else(|| "{}".to_owned(), shared_capabilities);
    let info = member("_meta").and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"));
    let info = info.filter(|info| info.kind() == JsonKind::Object).map(|info| info.raw().to_owned());
    let info = info.unwrap_or_else(|| format!(r#"{{"name":"{}","version":"unknown"}}"#, ctx.upstream.name()));
    let mut out = format!(r#"{{"protocolVersion":"{revision}","capabilities":{capabilities},"serverInfo":{info}"#);
    if let Some(instructions) = member("instructions").filter(|own| own.kind() == JsonKind::String) {
        out.push_str(&format!(r#","instructions":{}"#, instructions.raw()));
    }
    out.push('}');
    ctx.upstream.secret_redactor().redact_json(out)
}

fn agreed_revision(result: &[u8]) -> Option<Revision> {
    let document = read(result, &gatelodge_json::JsonLimits::REPLY).ok()?;
    document.root().get("protocolVersion")?.as_str()?.parse().ok()
}

pub(crate) fn has_tasks(result: &[u8]) -> bool {
    str::from_utf8(result).is_ok_and(|result| gatelodge_mcp::has_task_capability(result, ProtocolGeneration::Stateful))
}

/// Repeats the handshake with an upstream that has lost the session. Concurrent calls share one attempt:
/// `handshake_attempts` is the number of attempts when the failed message was sent, and if there has been another
/// attempt since, none is made. Calls are not repeated. If the upstream negotiates another revision, the session ends
/// and the client has to start again.
pub(crate) async fn reopen_session(gw: &Gateway, ctx: &RequestContext, handshake_attempts: Option<u64>) {
    let Some(session) = ctx.upstream_session() else { return };
    let opening = async {
        let _one_at_a_time = session.reopen_lock.lock().await;
        // Concurrent callers share the result of one attempt, even if it failed.
        if Some(session.handshake_attempts()) == handshake_attempts || mutant!("lost-session-reopened-by-every-call") {
            redo_handshake(gw, ctx, session).await;
        }
    };
    if tokio::time::timeout(start_timeout(gw, ctx), opening).await.is_err() {
        session.note_handshake_attempt();
    }
}

/// Returns the time limit for opening a session while another request is being handled.
pub(crate) fn start_timeout(gw: &Gateway, ctx: &RequestContext) -> Duration {
    if ctx.upstream.is_process() { PROCESS_START_TIMEOUT } else { gw.settings.connect_timeout * 2 }
}

/// Returns the time limit for a client's whole handshake, including probes and waiting for a slot.
pub(crate) fn handshake_timeout(gw: &Gateway, ctx: &RequestContext) -> Duration {
    if ctx.upstream.is_process() { PROCESS_START_TIMEOUT } else { gw.settings.connect_timeout * 4 }
}

async fn redo_handshake(gw: &Gateway, ctx: &RequestContext, session: &Session) {
    evict_process_if_full(gw, ctx).await;
    match handshake_upstream(gw, ctx, session.handshake()).await {
        Ok(handshake_result) if handshake_result.revision == session.revision() => {
            handshake_result.send_initialized(gw, ctx, session.upstream_log_level().as_deref()).await;
            session.set_upstream_link(handshake_result.link);
            session.note_list_changed(&handshake_result.server_info);
            if has_tasks(&handshake_result.server_info) {
                session.tasks.note_server_task();
            }
            if !mutant!("client-subscriptions-not-restored") {
                resources_subscribe::resubscribe(gw, ctx);
            }
        }
        // The server now uses another revision, so the client's session is no longer valid.
        Ok(_) => gw.delete_session(session).await,
        // A temporary failure: the next call tries again.
        Err(_) => session.note_handshake_attempt(),
    }
}

/// Reopens a session if it was restored after a restart, if its process or connection has ended, or if it belongs to a
/// previous configuration.
pub(crate) async fn reopen_if_closed(gw: &Gateway, ctx: &RequestContext) {
    let Some(session) = ctx.upstream_session() else { return };
    let handshake_attempts = session.handshake_attempts();
    let link = session.upstream_link();
    // Server requests left over from an earlier call must not reach the exclusive user of the session.
    if ctx.exclusive_session().is_some() {
        link.close_if_abandoned();
    }
    if link.is_ended() || !link.belongs_to(&ctx.upstream) {
        Box::pin(reopen_session(gw, ctx, Some(handshake_attempts))).await;
    }
}

/// Reopens a session that was restored after a restart, or whose server has a new address. A process that has ended is
/// restarted only if the session has resource subscriptions or listeners; otherwise the next request restarts it.
pub(crate) async fn reopen_if_stale(gw: &Gateway, ctx: &RequestContext) {
    let is_missed = |session: &Session| {
        let link = session.upstream_link();
        link.needs_reopen(&ctx.upstream)
            || (link.is_ended() && (session.subscriptions.has_any() || session.notification_hub.has_listeners()))
    };
    if ctx.upstream_session().is_some_and(|session| is_missed(session)) {
        reopen_if_closed(gw, ctx).await;
    }
}

/// Stops the least recently used process if all process slots are taken.
async fn evict_process_if_full(gw: &Gateway, ctx: &RequestContext) {
    let is_full = ctx.upstream.is_process() && !ctx.upstream.has_free_process_slot();
    if is_full && gw.sessions.stop_least_recently_used_process(ctx.upstream.name()) {
        let _ = tokio::time::timeout(PROCESS_START_TIMEOUT, ctx.upstream.wait_for_process_slot()).await;
    }
}

/// Result of a handshake.
pub(crate) struct HandshakeResult {
    pub link: UpstreamSessionLink,
    pub revision: Revision,
    /// The result of `initialize`, with the server's capabilities and information.
    pub server_info: Bytes,
}

impl HandshakeResult {
    /// Sends the first messages of a session: `notifications/initialized` and the log level. They are sent before the
    /// link is shared, so that cancellation leaves no half-initialized session. If they are lost, the server reports
    /// that at the next call.
    pub async fn send_initialized(&self, gw: &Gateway, ctx: &RequestContext, level: Option<&str>) {
        let sending = async {
            let notification = self.address(UpstreamRequest::notification(INITIALIZED_NOTIFICATION));
            if let Some(permit) = Permit::for_policy_exempt(Method::Initialized.name(), notification) {
                let _ = send_one_way(gw, ctx, permit).await;
            }
            if let Some(level) = level {
                request_log_level(gw, ctx, level, |asking| self.address(asking)).await;
            }
        };
        let _ = tokio::time::timeout(gw.settings.connect_timeout, sending).await;
    }

    fn address(&self, outgoing: UpstreamRequest) -> UpstreamRequest {
        UpstreamRequest {
            session_link: self.link.clone(),
            revision: protocol_version_header(self.revision),
            ..outgoing
        }
    }
}

/// Asks the server for log messages. Errors are ignored; the server then sends no log messages.
pub(crate) async fn request_log_level(
    gw: &Gateway,
    ctx: &RequestContext,
    level: &str,
    with_address: impl FnOnce(UpstreamRequest) -> UpstreamRequest,
) {
    let (call, method, level) = (gw.new_call_id(), Method::SetLevel.name(), to_json_string(level));
    let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{method}","params":{{"level":{level}}}}}"#);
    let Some(permit) = Permit::for_policy_exempt(method, with_address(UpstreamRequest::request(text, call))) else {
        return;
    };
    if let Ok(mut exchange) = gw.upstream_client.send(&ctx.upstream, permit).await {
        let _ = await_own_response(gw, &mut exchange, call).await;
    }
}

/// Performs a handshake with the upstream.
pub(crate) async fn handshake_upstream(
    gw: &Gateway,
    ctx: &RequestContext,
    handshake: &Bytes,
) -> Result<HandshakeResult, UpstreamSendError> {
    let unusable = |what: &str| UpstreamSendError::InvalidResponse(what.to_owned());
    let Ok(ClientMessage::Request(request)) = read_client_message(handshake, &gw.settings.request_limits) else {
        return Err(unusable("the handshake cannot be read"));
    };
    let call = gw.new_call_id();
    let text = request.page_request(&RequestId::string(call.as_str()), None, None);
    let permit = Permit::for_policy_exempt(Method::Initialize.name(), UpstreamRequest::request(text, call))
        .ok_or_else(|| unusable("the handshake is subject to the policy"))?;
    let mut exchange = gw.upstream_client.send(&ctx.upstream, permit).await?;
    let answer = await_own_response(gw, &mut exchange, call).await?;
    let server_info = answer.map(|answer| result_text(&answer, &gw.settings.reply_limits)).transpose()?.flatten();
    let server_info = server_info.ok_or_else(|| unusable("the server rejected the handshake"))?;
    let revision =
        agreed_revision(&server_info).filter(|revision| revision.generation() == ProtocolGeneration::Stateful);
    let revision = revision.ok_or_else(|| unusable("the server chose an unknown revision"))?;
    let link = exchange.session_link.clone().after_handshake(&ctx.upstream);
    Ok(HandshakeResult { link, revision, server_info: Bytes::copy_from_slice(&server_info) })
}

/// Ends a session in the gateway and at the upstream.
pub(crate) async fn end_session(gw: &Gateway, ctx: &RequestContext) {
    let Some(session) = ctx.session() else { return };
    gw.delete_session(session).await;
    session.end_stream();
    end_upstream_session(gw, &ctx.upstream, session.upstream_link()).await;
    let mut recorder = CallRecorder::for_request(ctx, gw.new_call_id(), gw.clock.now());
    recorder.set_method("DELETE");
    gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
}

/// Ends an upstream session. Failures are ignored, because upstreams expire sessions themselves.
async fn end_upstream_session(gw: &Gateway, upstream: &Upstream, link: UpstreamSessionLink) {
    if matches!(link, UpstreamSessionLink::NoSession | UpstreamSessionLink::NotOpened) || link.has_no_session_id() {
        return;
    }
    let _ = tokio::time::timeout(
        gw.settings.connect_timeout,
        gw.upstream_client.send(upstream, Permit::for_session_end(link)),
    )
    .await;
}

impl Gateway {
    /// Acquires one of the grant's session slots. If none is free, ends idle sessions and tries again.
    pub(crate) async fn acquire_session_permit(&self, grant: &ActiveGrant) -> Option<OwnedSemaphorePermit> {
        let take = || Arc::clone(&grant.sessions).try_acquire_owned().ok().filter(|_| self.sessions.has_capacity());
        if let Some(session_permit) = take() {
            return Some(session_permit);
        }
        self.end_idle_sessions().await;
        take()
    }

    /// Ends idle and expired sessions, in the gateway and at the upstream.
    pub(crate) async fn end_idle_sessions(&self) {
        let (snapshot, now) = (self.config_snapshot(), self.clock.now());
        let grants: HashSet<_> =
            snapshot.grants().filter(|grant| !grant.is_expired(now)).map(|grant| grant.config.id.clone()).collect();
        drop(snapshot);
        let ended = self.sessions.remove_expired(|grant| grants.contains(grant));
        self.sessions.sweep_server_sessions();
        for session in ended {
            let upstream =
                session.server().and_then(|server| self.config_snapshot().find_server(server.as_str()).cloned());
            if let Some(upstream) = upstream {
                end_upstream_session(self, &upstream, session.upstream_link()).await;
            }
        }
    }
}
