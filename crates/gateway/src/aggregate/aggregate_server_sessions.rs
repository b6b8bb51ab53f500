//! The sessions with individual servers behind an aggregate session, opened on first use by repeating the client's
//! handshake.

use std::sync::Arc;

use gatelodge_mcp::{ClientMessage, ClientNotification, ClientResponse, Method, read_client_message};
use gatelodge_store::{CallOutcome, ServerName};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use super::AggregateRequest;
use crate::call_recorder::CallRecorder;
use crate::methods::{initialize, policy_exempt_messages};
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::session::{Session, SessionParams, has_logging_capability};
use crate::upstream::{UpstreamSendError, UpstreamSessionLink};
use crate::upstream_session::handshake::{
    HandshakeResult, handshake_upstream, has_tasks, request_log_level, start_timeout,
};
use crate::upstream_session::protocol_probe::fetch_server_info;
use crate::upstream_session::{resource_subscription, session_slot};

/// Returns the client's session with a server, opening it if necessary.
///
/// # Errors
/// The server does not open a session.
pub(super) async fn ensure_open(
    gw: &GatewayServices,
    session: &Session,
    ctx: &RequestContext,
) -> Result<Arc<Session>, Refusal> {
    let (grant, server) = (&ctx.grant.config.id, ctx.upstream.name());
    let is_open = |part: &Arc<Session>| gw.sessions.registry.find(part.id(), grant, Some(server)).is_some();
    let open = || session.server_sessions.find(server).filter(is_open);
    if let Some(part) = open() {
        return Ok(part);
    }
    let open_lock = session.server_sessions.open_lock(server);
    let timeout = start_timeout(&gw.settings, ctx);
    let until = tokio::time::Instant::now() + timeout;
    let unanswered = || Refusal::Upstream(UpstreamSendError::HandshakeTimeout(timeout));
    let Ok(_one_at_a_time) = tokio::time::timeout_at(until, open_lock.lock()).await else { return Err(unanswered()) };
    if let Some(part) = open() {
        return Ok(part);
    }
    let opening = async {
        let session_permit = session_slot::reserve_session_slot(gw, ctx, session.negotiated.handshake.len()).await?;
        Ok::<_, Refusal>((session_permit, perform_handshake(gw, session, ctx).await?))
    };
    let opened = tokio::time::timeout_at(until, opening).await;
    let (session_permit, opened) = opened.unwrap_or_else(|_| Err(unanswered()))?;
    let level = session.server_sessions.log_level();
    let part = register_session(gw, session, ctx, session_permit, opened, level.as_deref()).await?;
    session.server_sessions.insert(server, Arc::clone(&part));
    let session_ctx = ctx.with_session(Arc::clone(&part));
    // The client may have changed the level while the session was not yet registered.
    if let Some(now) = session.server_sessions.log_level().filter(|now| Some(now) != level.as_ref()) {
        set_log_level(gw, &session_ctx, &part, &now).await;
    }
    resource_subscription::resubscribe(gw, &session_ctx);
    if gw.sessions.registry.find(session.id(), grant, None).is_none() {
        // The client ended its session meanwhile.
        initialize::end_session(gw, &ctx.with_session(part)).await;
        return Err(Refusal::UnknownReference);
    }
    Ok(part)
}

/// Returns the open server sessions. Expired sessions are removed first, so that they no longer count towards the
/// grant's session limit.
pub(super) fn open_sessions(gw: &GatewayServices, session: &Session) -> Vec<(ServerName, Arc<Session>)> {
    session.server_sessions.sweep(|part| gw.sessions.registry.contains(part.id()));
    session.server_sessions.all()
}

async fn register_session(
    gw: &GatewayServices,
    session: &Session,
    ctx: &RequestContext,
    session_permit: OwnedSemaphorePermit,
    (handshake, is_local): (HandshakeResult, bool),
    level: Option<&str>,
) -> Result<Arc<Session>, Refusal> {
    let level_to_set = level.filter(|_| has_logging_capability(&handshake.server_info));
    if !is_local {
        handshake.send_initialized(gw, ctx, level_to_set).await;
    }
    let HandshakeResult { link, revision, server_info } = handshake;
    ctx.grant.server_info_cache.insert(&ctx.upstream, &server_info, is_local);
    let params = SessionParams {
        grant: ctx.grant.config.id.clone(),
        server: Some(ctx.upstream.name().clone()),
        revision,
        client_info: session.negotiated.client_info.clone(),
        handshake: session.negotiated.handshake.clone(),
        server_info,
        upstream_link: link,
        session_permit,
        is_local,
        accepts_log_messages: true,
    };
    let part = Session::new(params)
        .and_then(|part| gw.sessions.registry.insert(part.into_server_session_of(session)))
        .ok_or(Refusal::Busy("sessions"))?;
    if !is_local && has_tasks(&part.negotiated.server_info) {
        part.tasks.note_server_task();
    }
    if let Some(level) = level.filter(|_| is_local) {
        part.set_client_log_level(level);
    } else if let Some(level_to_set) = level_to_set {
        part.negotiated.note_upstream_log_level(level_to_set);
    }
    Ok(part)
}

