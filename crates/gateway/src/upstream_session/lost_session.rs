//! Detects expired upstream sessions that are signaled by a status other than 404. Many servers respond with 400, some
//! with 410 or a server error, for example after a restart.

use std::time::Duration;

use gatelodge_mcp::{Method, ServerMessage, code, read_server_message};
use http::StatusCode;

use super::handshake::reopen_session;
use super::upstream_exchange::await_own_response;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::upstream::{Permit, UpstreamRequest, UpstreamSendError, UpstreamSessionLink};

/// Returns whether a response with this status may mean that the session has expired.
pub(crate) fn can_mean_lost_session(ctx: &RequestContext, status: StatusCode) -> bool {
    let is_named =
        |link: UpstreamSessionLink| matches!(link, UpstreamSessionLink::Http(_)) && !link.has_no_session_id();
    is_ambiguous_status(status)
        && ctx.upstream_session().is_some_and(|session| is_named(session.upstream_link.current()))
}

fn is_ambiguous_status(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::GONE) || status.is_server_error()
}

/// Returns whether the session can expire upstream. An HTTP server that assigned no session id has no session.
pub(crate) fn has_expirable_session(ctx: &RequestContext) -> bool {
    ctx.upstream_session().is_some_and(|session| !session.upstream_link.current().has_no_session_id())
}

/// State of a session when a message was sent: how many times it had been opened, and how many times opening it had
/// been attempted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionEpoch {
    link_epoch: u64,
    pub handshake_attempts: u64,
}

impl SessionEpoch {
    pub fn current(ctx: &RequestContext) -> Option<Self> {
        ctx.upstream_session().map(|session| Self {
            link_epoch: session.upstream_link.epoch(),
            handshake_attempts: session.upstream_link.handshake_attempts(),
        })
    }
}

/// Reopens the session if it has expired. Returns whether it has been replaced since `sent`.
pub(crate) async fn recover_session(gw: &GatewayServices, ctx: &RequestContext, sent: SessionEpoch) -> bool {
    let Some(session) = ctx.upstream_session() else { return false };
    if session.upstream_link.handshake_attempts() == sent.handshake_attempts
        && is_session_lost(gw, ctx).await != Some(true)
    {
        return false;
    }
    reopen_session(gw, ctx, Some(sent.handshake_attempts)).await;
    session.upstream_link.epoch() != sent.link_epoch
}

/// Returns whether the session has expired, according to a ping. Returns `None` if the server does not respond.
pub(crate) async fn is_session_lost(gw: &GatewayServices, ctx: &RequestContext) -> Option<bool> {
    let timeout: Duration = gw.settings.connect_timeout;
    tokio::time::timeout(timeout, probe_session(gw, ctx)).await.ok()?
}

async fn probe_session(gw: &GatewayServices, ctx: &RequestContext) -> Option<bool> {
    let (call, method) = (gw.new_call_id(), Method::Ping.name());
    let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{method}"}}"#);
    let permit = Permit::for_policy_exempt(method, ctx.message_for_upstream(UpstreamRequest::request(text, call)))?;
    let is_failure = |status: StatusCode| is_ambiguous_status(status) || status == StatusCode::NOT_FOUND;
    match gw.upstream_client.send(&ctx.upstream, permit).await {
        Ok(mut exchange) if is_failure(exchange.status) => {
            let answer = await_own_response(gw, &mut exchange, call).await.ok().flatten();
            // "method not found" is returned before the session is looked up, so it proves nothing.
            Some(!answer.is_some_and(|answer| {
                let Ok(ServerMessage::Response(reply)) = read_server_message(&answer, &gw.settings.reply_limits) else {
                    return false;
                };
                reply.error().is_some_and(|error| error.code == code::METHOD_NOT_FOUND.to_string())
            }))
        }
        Err(UpstreamSendError::Status(status)) => Some(StatusCode::from_u16(status).is_ok_and(is_failure)),
        Ok(_) => Some(false),
        Err(_) => None,
    }
}
