//! Handshake with a stateful client: performs the handshake with the upstream, then opens the client's session.

use bytes::Bytes;
use gatelodge_json::{JsonKind, read};
use gatelodge_mcp::translate::shared_capabilities;
use gatelodge_mcp::{ClientRequest, ProtocolGeneration, Revision};
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
use crate::upstream::{UpstreamResponse, UpstreamSendError, UpstreamSessionLink};
use crate::upstream_session::handshake::{agreed_revision, handshake_timeout, has_tasks};
use crate::upstream_session::own_request::result_text;
use crate::upstream_session::protocol_probe::fetch_server_info;
use crate::upstream_session::session_slot::reserve_session_slot;

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
        is_upstream_stateless: false,
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

/// Opens a session with a stateful client of a stateless upstream. The session exists only in the gateway.
async fn open_local_session(
    gw: &GatewayServices,
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
    let session = Session::new(opening).and_then(|session| gw.sessions.registry.insert(session));
    let session = session.ok_or_else(|| UpstreamSendError::NotSent("there are too many sessions".to_owned()))?;
    if responder.set_session(&session) {
        gw.sessions.persist(&session).await;
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