/// Performs the client's handshake with a server, or fetches the server's information if it is stateless. The returned
/// flag says whether the server is stateless.
async fn perform_handshake(
    gw: &GatewayServices,
    session: &Session,
    ctx: &RequestContext,
) -> Result<(HandshakeResult, bool), UpstreamSendError> {
    let error = match handshake_upstream(gw, ctx, &session.negotiated.handshake).await {
        Ok(handshake_result) => return Ok((handshake_result, false)),
        Err(error) => error,
    };
    let is_refused =
        matches!(error, UpstreamSendError::Status(400 | 404 | 405) | UpstreamSendError::InvalidResponse(_));
    if is_refused && let Ok(Some(server_info)) = fetch_server_info(gw, ctx).await {
        return Ok((
            HandshakeResult { link: UpstreamSessionLink::NoSession, revision: session.revision(), server_info },
            true,
        ));
    }
    Err(error)
}

/// Sends the client's log level to a server.
pub(super) async fn set_log_level(gw: &GatewayServices, ctx: &RequestContext, part: &Session, level: &str) {
    if part.negotiated.is_local() {
        part.set_client_log_level(level);
    } else if has_logging_capability(&part.negotiated.server_info) {
        part.negotiated.note_upstream_log_level(level);
        let asking = request_log_level(gw, ctx, level, |asking| ctx.message_for_upstream(asking));
        let _ = tokio::time::timeout(gw.settings.connect_timeout, asking).await;
    }
}

/// Delivers a notification or response to the servers it concerns.
pub(super) async fn deliver_one_way(gw: &GatewayServices, aggregate: &AggregateRequest, message: &ClientMessage<'_>) {
    let Some(session) = aggregate.client_protocol.session() else {
        return record_dropped(gw, aggregate, message).await;
    };
    let to = match message {
        // Each server got this notification when its session was opened.
        ClientMessage::Notification(notification) if *notification.method() == Method::Initialized => return,
        ClientMessage::Notification(notification) if *notification.method() == Method::Cancelled => {
            let id = notification.reference().ok().flatten();
            let parts = id.as_ref().map(|id| session.server_sessions.all_with_request(id)).unwrap_or_default();
            if parts.is_empty() && id.is_some_and(|id| session.cancel_request(&id)) {
                let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
                recorder.set_method(notification.method().name());
                return gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
            }
            parts.into_iter().map(|(server, part)| (server.to_string(), part, notification.text().to_owned())).collect()
        }
        ClientMessage::Notification(notification) => notification_deliveries(open_sessions(gw, session), notification),
        ClientMessage::Response(response) => response_deliveries(open_sessions(gw, session), response),
        ClientMessage::Request(_) => Vec::new(),
    };
    let to: Vec<(RequestContext, String)> = to
        .into_iter()
        .filter_map(|(server, part, text)| Some((aggregate.find_context(&server)?.with_session(part), text)))
        .collect();
    if to.is_empty() {
        return record_dropped(gw, aggregate, message).await;
    }
    // In parallel: a server that hangs must not delay the others.
    let Some(own) = gw.arc_self() else { return };
    let mut deliveries = JoinSet::new();
    for (ctx, text) in to {
        let gw = Arc::clone(&own);
        deliveries.spawn(async move {
            if let Ok(message) = read_client_message(text.as_bytes(), &gw.settings.request_limits) {
                policy_exempt_messages::forward_one_way(&gw, &ctx, &message).await;
            }
        });
    }
    deliveries.join_all().await;
}

/// A message to deliver: the server's name, the client's session with that server, and the message text.
type ClientMessageDelivery = (String, Arc<Session>, String);

fn notification_deliveries(
    parts: Vec<(ServerName, Arc<Session>)>,
    notification: &ClientNotification<'_>,
) -> Vec<ClientMessageDelivery> {
    let parts = parts.into_iter();
    let whole = |(server, part): (ServerName, Arc<Session>)| (server.to_string(), part, notification.text().to_owned());
    match notification.method() {
        Method::Progress => {
            let Some((server, text)) = notification.progress_to_target_server() else { return Vec::new() };
            let mut parts = parts.filter(|(own, _)| own.as_str() == server);
            parts.next().map(|(server, part)| (server.to_string(), part, text)).into_iter().collect()
        }
        _ => parts.map(whole).collect(),
    }
}

fn response_deliveries(
    parts: Vec<(ServerName, Arc<Session>)>,
    response: &ClientResponse<'_>,
) -> Vec<ClientMessageDelivery> {
    let mut parts = parts.into_iter().filter(|(_, part)| part.server_requests.contains(response.id()));
    parts
        .next()
        .map(|(server, part)| {
            let text = response.for_server(server.as_str());
            (server.to_string(), part, text)
        })
        .into_iter()
        .collect()
}

async fn record_dropped(gw: &GatewayServices, aggregate: &AggregateRequest, message: &ClientMessage<'_>) {
    let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
    match message {
        ClientMessage::Notification(notification) => recorder.set_method(notification.method().name()),
        ClientMessage::Response(_) => recorder.set_method("response"),
        ClientMessage::Request(request) => recorder.set_request(request),
    }
    gw.metrics.count_dropped_message();
    gw.write_row(recorder.refusal_row(&Refusal::UnknownReference)).await;
}

/// Ends the client's sessions with all servers.
pub(super) async fn end_session(gw: &GatewayServices, aggregate: &AggregateRequest) {
    let Some(session) = aggregate.client_protocol.session() else { return };
    gw.sessions.delete(session).await;
    session.streams.end();
    for (server, part) in open_sessions(gw, session) {
        if let Some(ctx) = aggregate.find_context(server.as_str()) {
            initialize::end_session(gw, &ctx.with_session(part)).await;
        }
    }
    let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
    recorder.set_method("DELETE");
    gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
}
