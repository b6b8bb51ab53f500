//! Ends calls that are no longer awaited: at the upstream, in the call log and in the list of suspended calls.

use std::sync::Arc;

use gatelodge_mcp::{Method, RequestId, code, error_response};
use gatelodge_store::CallId;

use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::services::GatewayServices;
use crate::session::Session;
use crate::suspended_calls::SuspendedCall;
use crate::upstream::{Permit, Upstream, UpstreamRequest, UpstreamSessionLink};

/// Ends the suspended calls that were not resumed in time.
pub(crate) fn expire_suspended_calls(gw: &GatewayServices) {
    gw.suspended_calls.take_expired().into_iter().for_each(|suspended| cancel_suspended_call(gw, suspended));
}

/// Returns whether one more call of a grant may be suspended. At the limit, the grant's oldest suspended call is
/// evicted once its protection has expired.
pub(crate) fn can_suspend_call(gw: &GatewayServices, ctx: &RequestContext) -> bool {
    if !gw.suspended_calls.has_capacity(ctx) {
        evict_suspended_call(gw, |suspended| suspended.is_of(&ctx.grant.config.id));
    }
    gw.suspended_calls.has_capacity(ctx)
}

/// Ends the oldest matching call if it may be evicted. Returns whether a call was ended.
pub(crate) fn evict_suspended_call(gw: &GatewayServices, is_one: impl Fn(&SuspendedCall) -> bool) -> bool {
    let suspended = gw.suspended_calls.take_evictable(gw.settings.client_input_timeout, is_one);
    suspended.map(|suspended| cancel_suspended_call(gw, suspended)).is_some()
}

/// Ends a suspended call and writes its outcome row, in the background.
pub(crate) fn cancel_suspended_call(gw: &GatewayServices, suspended: SuspendedCall) {
    let Some(gw) = gw.arc_self() else { return };
    let task = Arc::clone(&gw);
    gw.tasks.spawn(async move {
        let SuspendedCall {
            call,
            upstream,
            session,
            link_epoch,
            exchange,
            input_requests,
            exclusive_session,
            mut recorder,
            ..
        } = suspended;
        task.write_row(recorder.abandoned_row()).await;
        let link = exchange.session_link.clone();
        drop(exchange);
        if session.upstream_link.epoch() == link_epoch {
            notify_cancelled(&task, &upstream, &session, call).await;
        }
        let ids = input_requests.into_iter().map(|input_request| input_request.id).collect();
        decline_server_requests(&task, &upstream, &session, &link, ids).await;
        drop(exclusive_session);
    });
}

/// Declines server requests on the connection on which they arrived. A server that ignores the cancellation would
/// otherwise wait forever, and on a shared connection it would block later calls.
pub(crate) async fn decline_server_requests(
    gw: &GatewayServices,
    upstream: &Upstream,
    session: &Session,
    link: &UpstreamSessionLink,
    ids: Vec<RequestId<'static>>,
) {
    if !matches!(link, UpstreamSessionLink::Process(_) | UpstreamSessionLink::Sse(_)) {
        return;
    }
    for id in ids {
        let message = "the call that this request belongs to has ended";
        let mut outgoing =
            UpstreamRequest::notification(error_response(Some(&id), code::INTERNAL_ERROR, message, None));
        outgoing.session_link = link.clone();
        outgoing.revision = session.negotiated.protocol_version_header();
        let sending = gw.upstream_client.send(upstream, Permit::for_server_request_response(&id, outgoing));
        let _ = tokio::time::timeout(gw.settings.connect_timeout, sending).await;
    }
}

/// Sends `notifications/cancelled` for a call to a stateful upstream.
pub(crate) async fn notify_cancelled(gw: &GatewayServices, upstream: &Upstream, session: &Session, call: CallId) {
    // On other transports, dropping the exchange sends the notification. Over HTTP, dropping it is only a lost
    // connection.
    if !matches!(session.upstream_link.current(), UpstreamSessionLink::Http(_) | UpstreamSessionLink::NoSession) {
        return;
    }
    let mut outgoing = UpstreamRequest::notification(cancelled_notification(call.as_str()));
    outgoing.session_link = session.upstream_link.current();
    outgoing.revision = session.negotiated.protocol_version_header();
    if let Some(permit) = Permit::for_policy_exempt(Method::Cancelled.name(), outgoing) {
        let sending = gw.upstream_client.send(upstream, permit);
        let _ = tokio::time::timeout(gw.settings.connect_timeout, sending).await;
    }
}

/// Cancels a call upstream after a stateless client disconnected, which is how stateless clients cancel.
pub(crate) async fn cancel_after_hang_up(gw: &GatewayServices, ctx: &RequestContext, call: CallId) {
    if let (ProtocolTranslation::ToStateful, Some(session)) = (ctx.translation(), ctx.upstream_session()) {
        notify_cancelled(gw, &ctx.upstream, session, call).await;
    }
}

/// Cancels the upstream request of a call that the gateway abandons although its client has not cancelled it, for
/// example after a timeout.
pub(crate) fn cancel_in_background(gw: &GatewayServices, ctx: &RequestContext, call: CallId) {
    let (Some(gw), Some(session)) = (gw.arc_self(), ctx.upstream_session().cloned()) else { return };
    let (task, upstream) = (Arc::clone(&gw), Arc::clone(&ctx.upstream));
    gw.tasks.spawn(async move { notify_cancelled(&task, &upstream, &session, call).await });
}

pub(crate) fn cancelled_notification(call: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{call}"}}}}"#)
}
