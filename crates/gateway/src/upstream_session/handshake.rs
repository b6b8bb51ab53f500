//! Handshake with a stateful upstream, and its repetition after the upstream has lost the session.

use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::read;
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, ProtocolGeneration, RequestId, Revision, read_client_message,
};
use gatelodge_mutants::mutant;

use super::resource_subscription;
use super::session_slot::{PROCESS_START_TIMEOUT, evict_process_if_full};
use super::upstream_exchange::{await_own_response, result_text, send_one_way};
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::session::{Session, protocol_version_header};
use crate::settings::GatewaySettings;
use crate::upstream::{Permit, UpstreamRequest, UpstreamSendError, UpstreamSessionLink};

const INITIALIZED_NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Returns the revision that a server chose in a handshake; `None` if it is unknown or has no handshake.
pub(crate) fn agreed_revision(result: &[u8]) -> Option<Revision> {
    let document = read(result, &gatelodge_json::JsonLimits::REPLY).ok()?;
    let revision: Revision = document.root().get("protocolVersion")?.as_str()?.parse().ok()?;
    (revision.generation() == ProtocolGeneration::Stateful).then_some(revision)
}

/// Returns the revision that a client asks for in a handshake, or the newest one that has handshakes.
pub(crate) fn requested_revision(request: &ClientRequest<'_>) -> Revision {
    let requested = request.params().and_then(|params| params.get("protocolVersion")?.as_str()?.parse().ok());
    requested
        .filter(|revision: &Revision| revision.generation() == ProtocolGeneration::Stateful)
        .unwrap_or(Revision::R2025_11_25)
}

pub(crate) fn has_tasks(result: &[u8]) -> bool {
    str::from_utf8(result).is_ok_and(|result| gatelodge_mcp::has_task_capability(result, ProtocolGeneration::Stateful))
}

/// Repeats the handshake with an upstream that has lost the session. Concurrent calls share one attempt:
/// `handshake_attempts` is the number of attempts when the failed message was sent, and if there has been another
/// attempt since, none is made. Calls are not repeated. If the upstream negotiates another revision, the session ends
/// and the client has to start again.
pub(crate) async fn reopen_session(gw: &GatewayServices, ctx: &RequestContext, handshake_attempts: Option<u64>) {
    let Some(session) = ctx.upstream_session() else { return };
    let opening = async {
        let _one_at_a_time = session.upstream_link.reopen_lock.lock().await;
        // Concurrent callers share the result of one attempt, even if it failed.
        if Some(session.upstream_link.handshake_attempts()) == handshake_attempts
            || mutant!("lost-session-reopened-by-every-call")
        {
            redo_handshake(gw, ctx, session).await;
        }
    };
    if tokio::time::timeout(start_timeout(&gw.settings, ctx), opening).await.is_err() {
        session.upstream_link.note_handshake_attempt();
    }
}

/// Returns the time limit for opening a session while another request is being handled.
pub(crate) fn start_timeout(settings: &GatewaySettings, ctx: &RequestContext) -> Duration {
    if ctx.upstream.is_process() { PROCESS_START_TIMEOUT } else { settings.connect_timeout * 2 }
}

/// Returns the time limit for a client's whole handshake, including probes and waiting for a slot.
pub(crate) fn handshake_timeout(settings: &GatewaySettings, ctx: &RequestContext) -> Duration {
    if ctx.upstream.is_process() { PROCESS_START_TIMEOUT } else { settings.connect_timeout * 4 }
}

async fn redo_handshake(gw: &GatewayServices, ctx: &RequestContext, session: &Session) {
    evict_process_if_full(gw, ctx).await;
    match handshake_upstream(gw, ctx, &session.negotiated.handshake).await {
        Ok(handshake_result) if handshake_result.revision == session.revision() => {
            handshake_result.send_initialized(gw, ctx, session.negotiated.upstream_log_level().as_deref()).await;
            session.set_upstream_link(handshake_result.link);
            session.negotiated.note_list_changed(&handshake_result.server_info);
            if has_tasks(&handshake_result.server_info) {
                session.tasks.note_server_task();
            }
            if !mutant!("client-subscriptions-not-restored") {
                resource_subscription::resubscribe(gw, ctx);
            }
        }
        // The server now uses another revision, so the client's session is no longer valid.
        Ok(_) => gw.sessions.delete(session).await,
        // A temporary failure: the next call tries again.
        Err(_) => session.upstream_link.note_handshake_attempt(),
    }
}

/// Reopens a session if it was restored after a restart, if its process or connection has ended, or if it belongs to a
/// previous configuration.
pub(crate) async fn reopen_if_closed(gw: &GatewayServices, ctx: &RequestContext) {
    let Some(session) = ctx.upstream_session() else { return };
    let handshake_attempts = session.upstream_link.handshake_attempts();
    let link = session.upstream_link.current();
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
pub(crate) async fn reopen_if_stale(gw: &GatewayServices, ctx: &RequestContext) {
    let is_missed = |session: &Session| {
        let link = session.upstream_link.current();
        link.needs_reopen(&ctx.upstream)
            || (link.is_ended() && (session.subscriptions.has_any() || session.notification_hub.has_listeners()))
    };
    if ctx.upstream_session().is_some_and(|session| is_missed(session)) {
        reopen_if_closed(gw, ctx).await;
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
    pub async fn send_initialized(&self, gw: &GatewayServices, ctx: &RequestContext, level: Option<&str>) {
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
    gw: &GatewayServices,
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
    gw: &GatewayServices,
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
    let revision = agreed_revision(&server_info).ok_or_else(|| unusable("the server chose an unknown revision"))?;
    let link = exchange.session_link.clone().after_handshake(&ctx.upstream);
    Ok(HandshakeResult { link, revision, server_info: Bytes::copy_from_slice(&server_info) })
}
