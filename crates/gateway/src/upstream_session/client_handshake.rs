//! The end of a client's handshake: the session that it opens, with the server or only in the gateway.

use bytes::Bytes;
use gatelodge_mcp::{ClientRequest, Revision};
use gatelodge_store::CallOutcome;
use tokio::sync::OwnedSemaphorePermit;

use super::handshake::{agreed_revision, has_tasks};
use super::local_session::open_local_session;
use super::protocol_probe::fetch_server_info_after_rejection;
use super::upstream_exchange::result_text;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::{ClientInfo, Session, SessionParams};
use crate::upstream::{UpstreamResponse, UpstreamSendError, UpstreamSessionLink};

/// A client's handshake for which a session slot is reserved.
pub(crate) struct ClientHandshake<'a> {
    pub gw: &'a GatewayServices,
    pub ctx: &'a RequestContext,
    pub request: &'a ClientRequest<'a>,
    pub session_permit: OwnedSemaphorePermit,
}

impl ClientHandshake<'_> {
    /// Opens the session, after the handshake was sent to the server and came back as `exchanged`. Returns the reply to
    /// the client and its outcome; `for_client` makes them from a response of the server.
    pub async fn open_session(
        self,
        exchanged: Result<(Bytes, UpstreamResponse), UpstreamSendError>,
        for_client: impl FnOnce(&Bytes) -> Option<(Bytes, CallOutcome)>,
        responder: &mut Responder,
    ) -> Result<(Bytes, CallOutcome), Refusal> {
        let Self { gw, ctx, request, session_permit } = self;
        if is_handshake_rejected(gw, &exchanged)
            && let Ok(Some(server_info)) = fetch_server_info_after_rejection(gw, ctx).await
        {
            drop(exchanged);
            return open_local_session(&gw.sessions, ctx, request, server_info, session_permit, responder).await;
        }
        let (message, exchange) = exchanged?;
        let (text, outcome) = for_client(&message).ok_or_else(|| unusable("the response cannot be read"))?;
        let Some(result) = result_text(&message, &gw.settings.reply_limits)? else { return Ok((text, outcome)) };
        let revision = agreed_revision(&result)
            .ok_or_else(|| unusable("the server chose a revision that has no handshake or is unknown"))?;
        if let Err(protocol_error) = ctx.check_revision(revision) {
            gw.sessions.end_at_upstream(&ctx.upstream, exchange.session_link.clone()).await;
            return Err(Refusal::Protocol(protocol_error));
        }
        let params = session_with_server(ctx, request, session_permit, revision, &exchange.session_link);
        let Some(session) = Session::new(params).and_then(|session| gw.sessions.registry.insert(session)) else {
            gw.sessions.end_at_upstream(&ctx.upstream, exchange.session_link.clone()).await;
            return Err(unusable("there are too many sessions").into());
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
}

fn session_with_server(
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    session_permit: OwnedSemaphorePermit,
    revision: Revision,
    link: &UpstreamSessionLink,
) -> SessionParams {
    SessionParams {
        grant: ctx.grant.config.id.clone(),
        server: Some(ctx.upstream.name().clone()),
        revision,
        client_info: ClientInfo::of(request.params().and_then(|params| params.get("clientInfo"))),
        handshake: Bytes::copy_from_slice(request.text().as_bytes()),
        server_info: Bytes::new(),
        upstream_link: link.clone().after_handshake(&ctx.upstream),
        session_permit,
        is_local: false,
        accepts_log_messages: true,
    }
}

/// Returns whether the upstream rejected the handshake, which suggests that it does not support handshakes.
fn is_handshake_rejected(
    gw: &GatewayServices,
    exchanged: &Result<(Bytes, UpstreamResponse), UpstreamSendError>,
) -> bool {
    match exchanged {
        Err(UpstreamSendError::Status(400 | 404 | 405)) => true,
        Ok((message, _)) => matches!(result_text(message, &gw.settings.reply_limits), Ok(None)),
        Err(_) => false,
    }
}

fn unusable(what: &str) -> UpstreamSendError {
    UpstreamSendError::InvalidResponse(what.to_owned())
}
