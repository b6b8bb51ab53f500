//! Standalone stream of a stateful client, which carries messages that belong to no request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{Method, SSE_KEEP_ALIVE, ServerMessage, read_server_message};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use http::{HeaderValue, Response, StatusCode};
use tokio::sync::{Notify, mpsc};

use super::advertised_lists::advertised_list_changes;
use super::subscriptions_listen::notification_filter::NotificationFilter;
use crate::pipeline::server_message_filter::{filter_standalone_notification, relay_server_request};
use crate::refusal::Refusal;
use crate::reply::{ReplyBody, http_response};
use crate::request_context::{RequestContext, StreamRevalidation};
use crate::runtime::InFlightGuard;
use crate::services::GatewayServices;
use crate::session::list_changed::{ListChangedSet, list_changed_notification as changed_list};
use crate::session::{STANDALONE_STREAM, Session, SseEventId, StandaloneStreamState};
use crate::upstream::{Permit, UpstreamRequest, UpstreamResponse, UpstreamSendError};
use crate::upstream_session::handshake::{reopen_if_stale, reopen_session};
use crate::upstream_session::lost_session::{can_mean_lost_session, is_session_lost};
use crate::upstream_session::resource_subscription;

pub(crate) const MAX_QUEUED_EVENTS: usize = 64;
/// Delay before the upstream's stream is reopened after it has ended.
pub(crate) const MIN_RECONNECT_DELAY: Duration = Duration::from_secs(1);
pub(crate) const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(60);
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
/// How long a new stream waits for the session's previous stream to end.
pub(crate) const STREAM_HANDOVER_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval at which the grant and the configuration are checked.
pub(crate) const REVALIDATION_INTERVAL: Duration = Duration::from_millis(500);

/// Resumes a stream that the client lost: a response stream or the standalone stream.
pub(crate) async fn resume_stream(gw: &Arc<GatewayServices>, ctx: RequestContext, last: &str) -> Response<ReplyBody> {
    let Some(session) = ctx.session() else {
        return http_response::http_error_response(StatusCode::BAD_REQUEST, "start with `initialize`");
    };
    let event_id = session.streams.replay_buffers.parse_event_id(last);
    if let Some(last_event) = event_id.filter(|place| place.stream == STANDALONE_STREAM) {
        return open_stream(gw, ctx, Some(last_event)).await;
    }
    let Some(last_event) = event_id.filter(|place| session.streams.replay_buffers.find_missed_events(*place).is_some())
    else {
        return reply_unknown_event(gw, &ctx).await;
    };
    match acquire_stream_slot(gw, &ctx).await {
        Err(refusal) => http_response::http_error_response(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
        Ok(in_flight) => match session.streams.replay_buffers.resume_stream(last_event, in_flight) {
            Some(events) => http_response::event_stream_response(events),
            None => reply_unknown_event(gw, &ctx).await,
        },
    }
}

/// Replies that the missed events are not available.
async fn reply_unknown_event(gw: &GatewayServices, ctx: &RequestContext) -> Response<ReplyBody> {
    let mut recorder = gw.new_recorder(ctx);
    recorder.set_method("GET");
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
    http_response::http_error_response(
        StatusCode::BAD_REQUEST,
        "the events after `Last-Event-ID` are no longer available",
    )
}

/// Opens the standalone stream, optionally resuming after the last event that the client received. The stream ends when
/// the client disconnects, opens another stream or ends the session, when the grant loses access to the server, or when
/// the gateway stops.
pub(crate) async fn open_stream(
    gw: &Arc<GatewayServices>,
    ctx: RequestContext,
    last_event: Option<SseEventId>,
) -> Response<ReplyBody> {
    let in_flight = match acquire_stream_slot(gw, &ctx).await {
        Ok(in_flight) => in_flight,
        Err(refusal) => return http_response::http_error_response(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
    };
    let (events, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
    let task = Arc::clone(gw);
    gw.tasks.spawn(async move {
        serve_stream(task, ctx, last_event, events).await;
        drop(in_flight);
    });
    http_response::event_stream_response(receiver)
}

/// Acquires one of the grant's stream slots, and records the request.
pub(crate) async fn acquire_stream_slot(gw: &GatewayServices, ctx: &RequestContext) -> Result<InFlightGuard, Refusal> {
    let mut recorder = gw.new_recorder(ctx);
    recorder.set_method("GET");
    match InFlightGuard::for_stream(&ctx.grant) {
        Ok(in_flight) => {
            gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
            Ok(in_flight)
        }
        Err(refusal) => {
            gw.record_refusal(&mut recorder, &refusal).await;
            Err(refusal)
        }
    }
}

async fn serve_stream(
    gw: Arc<GatewayServices>,
    ctx: RequestContext,
    last_event: Option<SseEventId>,
    events: mpsc::Sender<Bytes>,
) {
    let Some(session) = ctx.session() else { return };
    let handle = session.streams.open();
    // The response headers are sent with the first bytes, and clients wait for them.
    let _ = events.send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes())).await;
    let _earlier_has_ended = tokio::time::timeout(STREAM_HANDOVER_TIMEOUT, session.streams.lock.lock()).await;
    let missed = last_event.and_then(|place| session.streams.replay_buffers.find_missed_events(place));
    let last_event_id = missed.as_ref().and_then(|_| session.streams.last_event_id());
    send_backlog(session, missed, &events).await;
    let (mut own, mut last_received_id, mut is_due) = (ctx.clone(), last_event_id, false);
    while let Some(next) = serve_until_change(&gw, &own, last_received_id, &mut is_due, &events, &handle).await {
        is_due = true;
        // A replaced server does not know the events of the previous one.
        last_received_id = session.streams.last_event_id().filter(|_| Arc::ptr_eq(&own.upstream, &next.upstream));
        own = next;
    }
    session.streams.close(&handle);
}

/// Serves the stream under one configuration, after sending `list_changed` if `is_due`. Returns the context to continue
/// with after a configuration change, or `None` if the stream has ended.
async fn serve_until_change(
    gw: &GatewayServices,
    ctx: &RequestContext,
    last_event_id: Option<HeaderValue>,
    is_due: &mut bool,
    events: &mpsc::Sender<Bytes>,
    handle: &Notify,
) -> Option<RequestContext> {
    let session = ctx.session()?;
    let mut keep_alive = tokio::time::interval(gw.settings.keep_alive_interval);
    let mut revalidation = tokio::time::interval(REVALIDATION_INTERVAL);
    let encode = |text: &str| session.streams.replay_buffers.append_event(STANDALONE_STREAM, text);
    let mut upstream = std::pin::pin!(follow_upstream_stream(gw, ctx, last_event_id, events, encode));
    let mut notifying = std::pin::pin!(notify_list_changes(gw, ctx, events, encode));
    loop {
        tokio::select! {
            () = &mut upstream => return None,
            () = &mut notifying, if *is_due => *is_due = false,
            _ = keep_alive.tick() => {
                if events.send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes())).await.is_err() {
                    return None;
                }
            }
            _ = revalidation.tick() => match gw.config.revalidate(ctx) {
                StreamRevalidation::Unchanged => {}
                StreamRevalidation::Replaced(next) => return Some(*next),
                StreamRevalidation::Revoked => return None,
            },
            () = handle.notified() => return None,
            () = events.closed() => return None,
            () = gw.shutdown.wait() => return None,
        }
    }
}

