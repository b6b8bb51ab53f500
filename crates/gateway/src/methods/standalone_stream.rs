//! Standalone stream of a stateful client, which carries messages that belong to no request.

mod upstream_stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::SSE_KEEP_ALIVE;
use gatelodge_store::CallOutcome;
use http::{HeaderValue, Response, StatusCode};
use tokio::sync::{Notify, mpsc};

use crate::refusal::Refusal;
use crate::reply::{ReplyBody, http_response};
use crate::request_context::{RequestContext, StreamRevalidation};
use crate::runtime::InFlightGuard;
use crate::services::GatewayServices;
use crate::session::list_changed::list_changed_notification as changed_list;
use crate::session::{STANDALONE_STREAM, Session, SseEventId};
use crate::upstream_session::advertised_lists::advertised_list_changes;

pub(crate) use self::upstream_stream::follow_upstream_stream;

pub(crate) const MAX_QUEUED_EVENTS: usize = 64;
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
