//! Sessions of stateful clients with stateless servers. Such a session exists only in the gateway, which does for it what
//! other servers do: it answers pings, stores the log level, and takes the notifications and responses of the client.

use bytes::Bytes;
use gatelodge_mcp::translate::{to_discover_result, to_initialize_result};
use gatelodge_mcp::{ClientMessage, ClientRequest, Method, ProtocolGeneration, code, error_response, result_response};
use gatelodge_store::CallOutcome;
use tokio::sync::OwnedSemaphorePermit;

use super::handshake::requested_revision;
use crate::refusal::Refusal;
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::{ClientInfo, ClientResponseDestination, Session, SessionManager, SessionParams};
use crate::upstream::{UpstreamSendError, UpstreamSessionLink};

/// Opens a session with a stateful client of a stateless server, whose `server/discover` result is `server_info`.
pub(crate) async fn open_local_session(
    sessions: &SessionManager,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    server_info: Bytes,
    session_permit: OwnedSemaphorePermit,
    responder: &mut Responder,
) -> Result<(Bytes, CallOutcome), Refusal> {
    let revision = requested_revision(request);
    ctx.check_revision(revision).map_err(Refusal::Protocol)?;
    let text = to_initialize_result(&server_info, revision, ctx.upstream.name().as_str());
    let text = ctx.upstream.secret_redactor().redact_json(text);
    let opening = SessionParams {
        grant: ctx.grant.config.id.clone(),
        server: Some(ctx.upstream.name().clone()),
        revision,
        client_info: ClientInfo::of(request.params().and_then(|params| params.get("clientInfo"))),
        handshake: Bytes::copy_from_slice(request.text().as_bytes()),
        server_info,
        upstream_link: UpstreamSessionLink::NoSession,
        session_permit,
        is_local: true,
        accepts_log_messages: true,
    };
    let session = Session::new(opening).and_then(|session| sessions.registry.insert(session));
    let session = session.ok_or_else(|| UpstreamSendError::NotSent("there are too many sessions".to_owned()))?;
    if responder.set_session(&session) {
        sessions.persist(&session).await;
    }
    Ok((result_response(request.id(), &text).into(), CallOutcome::Ok))
}

/// Returns the response to a request whose method the server's protocol lacks, so that the gateway answers it, and its
/// outcome. Returns `None` for any other method.
pub(crate) async fn local_response(
    sessions: &SessionManager,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
) -> Option<(String, CallOutcome)> {
    match (ctx.translation(), request.method()) {
        (ProtocolTranslation::ToStateful, Method::Discover) => {
            let session = ctx.upstream_session()?;
            let supported = ctx.supported_revisions(ProtocolGeneration::Stateless);
            let result = to_discover_result(&session.negotiated.server_info, &supported);
            let result = ctx.upstream.secret_redactor().redact_json(result);
            Some((result_response(request.id(), &result), CallOutcome::Ok))
        }
        (ProtocolTranslation::ToStateless, Method::Ping) => {
            Some((result_response(request.id(), "{}"), CallOutcome::Ok))
        }
        (ProtocolTranslation::ToStateless, Method::SetLevel) => Some(set_log_level(sessions, ctx, request).await),
        _ => None,
    }
}

async fn set_log_level(
    sessions: &SessionManager,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
) -> (String, CallOutcome) {
    let level = request.params().and_then(|params| params.get("level")?.as_str());
    match (level, ctx.session()) {
        (Some(level), Some(session)) => {
            sessions.persist_log_level(session, &level).await;
            (result_response(request.id(), "{}"), CallOutcome::Ok)
        }
        _ => {
            let what = "`params.level` must be a string";
            (error_response(Some(request.id()), code::INVALID_PARAMS, what, None), CallOutcome::Error)
        }
    }
}

/// Handles a notification or response of a local session, which the server could not receive: a cancellation ends the
/// request, a response is passed to the waiting call, and everything else is dropped. Returns false for any other
/// session, whose messages go to the server.
pub(crate) async fn handle_locally(gw: &GatewayServices, ctx: &RequestContext, message: &ClientMessage<'_>) -> bool {
    let Some(session) = ctx.local_session() else { return false };
    let mut recorder = gw.new_recorder(ctx);
    let is_taken = match message {
        ClientMessage::Notification(notification) if *notification.method() == Method::Cancelled => {
            recorder.set_method(notification.method().name());
            notification.reference().ok().flatten().is_some_and(|id| session.cancel_request(&id))
        }
        ClientMessage::Response(response) => {
            recorder.set_method("response");
            match session.server_requests.take(response.id()) {
                Some(ClientResponseDestination::Call(waiting)) => {
                    waiting.send(Bytes::copy_from_slice(response.text().as_bytes())).is_ok()
                }
                Some(ClientResponseDestination::Upstream(..)) | None => false,
            }
        }
        // These have no effect at a stateless upstream.
        ClientMessage::Notification(_) | ClientMessage::Request(_) => return true,
    };
    if is_taken {
        gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
    } else {
        gw.metrics.count_dropped_message();
        gw.write_row(recorder.refusal_row(&Refusal::UnknownReference)).await;
    }
    true
}
