//! The stream that a legacy client holds open for what belongs to no request of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{Method, Revision, SSE_KEEP_ALIVE, ServerMessage as Said, read_server_message};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use http::{HeaderValue, Response, StatusCode};
use tokio::sync::{Notify, mpsc};

use super::initialize::{reopen_if_stale, reopen_session};
use super::resources_subscribe;
use super::session_recovery::{can_mean_lost_session, is_session_lost};
use super::subscriptions_listen::notification_filter::NotificationFilter;
use super::unsolicited_messages::{filter_standalone_notification, relay_server_request};
use crate::Gateway;
use crate::http_server::http_bodies::ReplyBody;
use crate::http_server::reply;
use crate::list_changed::{ListChangedSet, list_changed_notification as changed_list};
use crate::pipeline::{CallRecorder, InFlightGuard, Permit, Refusal};
use crate::request_context::RequestContext;
use crate::revalidation::Revalidation;
use crate::session::{STANDALONE_STREAM, Session, SseEventId, UpstreamStreamState};
use crate::upstream::{SendError, UpstreamRequest, UpstreamResponse};

pub(crate) const MAX_QUEUED_EVENTS: usize = 64;
/// After the upstream ends its stream, we wait so long before asking for it again.
pub(crate) const MIN_RECONNECT_DELAY: Duration = Duration::from_secs(1);
pub(crate) const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(60);
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
/// How long one that takes an earlier stream's place waits for it to end.
pub(crate) const STREAM_HANDOVER_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it looks whether the grant is still what it was.
pub(crate) const REVALIDATION_INTERVAL: Duration = Duration::from_millis(500);

/// Goes on with a stream that the client lost: the one that answers a request, or the one that belongs to none.
pub(crate) async fn resume_stream(gw: &Arc<Gateway>, ctx: RequestContext, last: &str) -> Response<ReplyBody> {
    let Some(session) = ctx.session() else {
        return reply::http_error_response(StatusCode::BAD_REQUEST, "begin with `initialize`");
    };
    let place_in = session.replay_buffers().parse_event_id(last);
    if let Some(behind) = place_in.filter(|place| place.stream == STANDALONE_STREAM) {
        return open_stream(gw, ctx, Some(behind)).await;
    }
    let Some(behind) = place_in.filter(|place| session.replay_buffers().find_missed_events(*place).is_some()) else {
        return reply_unknown_event(gw, &ctx).await;
    };
    match acquire_stream_slot(gw, &ctx).await {
        Err(refusal) => reply::http_error_response(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
        Ok(in_flight) => match session.replay_buffers().resume_stream(behind, in_flight) {
            Some(events) => reply::event_stream_response(events),
            None => reply_unknown_event(gw, &ctx).await,
        },
    }
}

/// Answers that nobody knows what a client missed.
async fn reply_unknown_event(gw: &Gateway, ctx: &RequestContext) -> Response<ReplyBody> {
    let mut recorder = CallRecorder::for_request(ctx, gw.new_call_id(), gw.clock.now());
    recorder.set_method("GET");
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
    reply::http_error_response(StatusCode::BAD_REQUEST, "the events after `Last-Event-ID` are no longer available")
}

/// Opens the stream, behind an event that the client has of it. It lives until the client hangs up, opens another or
/// ends the session, until the grant has no way to the server any more, or until the gateway stops.
pub(crate) async fn open_stream(
    gw: &Arc<Gateway>,
    ctx: RequestContext,
    behind: Option<SseEventId>,
) -> Response<ReplyBody> {
    let in_flight = match acquire_stream_slot(gw, &ctx).await {
        Ok(in_flight) => in_flight,
        Err(refusal) => return reply::http_error_response(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
    };
    let (events, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
    let task = Arc::clone(gw);
    gw.spawn(async move {
        serve_stream(task, ctx, behind, events).await;
        drop(in_flight);
    });
    reply::event_stream_response(receiver)
}

/// A place for one more stream of the grant; what comes of it is written down.
pub(crate) async fn acquire_stream_slot(gw: &Gateway, ctx: &RequestContext) -> Result<InFlightGuard, Refusal> {
    let mut recorder = CallRecorder::for_request(ctx, gw.new_call_id(), gw.clock.now());
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

async fn serve_stream(gw: Arc<Gateway>, ctx: RequestContext, behind: Option<SseEventId>, events: mpsc::Sender<Bytes>) {
    let Some(session) = ctx.session() else { return };
    let handle = session.open_stream();
    // The head goes out with the first bytes; clients wait for it.
    let _ = events.send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes())).await;
    let _earlier_has_ended = tokio::time::timeout(STREAM_HANDOVER_TIMEOUT, session.stream_lock.lock()).await;
    let missed = behind.and_then(|place| session.replay_buffers().find_missed_events(place));
    let last_event_id = missed.as_ref().and_then(|_| session.last_event_id());
    send_backlog(session, missed, &events).await;
    let (mut own, mut heard, mut is_due) = (ctx.clone(), last_event_id, false);
    while let Some(next) = serve_until_change(&gw, &own, heard, &mut is_due, &events, &handle).await {
        is_due = true;
        // Another server knows nothing of the events of this one.
        heard = session.last_event_id().filter(|_| Arc::ptr_eq(&own.upstream, &next.upstream));
        own = next;
    }
    session.close_stream(&handle);
}

/// Serves the stream by what is in force, and says that it is another one if that is due. Gives the visit to go on by
/// when it is another one again; none at the end.
async fn serve_until_change(
    gw: &Gateway,
    ctx: &RequestContext,
    last_event_id: Option<HeaderValue>,
    is_due: &mut bool,
    events: &mpsc::Sender<Bytes>,
    handle: &Notify,
) -> Option<RequestContext> {
    let session = ctx.session()?;
    let mut keep_alive = tokio::time::interval(gw.settings.keep_alive);
    let mut look = tokio::time::interval(REVALIDATION_INTERVAL);
    let written = |text: &str| session.replay_buffers().append_event(STANDALONE_STREAM, text);
    let mut upstream = std::pin::pin!(follow_upstream_stream(gw, ctx, last_event_id, events, written));
    let mut telling = std::pin::pin!(notify_list_changes(gw, ctx, events, written));
    loop {
        tokio::select! {
            () = &mut upstream => return None,
            () = &mut telling, if *is_due => *is_due = false,
            _ = keep_alive.tick() => {
                if events.send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes())).await.is_err() {
                    return None;
                }
            }
            _ = look.tick() => match gw.revalidate(ctx) {
                Revalidation::Unchanged => {}
                Revalidation::Replaced(next) => return Some(*next),
                Revalidation::Revoked => return None,
            },
            () = handle.notified() => return None,
            () = events.closed() => return None,
            () = gw.wait_for_shutdown() => return None,
        }
    }
}

