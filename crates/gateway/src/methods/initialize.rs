//! `initialize`, which opens a session, and the end of a session.

use bytes::Bytes;
use gatelodge_mcp::ClientRequest;
use gatelodge_store::CallOutcome;
use tokio::sync::OwnedSemaphorePermit;

use super::policy_exempt_messages::{exchange_with_upstream, reply_refusal};
use crate::call_recorder::CallRecorder;
use crate::pipeline::response_for_client;
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::upstream::UpstreamSendError;
use crate::upstream_session::client_handshake::ClientHandshake;
use crate::upstream_session::handshake::handshake_timeout;
use crate::upstream_session::session_slot::reserve_session_slot;

/// Handles `initialize`.
pub(crate) async fn handle_initialize(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    let timeout = handshake_timeout(&gw.settings, ctx);
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

async fn open_session(
    gw: &GatewayServices,
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
    let handshake = ClientHandshake { gw, ctx, request, session_permit };
    let for_client = |message: &Bytes| response_for_client(ctx, message, request.id(), &gw.settings.reply_limits);
    handshake.open_session(exchanged, for_client, responder).await
}

/// Ends a session in the gateway and at the upstream.
pub(crate) async fn end_session(gw: &GatewayServices, ctx: &RequestContext) {
    let Some(session) = ctx.session() else { return };
    gw.sessions.delete(session).await;
    session.streams.end();
    gw.sessions.end_at_upstream(&ctx.upstream, session.upstream_link.current()).await;
    let mut recorder = gw.new_recorder(ctx);
    recorder.set_method("DELETE");
    gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
}
