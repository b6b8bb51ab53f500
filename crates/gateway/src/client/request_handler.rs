//! Handles a request whose client protocol is known.

use gatelodge_mcp::ClientRequest;
use http::StatusCode;

use crate::call_recorder::CallRecorder;
use crate::methods::call_handler;
use crate::methods::dispatch::{dispatch, is_policy_checked, is_task_method};
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{ClientProtocol, RequestContext, parse_subject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::wait_for_cancel;
use crate::upstream::UpstreamSendError;
use crate::upstream_session::pooled_session;

/// Handles a request, after opening a pooled session if the server needs one. The client can cancel while the session
/// is being opened.
pub(crate) async fn handle_request(
    gw: &GatewayServices,
    mut ctx: RequestContext,
    request: &ClientRequest<'_>,
    responder: Responder,
) {
    if let ClientProtocol::Stateless(client) = &ctx.client_protocol {
        let cancel_signal = responder.cancel_signal();
        let opening = Box::pin(pooled_session::with_pooled_session(gw, &ctx, request, client.clone()));
        let opened = tokio::select! {
            biased;
            () = wait_for_cancel(cancel_signal.as_deref()) => Err(Refusal::Upstream(UpstreamSendError::ClientGone)),
            opened = opening => opened,
        };
        match opened {
            Ok(client) => ctx.client_protocol = ClientProtocol::Stateless(client),
            Err(refusal) => {
                return Box::pin(reply_handshake_failed(
                    gw,
                    &ctx,
                    request,
                    refusal.into_handshake_failure(),
                    responder,
                ))
                .await;
            }
        }
    }
    dispatch(gw, &ctx, request, responder).await;
}

/// Replies to a request that cannot be sent because the handshake with its server failed.
async fn reply_handshake_failed(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    refusal: Refusal,
    responder: Responder,
) {
    if is_policy_checked(request.method())
        && !is_task_method(request.method())
        && let Ok(subject) = parse_subject(request)
    {
        return call_handler::handle_unreachable(gw, ctx, request, &subject, refusal, responder).await;
    }
    let mut recorder = CallRecorder::start(ctx, request, gw.new_call_id(), gw.clock.now());
    if matches!(refusal, Refusal::Upstream(UpstreamSendError::ClientGone)) {
        responder.hang_up();
        return gw.write_row(recorder.cancelled_row()).await;
    }
    responder
        .finish_with_status(
            StatusCode::BAD_GATEWAY,
            reply::internal_error_reply(request.id(), recorder.call_id(), &refusal),
        )
        .await;
    gw.record_refusal(&mut recorder, &refusal).await;
}
