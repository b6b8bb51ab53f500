//! Handshake with a stateful client: performs the handshake with the upstream, then opens the client's session.

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
use crate::session::{ClientInfo, Session, SessionParams};
use crate::upstream::{UpstreamResponse, UpstreamSendError};
use crate::upstream_session::handshake::{agreed_revision, handshake_timeout, has_tasks};
use crate::upstream_session::local_session::open_local_session;
use crate::upstream_session::protocol_probe::fetch_server_info_after_rejection;
use crate::upstream_session::session_slot::reserve_session_slot;
use crate::upstream_session::upstream_exchange::result_text;

/// Handles `initialize`.
pub(crate) async fn handle_initialize(
    gw: &GatewayServices,
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
    let is_refused = is_handshake_rejected(&exchanged, gw);
    if is_refused && let Ok(Some(server_info)) = fetch_server_info_after_rejection(gw, ctx).await {
        drop(exchanged);
        return open_local_session(gw, ctx, request, server_info, session_permit, responder).await;
    }
    let (message, exchange) = exchanged?;
    let gone = |what: &str| UpstreamSendError::InvalidResponse(what.to_owned());
    let (text, outcome) = response_for_client(ctx, &message, request.id(), &gw.settings.reply_limits)
        .ok_or_else(|| gone("the response cannot be read"))?;
    let Some(result) = result_text(&message, &gw.settings.reply_limits)? else { return Ok((text, outcome)) };
    let revision = agreed_revision(&result);
    let revision = revision.ok_or_else(|| gone("the server chose a revision that has no handshake or is unknown"))?;
    if let Err(protocol_error) = ctx.check_revision(revision) {
        gw.sessions.end_at_upstream(&ctx.upstream, exchange.session_link.clone()).await;
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
        is_local: false,
        accepts_log_messages: true,
    };
    let Some(session) = Session::new(opening).and_then(|session| gw.sessions.registry.insert(session)) else {
        gw.sessions.end_at_upstream(&ctx.upstream, exchange.session_link.clone()).await;
        return Err(gone("there are too many sessions").into());
    };
    session.negotiated.note_list_changed(&result);
    if has_tasks(&result) {
        session.tasks.note_server_task();
    }
    if responder.set_session(&session) {
        gw.sessions.persist(&session).await;
    }
    Ok((text, outcome))
}

/// Returns whether the upstream rejected the handshake, which suggests that it does not support handshakes.
fn is_handshake_rejected(
    exchanged: &Result<(Bytes, UpstreamResponse), UpstreamSendError>,
    gw: &GatewayServices,
) -> bool {
    match exchanged {
        Err(UpstreamSendError::Status(400 | 404 | 405)) => true,
        Ok((message, _)) => matches!(result_text(message, &gw.settings.reply_limits), Ok(None)),
        Err(_) => false,
    }
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