/// Gives the client what it missed since the place that it comes from. Where that is not known any more, as after a
/// restart, the stream begins anew, with a place to come back to: what belongs to no request is nobody's answer.
pub(crate) async fn send_backlog(session: &Session, missed: Option<Vec<Bytes>>, events: &mpsc::Sender<Bytes>) {
    let first = match missed {
        Some(missed) => missed,
        None if session.revision() >= Revision::R2025_11_25 => {
            vec![session.replay_buffers().priming_event(STANDALONE_STREAM)]
        }
        None => Vec::new(),
    };
    for event in first {
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// Tells a client with a session that its lists are others now, as soon as it is known of which it was promised to hear.
pub(crate) async fn notify_list_changes(
    gw: &Gateway,
    ctx: &RequestContext,
    events: &mpsc::Sender<Bytes>,
    written: impl Fn(&str) -> Bytes,
) {
    let Some(session) = ctx.session() else { return };
    for method in gw.advertised_list_changes(ctx, session).await.methods() {
        let Ok(place) = events.reserve().await else { return };
        place.send(written(&changed_list(&method)));
    }
}

/// Follows the upstream's own stream from where it was left, and passes on what is in it as `written` says. Where it
/// has none, this waits for ever: the client's stays open all the same.
pub(crate) async fn follow_upstream_stream(
    gw: &Gateway,
    ctx: &RequestContext,
    last: Option<HeaderValue>,
    events: &mpsc::Sender<Bytes>,
    written: impl Fn(&str) -> Bytes + Copy,
) {
    let mut pause = MIN_RECONNECT_DELAY;
    // Which opening of the session was made because the upstream had forgotten it.
    let mut reopened = None;
    // How long a process that has ended is let rest: one that always ends soon is not started again and again.
    let mut rest = MIN_RECONNECT_DELAY;
    // Kept with the session, which forgets it when it is opened anew.
    set_last_event_id(ctx, last, handshake_attempts(ctx));
    loop {
        reopen_if_stale(gw, ctx).await;
        // Whoever opens it now asks by themselves.
        if ctx.session().is_some_and(|session| session.reopen_lock.try_lock().is_ok()) {
            resources_subscribe::resubscribe(gw, ctx);
        }
        let (opening, began) = (handshake_attempts(ctx), Instant::now());
        let last = ctx.upstream_session().and_then(|session| session.last_event_id());
        let is_behind = last.is_some();
        let Some(permit) = stream_permit(gw, ctx, last).await else { return std::future::pending().await };
        match gw.upstream_client.send(&ctx.upstream, permit).await {
            Ok(mut exchange) if exchange.is_stream() => {
                reopened = None;
                let _open = StreamStateGuard::open(ctx);
                tokio::select! {
                    () = relay_events(gw, ctx, &mut exchange, opening, events, written) => {}
                    // What is heard of has changed, so the stream is opened anew, at once.
                    () = wait_for_subscription_change(ctx) => continue,
                }
                // Its last message may not have been sent: whoever comes back hears it.
                if events.is_closed() {
                    return;
                }
                let (id, retry) = exchange.last_event();
                if began.elapsed() > MAX_RECONNECT_DELAY || !ctx.upstream.is_process() {
                    rest = MIN_RECONNECT_DELAY;
                }
                pause = retry.unwrap_or(rest).clamp(MIN_RETRY_DELAY, MAX_RECONNECT_DELAY);
                rest = (rest * 2).min(MAX_RECONNECT_DELAY);
                set_last_event_id(ctx, id, opening);
            }
            Ok(exchange) if exchange.status == StatusCode::METHOD_NOT_ALLOWED => return wait_without_stream(ctx).await,
            Err(SendError::Status(405)) => return wait_without_stream(ctx).await,
            // Not there now, it has forgotten the session or the event, or has no stream and says so by 404.
            answer => {
                pause = (pause * 2).min(MAX_RECONNECT_DELAY);
                let status = refusal_status(&answer);
                match is_session_forgotten(gw, ctx, status).await {
                    Some(true) if reopened != opening => {
                        reopened = reopen_forgotten_session(gw, ctx).await;
                        pause = MIN_RECONNECT_DELAY;
                    }
                    Some(false) if status == StatusCode::NOT_FOUND && !is_behind => {
                        set_stream_state(ctx, UpstreamStreamState::Unsupported)
                    }
                    Some(_) | None => {}
                }
                if !matches!(answer, Err(SendError::NotSent(_) | SendError::ConnectionLost(_))) {
                    set_last_event_id(ctx, None, opening);
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = wait_for_listener(ctx) => {}
        }
    }
}

/// The upstream's stream is open for as long as this is there.
struct StreamStateGuard<'v>(&'v RequestContext);

impl<'v> StreamStateGuard<'v> {
    fn open(ctx: &'v RequestContext) -> Self {
        set_stream_state(ctx, UpstreamStreamState::Open);
        Self(ctx)
    }
}

impl Drop for StreamStateGuard<'_> {
    fn drop(&mut self) {
        set_stream_state(self.0, UpstreamStreamState::Closed);
    }
}

fn set_stream_state(ctx: &RequestContext, standing: UpstreamStreamState) {
    if let Some(session) = ctx.upstream_session() {
        session.notification_hub.set_stream_state(standing);
    }
}

/// Waits for ever, where the upstream has no stream.
async fn wait_without_stream(ctx: &RequestContext) {
    set_stream_state(ctx, UpstreamStreamState::Unsupported);
    std::future::pending().await
}

/// Waits until somebody waits for the upstream's stream.
async fn wait_for_listener(ctx: &RequestContext) {
    match ctx.upstream_session() {
        Some(session) => session.notification_hub.wait_until_wanted().await,
        None => std::future::pending().await,
    }
}

fn refusal_status(answer: &Result<UpstreamResponse, SendError>) -> StatusCode {
    match answer {
        Ok(exchange) => exchange.status,
        Err(SendError::Status(status)) => StatusCode::from_u16(*status).unwrap_or_default(),
        Err(_) => StatusCode::default(),
    }
}

/// Whether the upstream has forgotten the session: how it refuses its stream may say so, and a request that does nothing
/// tells. None where neither says anything.
async fn is_session_forgotten(gw: &Gateway, ctx: &RequestContext, status: StatusCode) -> Option<bool> {
    ctx.upstream_session()?;
    match status == StatusCode::NOT_FOUND || can_mean_lost_session(ctx, status) {
        true => is_session_lost(gw, ctx).await,
        false => None,
    }
}

/// Opens the session again that the upstream has forgotten: who only listens makes no call that would. Gives which
/// opening it is then.
async fn reopen_forgotten_session(gw: &Gateway, ctx: &RequestContext) -> Option<u64> {
    let session = ctx.upstream_session()?;
    reopen_session(gw, ctx, Some(session.handshake_attempts())).await;
    Some(session.handshake_attempts())
}

/// Which opening of the session it is; none where the upstream has none.
fn handshake_attempts(ctx: &RequestContext) -> Option<u64> {
    ctx.upstream_session().map(|session| session.handshake_attempts())
}

/// Notes the last event that was heard of the upstream's stream, in which opening of the session.
fn set_last_event_id(ctx: &RequestContext, last: Option<HeaderValue>, opening: Option<u64>) {
    if let Some((session, opening)) = ctx.upstream_session().zip(opening) {
        session.set_last_event_id(last, opening);
    }
}

/// Leave to hear: the stream of a session, or a request that stands alone for all that the session wants to hear of.
/// What the policy denies by now is left out, and that is written once.
async fn stream_permit(gw: &Gateway, ctx: &RequestContext, last: Option<HeaderValue>) -> Option<Permit> {
    let Some(session) = ctx.session().filter(|session| session.is_upstream_stateless()) else {
        return Some(Permit::for_event_stream(ctx, last));
    };
    let mut uris = Vec::new();
    for uri in session.subscriptions.uris_for_stream() {
        if let Some(allowed) = resources_subscribe::authorize_subscription(gw, ctx, session, &uri).await {
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
    Permit::for_always_allowed(method, ctx.request_for_upstream(UpstreamRequest::request(text, call), method, None))
}

async fn wait_for_subscription_change(ctx: &RequestContext) {
    match ctx.session().filter(|session| session.is_upstream_stateless()) {
        Some(session) => session.subscriptions.changed.notified().await,
        None => std::future::pending().await,
    }
}

async fn relay_events(
    gw: &Gateway,
    ctx: &RequestContext,
    exchange: &mut UpstreamResponse,
    opening: Option<u64>,
    events: &mpsc::Sender<Bytes>,
    written: impl Fn(&str) -> Bytes,
) {
    // In a session of its own a server tells what it likes.
    let session = ctx.session().filter(|session| session.is_upstream_stateless());
    let mut asked = session.map(|session| {
        NotificationFilter::of(ListChangedSet::ALL, session.subscriptions.uris(), session.wants_log_messages())
    });
    let mut filter = asked.is_some().then(NotificationFilter::default);
    while let Ok(Some(message)) = exchange.next_message().await {
        if mutant!("event-acknowledged-before-delivery") {
            set_last_event_id(ctx, exchange.last_event().0, opening);
        }
        let text = match read_server_message(&message, &gw.settings.reply_limits) {
            Ok(Said::Notification(said)) => match &mut filter {
                Some(filter) if !mutant!("unrequested-notification-reaches-session") => {
                    if let Some(asked) = asked.take_if(|_| *said.method() == Method::SubscriptionsAcknowledged) {
                        *filter = asked.restrict_to_acknowledged(said.params().unwrap_or_default());
                    }
                    filter.filter_notification(gw, ctx, &said).await
                }
                _ => filter_standalone_notification(gw, ctx, &said).await,
            },
            Ok(Said::Request(asked)) => relay_server_request(gw, ctx, &asked).await,
            Ok(Said::Response(_)) | Err(_) => {
                gw.metrics.count_dropped_message();
                None
            }
        };
        if let Some(text) = text {
            let text = ctx.upstream.secret_redactor().redact_json(text);
            // In one step: whoever is stopped before it hears the message again, and whoever is stopped behind it has
            // sent it. What is written is kept for those who come back, so it must not be written for a second time.
            let Ok(place) = events.reserve().await else { return };
            place.send(written(&text));
        }
        set_last_event_id(ctx, exchange.last_event().0, opening);
    }
}