/// Sends the events that the client missed. If they are not available, as after a restart, the stream starts again with
/// a priming event; no response is lost in that case.
pub(crate) async fn send_backlog(session: &Session, missed: Option<Vec<Bytes>>, events: &mpsc::Sender<Bytes>) {
    let first = match missed {
        Some(missed) => missed,
        None if session.has_priming_events() => {
            vec![session.streams.replay_buffers.priming_event(STANDALONE_STREAM)]
        }
        None => Vec::new(),
    };
    for event in first {
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// Sends `list_changed` for every list the server advertised, once the advertised set is known.
pub(crate) async fn notify_list_changes(
    gw: &GatewayServices,
    ctx: &RequestContext,
    events: &mpsc::Sender<Bytes>,
    encode: impl Fn(&str) -> Bytes,
) {
    let Some(session) = ctx.session() else { return };
    for method in advertised_list_changes(gw, ctx, session).await.methods() {
        let Ok(place) = events.reserve().await else { return };
        place.send(encode(&changed_list(&method)));
    }
}

/// Follows the upstream's standalone stream from the last event, and relays its messages, encoded with `encode`. If the
/// upstream has no stream, waits forever, so that the client's stream stays open.
pub(crate) async fn follow_upstream_stream(
    gw: &GatewayServices,
    ctx: &RequestContext,
    last: Option<HeaderValue>,
    events: &mpsc::Sender<Bytes>,
    encode: impl Fn(&str) -> Bytes + Copy,
) {
    let mut delay = MIN_RECONNECT_DELAY;
    // Handshake attempt that was made because the upstream had lost the session.
    let mut reopened = None;
    // Delay before restarting a process that ended; it grows for processes that end soon after their start.
    let mut restart_delay = MIN_RECONNECT_DELAY;
    // Stored with the session, which resets it when it is reopened.
    set_last_event_id(ctx, last, handshake_attempts(ctx));
    loop {
        reopen_if_stale(gw, ctx).await;
        // A concurrent reopening restores the subscriptions itself.
        if ctx.session().is_some_and(|session| session.upstream_link.reopen_lock.try_lock().is_ok()) {
            resource_subscription::resubscribe(gw, ctx);
        }
        let (attempt, started_at) = (handshake_attempts(ctx), Instant::now());
        let last = ctx.upstream_session().and_then(|session| session.streams.last_event_id());
        let is_resumed = last.is_some();
        let Some(permit) = stream_permit(gw, ctx, last).await else { return std::future::pending().await };
        match gw.upstream_client.send(&ctx.upstream, permit).await {
            Ok(mut exchange) if exchange.is_stream() => {
                reopened = None;
                let _open = StandaloneStreamGuard::open(ctx);
                tokio::select! {
                    () = relay_events(gw, ctx, &mut exchange, attempt, events, encode) => {}
                    // The subscriptions changed, so the stream is opened again immediately.
                    () = wait_for_subscription_change(ctx) => continue,
                }
                // The last message may not have been sent; it is sent again when the client resumes.
                if events.is_closed() {
                    return;
                }
                let (id, retry) = exchange.last_event();
                if started_at.elapsed() > MAX_RECONNECT_DELAY || !ctx.upstream.is_process() {
                    restart_delay = MIN_RECONNECT_DELAY;
                }
                delay = retry.unwrap_or(restart_delay).clamp(MIN_RETRY_DELAY, MAX_RECONNECT_DELAY);
                restart_delay = (restart_delay * 2).min(MAX_RECONNECT_DELAY);
                set_last_event_id(ctx, id, attempt);
            }
            Ok(exchange) if exchange.status == StatusCode::METHOD_NOT_ALLOWED => return wait_without_stream(ctx).await,
            Err(UpstreamSendError::Status(405)) => return wait_without_stream(ctx).await,
            // The server is down, has lost the session or the event, or has no stream and says so with 404.
            answer => {
                delay = (delay * 2).min(MAX_RECONNECT_DELAY);
                let status = refusal_status(&answer);
                match is_session_forgotten(gw, ctx, status).await {
                    Some(true) if reopened != attempt => {
                        reopened = reopen_forgotten_session(gw, ctx).await;
                        delay = MIN_RECONNECT_DELAY;
                    }
                    Some(false) if status == StatusCode::NOT_FOUND && !is_resumed => {
                        set_stream_state(ctx, StandaloneStreamState::Unsupported)
                    }
                    Some(_) | None => {}
                }
                if !matches!(answer, Err(UpstreamSendError::NotSent(_) | UpstreamSendError::ConnectionLost(_))) {
                    set_last_event_id(ctx, None, attempt);
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = wait_for_listener(ctx) => {}
        }
    }
}

/// Marks the upstream's stream as open until dropped.
struct StandaloneStreamGuard<'v>(&'v RequestContext);

impl<'v> StandaloneStreamGuard<'v> {
    fn open(ctx: &'v RequestContext) -> Self {
        set_stream_state(ctx, StandaloneStreamState::Open);
        Self(ctx)
    }
}

impl Drop for StandaloneStreamGuard<'_> {
    fn drop(&mut self) {
        set_stream_state(self.0, StandaloneStreamState::Closed);
    }
}

fn set_stream_state(ctx: &RequestContext, state: StandaloneStreamState) {
    if let Some(session) = ctx.upstream_session() {
        session.notification_hub.set_stream_state(state);
    }
}

/// Waits forever, because the upstream has no stream.
async fn wait_without_stream(ctx: &RequestContext) {
    set_stream_state(ctx, StandaloneStreamState::Unsupported);
    std::future::pending().await
}

/// Waits until a listener needs the upstream's stream.
async fn wait_for_listener(ctx: &RequestContext) {
    match ctx.upstream_session() {
        Some(session) => session.notification_hub.wait_until_wanted().await,
        None => std::future::pending().await,
    }
}

fn refusal_status(answer: &Result<UpstreamResponse, UpstreamSendError>) -> StatusCode {
    match answer {
        Ok(exchange) => exchange.status,
        Err(UpstreamSendError::Status(status)) => StatusCode::from_u16(*status).unwrap_or_default(),
        Err(_) => StatusCode::default(),
    }
}

/// Returns whether the upstream has lost the session, judged by the status and a ping. Returns `None` if neither is
/// conclusive.
async fn is_session_forgotten(gw: &GatewayServices, ctx: &RequestContext, status: StatusCode) -> Option<bool> {
    ctx.upstream_session()?;
    match status == StatusCode::NOT_FOUND || can_mean_lost_session(ctx, status) {
        true => is_session_lost(gw, ctx).await,
        false => None,
    }
}

/// Reopens a session that the upstream has lost. Calls would do this too, but a client that only listens makes none.
/// Returns the number of handshake attempts.
async fn reopen_forgotten_session(gw: &GatewayServices, ctx: &RequestContext) -> Option<u64> {
    let session = ctx.upstream_session()?;
    reopen_session(gw, ctx, Some(session.upstream_link.handshake_attempts())).await;
    Some(session.upstream_link.handshake_attempts())
}

/// Returns the number of handshake attempts; `None` without an upstream session.
fn handshake_attempts(ctx: &RequestContext) -> Option<u64> {
    ctx.upstream_session().map(|session| session.upstream_link.handshake_attempts())
}

/// Stores the id of the last event received from the upstream's stream. `attempt` is the handshake attempt after which
/// the stream was opened.
fn set_last_event_id(ctx: &RequestContext, last: Option<HeaderValue>, attempt: Option<u64>) {
    if let Some((session, attempt)) = ctx.upstream_session().zip(attempt) {
        session.set_last_event_id(last, attempt);
    }
}

/// Returns the permit for opening the stream: a GET for a stateful upstream, `subscriptions/listen` for a stateless
/// one. Resources that the policy denies are left out, and each denial is recorded once.
async fn stream_permit(gw: &GatewayServices, ctx: &RequestContext, last: Option<HeaderValue>) -> Option<Permit> {
    let Some(session) = ctx.local_session() else {
        let (session_link, revision) = ctx.upstream_session_address();
        return Some(Permit::for_event_stream(session_link, revision, last));
    };
    let mut uris = Vec::new();
    for uri in session.subscriptions.uris_for_stream() {
        if let Some(allowed) = resource_subscription::authorize_subscription(gw, ctx, session, &uri).await {
            uris.push(to_json_string(allowed.uri()));
        } else if mutant!("denied-resource-still-subscribed") {
            uris.push(to_json_string(&uri));
        }
    }
    let (call, method) = (gw.new_call_id(), Method::Listen.name());
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":"{call}","method":"{method}","params":{{"notifications":{{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[{}]}}}}}}"#,
        uris.join(",")
    );
    Permit::for_policy_exempt(method, ctx.request_for_upstream(UpstreamRequest::request(text, call), method, None))
}

async fn wait_for_subscription_change(ctx: &RequestContext) {
    match ctx.local_session() {
        Some(session) => session.subscriptions.changed.notified().await,
        None => std::future::pending().await,
    }
}

async fn relay_events(
    gw: &GatewayServices,
    ctx: &RequestContext,
    exchange: &mut UpstreamResponse,
    attempt: Option<u64>,
    events: &mpsc::Sender<Bytes>,
    encode: impl Fn(&str) -> Bytes,
) {
    // A stateful server decides itself what it sends.
    let session = ctx.local_session();
    let mut requested = session.map(|session| {
        NotificationFilter::of(
            ListChangedSet::ALL,
            session.subscriptions.uris(),
            session.negotiated.wants_log_messages(),
        )
    });
    let mut filter = requested.is_some().then(NotificationFilter::default);
    while let Ok(Some(message)) = exchange.next_message().await {
        if mutant!("event-acknowledged-before-delivery") {
            set_last_event_id(ctx, exchange.last_event().0, attempt);
        }
        let text = match read_server_message(&message, &gw.settings.reply_limits) {
            Ok(ServerMessage::Notification(notification)) => match &mut filter {
                Some(filter) if !mutant!("unrequested-notification-reaches-session") => {
                    if let Some(requested) =
                        requested.take_if(|_| *notification.method() == Method::SubscriptionsAcknowledged)
                    {
                        *filter = requested.restrict_to_acknowledged(notification.params().unwrap_or_default());
                    }
                    filter.filter_notification(gw, ctx, &notification).await
                }
                _ => filter_standalone_notification(gw, ctx, &notification).await,
            },
            Ok(ServerMessage::Request(server_request)) => relay_server_request(gw, ctx, &server_request).await,
            Ok(ServerMessage::Response(_)) | Err(_) => {
                gw.metrics.count_dropped_message();
                None
            }
        };
        if let Some(text) = text {
            let text = ctx.upstream.secret_redactor().redact_json(text);
            // Reserving first makes append and send one step: cancelled before it, the message is received again; after
            // it, the message is sent. An appended event is replayed to resuming clients, so it must not be appended
            // twice.
            let Ok(place) = events.reserve().await else { return };
            place.send(encode(&text));
        }
        set_last_event_id(ctx, exchange.last_event().0, attempt);
    }
}
