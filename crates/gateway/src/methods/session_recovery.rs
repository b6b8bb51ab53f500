//! Sessions of which an upstream says by other words than 404 that it may not know them. Many say 400, and some that they
//! are not there, as after a restart.

use std::time::Duration;

use gatelodge_mcp::{Method, ServerMessage as Said, code, read_server_message};
use http::StatusCode;

use super::initialize::reopen_session;
use crate::Gateway;
use crate::pipeline::{Permit, await_own_response};
use crate::request_context::RequestContext;
use crate::upstream::{SendError, UpstreamLink, UpstreamRequest};

/// Whether an answer with this status leaves open whether the session is still known.
pub(crate) fn can_mean_lost_session(ctx: &RequestContext, status: StatusCode) -> bool {
    let is_named = |link: UpstreamLink| matches!(link, UpstreamLink::Http(_)) && !link.has_no_session_id();
    is_ambiguous_status(status) && ctx.upstream_session().is_some_and(|session| is_named(session.upstream_link()))
}

fn is_ambiguous_status(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::GONE) || status.is_server_error()
}

/// Whether the upstream may have forgotten the session. One that gave it no id over HTTP knows of none.
pub(crate) fn has_expirable_session(ctx: &RequestContext) -> bool {
    ctx.upstream_session().is_some_and(|session| !session.upstream_link().has_no_session_id())
}

/// When something was sent in a session: how often that had been opened, and how often it was tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionEpoch {
    link_epoch: u64,
    pub handshake_attempts: u64,
}

impl SessionEpoch {
    pub fn current(ctx: &RequestContext) -> Option<Self> {
        ctx.upstream_session()
            .map(|session| Self { link_epoch: session.link_epoch(), handshake_attempts: session.handshake_attempts() })
    }
}

/// Looks whether a session is lost, and opens it again then. Gives whether it is another one than when something was
/// `sent`.
pub(crate) async fn recover_session(gw: &Gateway, ctx: &RequestContext, sent: SessionEpoch) -> bool {
    let Some(session) = ctx.upstream_session() else { return false };
    if session.handshake_attempts() == sent.handshake_attempts && is_session_lost(gw, ctx).await != Some(true) {
        return false;
    }
    reopen_session(gw, ctx, Some(sent.handshake_attempts)).await;
    session.link_epoch() != sent.link_epoch
}

/// Whether the upstream does not know the session, by what it says to a request that does nothing. None if it says
/// nothing.
pub(crate) async fn is_session_lost(gw: &Gateway, ctx: &RequestContext) -> Option<bool> {
    let timeout: Duration = gw.settings.connect_time;
    tokio::time::timeout(timeout, probe_session(gw, ctx)).await.ok()?
}

async fn probe_session(gw: &Gateway, ctx: &RequestContext) -> Option<bool> {
    let (call, method) = (gw.new_call_id(), Method::Ping.name());
    let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{method}"}}"#);
    let permit = Permit::for_always_allowed(method, ctx.message_for_upstream(UpstreamRequest::request(text, call)))?;
    let is_no = |status: StatusCode| is_ambiguous_status(status) || status == StatusCode::NOT_FOUND;
    match gw.upstream_client.send(&ctx.upstream, permit).await {
        Ok(mut exchange) if is_no(exchange.status) => {
            let answer = await_own_response(gw, &mut exchange, call).await.ok().flatten();
            // One that does not know the request has not looked at the session.
            Some(!answer.is_some_and(|answer| {
                let Ok(Said::Response(reply)) = read_server_message(&answer, &gw.settings.reply_limits) else {
                    return false;
                };
                reply.error().is_some_and(|error| error.code == code::METHOD_NOT_FOUND.to_string())
            }))
        }
        Err(SendError::Status(status)) => Some(StatusCode::from_u16(status).is_ok_and(is_no)),
        Ok(_) => Some(false),
        Err(_) => None,
    }
}
