//! Standalone stream of the aggregate endpoint, which merges the standalone streams of all servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatelodge_mcp::aggregate_names::prefix_message;
use gatelodge_mcp::{Method, SSE_KEEP_ALIVE};
use gatelodge_store::{CallOutcome, ServerName};
use http::{HeaderValue, Response, StatusCode};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::fan_out::fan_out;
use super::{AggregateRequest, aggregate_server_sessions};
use crate::call_recorder::CallRecorder;
use crate::methods::standalone_stream::{
    MAX_QUEUED_EVENTS, REVALIDATION_INTERVAL, STREAM_HANDOVER_TIMEOUT, follow_upstream_stream, send_backlog,
};
use crate::refusal::Refusal;
use crate::reply::{ReplyBody, http_response};
use crate::request_context::{RequestContext, StreamRevalidation};
use crate::runtime::InFlightGuard;
use crate::services::GatewayServices;
use crate::session::list_changed::{self, ListChangedSet};
use crate::session::{STANDALONE_STREAM, Session, SseEventId};

/// Server sessions are normally opened within this time after the stream. If a session is opened later, its server was
/// down before, and its lists may have changed.
const STARTUP_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Resumes a stream that the client lost: a response stream or the standalone stream.
pub(crate) async fn resume_stream(
    gw: &Arc<GatewayServices>,
    aggregate: AggregateRequest,
    last: &str,
) -> Response<ReplyBody> {
    let Some(session) = aggregate.client_protocol.session() else {
        return http_response::http_error_response(StatusCode::BAD_REQUEST, "start with `initialize`");
    };
    let event_id = session.streams.replay_buffers.parse_event_id(last);
    if let Some(last_event) = event_id.filter(|place| place.stream == STANDALONE_STREAM) {
        return open_stream(gw, aggregate, Some(last_event)).await;
    }
    let Some(last_event) = event_id.filter(|place| session.streams.replay_buffers.find_missed_events(*place).is_some())
    else {
        return reply_unknown_event(gw, &aggregate).await;
    };
    match acquire_stream_slot(gw, &aggregate).await {
        Err(refusal) => http_response::http_error_response(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
        Ok(in_flight) => match session.streams.replay_buffers.resume_stream(last_event, in_flight) {
            Some(events) => http_response::event_stream_response(events),
            None => reply_unknown_event(gw, &aggregate).await,
        },
    }
}

/// Replies that the missed events are not available.
async fn reply_unknown_event(gw: &GatewayServices, aggregate: &AggregateRequest) -> Response<ReplyBody> {
    let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
    recorder.set_method("GET");
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
    http_response::http_error_response(
        StatusCode::BAD_REQUEST,
        "the events after `Last-Event-ID` are no longer available",
    )
}

/// Opens the standalone stream, optionally resuming after the last event that the client received. The stream ends when
/// the client disconnects, opens another stream or ends the session, when the grant is revoked, or when the gateway
/// stops.
pub(crate) async fn open_stream(
    gw: &Arc<GatewayServices>,
    aggregate: AggregateRequest,
    last_event: Option<SseEventId>,
) -> Response<ReplyBody> {
    let in_flight = match acquire_stream_slot(gw, &aggregate).await {
        Ok(in_flight) => in_flight,
        Err(refusal) => return http_response::http_error_response(StatusCode::TOO_MANY_REQUESTS, &refusal.message()),
    };
    let (events, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
    let task = Arc::clone(gw);
    gw.tasks.spawn(async move {
        serve_stream(task, aggregate, last_event, events).await;
        drop(in_flight);
    });
    http_response::event_stream_response(receiver)
}

/// Acquires one of the grant's stream slots, and records the request.
async fn acquire_stream_slot(gw: &GatewayServices, aggregate: &AggregateRequest) -> Result<InFlightGuard, Refusal> {
    let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
    recorder.set_method("GET");
    let in_flight = InFlightGuard::for_stream(&aggregate.grant);
    match &in_flight {
        Ok(_) => gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await,
        Err(refusal) => {
            gw.record_refusal(&mut recorder, refusal).await;
        }
    }
    in_flight
}

async fn serve_stream(
    gw: Arc<GatewayServices>,
    aggregate: AggregateRequest,
    last_event: Option<SseEventId>,
    events: mpsc::Sender<Bytes>,
) {
    let mut aggregate = aggregate;
    let Some(session) = aggregate.client_protocol.session().cloned() else { return };
    let handle = session.streams.open();
    let mut changes = aggregate.caches.late_lists.subscribe_changes();
    // The response headers are sent with the first bytes, and clients wait for them.
    let _ = events.send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes())).await;
    let _earlier_has_ended = tokio::time::timeout(STREAM_HANDOVER_TIMEOUT, session.streams.lock.lock()).await;
    let missed = last_event.and_then(|place| session.streams.replay_buffers.find_missed_events(place));
    let mut followers = StandaloneStreamRelays { resumes: missed.is_some(), ..StandaloneStreamRelays::default() };
    send_backlog(&session, missed, &events).await;
    let opened_at = Instant::now();
    let mut keep_alive = tokio::time::interval(gw.settings.keep_alive_interval);
    let mut revalidation = tokio::time::interval(REVALIDATION_INTERVAL);
    loop {
        tokio::select! {
            _ = keep_alive.tick() => {
                if events.send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes())).await.is_err() {
                    break;
                }
                open_server_sessions(&gw, &aggregate, &session);
            }
            _ = revalidation.tick() => {
                let has_changed = match gw.config.revalidate_aggregate(&aggregate) {
                    StreamRevalidation::Unchanged => false,
                    StreamRevalidation::Revoked => break,
                    StreamRevalidation::Replaced(next) => {
                        aggregate = *next;
                        open_server_sessions(&gw, &aggregate, &session);
                        true
                    }
                };
                let is_back = followers.update_tasks(&gw, &aggregate, &session, &events) && opened_at.elapsed() > STARTUP_GRACE_PERIOD;
                if has_changed || is_back {
                    notify_list_changes(ListChangedSet::ALL.methods(), &session, &events).await;
                }
            }
            Ok(changed) = changes.recv() => {
                if changed.grant == aggregate.grant.config.id {
                    notify_list_changes([changed.method], &session, &events).await;
                }
            }
            () = handle.notified() => break,
            () = events.closed() => break,
            () = gw.shutdown.wait() => break,
        }
    }
    session.streams.close(&handle);
}

/// Opens missing server sessions: none survive a restart of the gateway, and a server that was down may be up again.
fn open_server_sessions(gw: &Arc<GatewayServices>, aggregate: &AggregateRequest, session: &Arc<Session>) {
    let (task, aggregate, session) = (Arc::clone(gw), aggregate.clone(), Arc::clone(session));
    gw.tasks.spawn(async move {
        let opening = fan_out(&task, &aggregate, |gw, ctx| {
            let session = Arc::clone(&session);
            async move {
                // If the session is already being opened, waiting for the lock would only add waiters.
                let is_free = session.server_sessions.open_lock(ctx.upstream.name()).try_lock().is_ok();
                if is_free {
                    drop(aggregate_server_sessions::ensure_open(&gw, &session, &ctx).await);
                }
            }
        });
        opening.await;
    });
}

/// Sends the `list_changed` notifications that the gateway itself has advertised.
async fn notify_list_changes(
    lists: impl IntoIterator<Item = Method<'static>>,
    session: &Session,
    events: &mpsc::Sender<Bytes>,
) {
    for method in lists {
        let _ = events
            .send(
                session
                    .streams
                    .replay_buffers
                    .append_event(STANDALONE_STREAM, &list_changed::list_changed_notification(&method)),
            )
            .await;
    }
}

/// Tasks that relay the standalone streams of the servers, one per server session.
#[derive(Default)]
struct StandaloneStreamRelays {
    tasks: HashMap<ServerName, StandaloneStreamRelay>,
    /// Whether the client resumed its stream. If so, the stream of each server is also resumed after its last event.
    resumes: bool,
}

/// A task that follows one server session, with the context in which it was started.
struct StandaloneStreamRelay {
    ctx: RequestContext,
    task: Option<JoinHandle<()>>,
}

impl Drop for StandaloneStreamRelay {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl StandaloneStreamRelays {
    /// Starts a task for each session that is new or whose server or policy has changed, and drops the tasks of ended
    /// sessions. Returns whether there are new sessions.
    fn update_tasks(
        &mut self,
        gw: &Arc<GatewayServices>,
        aggregate: &AggregateRequest,
        session: &Arc<Session>,
        events: &mpsc::Sender<Bytes>,
    ) -> bool {
        let mut is_new = false;
        let mut before = std::mem::take(&mut self.tasks);
        for (server, part) in aggregate_server_sessions::open_sessions(gw, session) {
            let Some(ctx) = aggregate.find_context(server.as_str()) else { continue };
            let earlier = match before.remove(&server).filter(|earlier| earlier.is_for_session(&part)) {
                Some(earlier) if gw.config.is_context_current(&earlier.ctx) => {
                    self.tasks.insert(server, earlier);
                    continue;
                }
                earlier => earlier,
            };
            is_new |= earlier.is_none();
            // A replaced server does not know the events of the previous one.
            let is_same = |earlier: &StandaloneStreamRelay| Arc::ptr_eq(&earlier.ctx.upstream, &ctx.upstream);
            let resumes = earlier.as_ref().map_or(self.resumes, is_same);
            let ending = earlier.and_then(StandaloneStreamRelay::abort);
            let ctx = ctx.with_session(Arc::clone(&part));
            let (own, session_ctx, session, events) =
                (Arc::clone(gw), ctx.clone(), Arc::clone(session), events.clone());
            let task = tokio::spawn(async move {
                // The resume position is known only after the previous task has ended; this way no event is sent twice.
                if let Some(ending) = ending {
                    let _ = ending.await;
                }
                let last_event_id = part.streams.last_event_id().filter(|_| resumes);
                relay_events(own, session_ctx, last_event_id, session, events).await;
            });
            self.tasks.insert(server, StandaloneStreamRelay { ctx, task: Some(task) });
        }
        is_new
    }
}

impl StandaloneStreamRelay {
    /// Aborts the task and returns its handle.
    fn abort(mut self) -> Option<JoinHandle<()>> {
        self.task.take().inspect(|task| task.abort())
    }

    fn is_for_session(&self, part: &Session) -> bool {
        self.ctx.session().is_some_and(|own| own.id() == part.id())
    }
}

async fn relay_events(
    gw: Arc<GatewayServices>,
    ctx: RequestContext,
    last_event_id: Option<HeaderValue>,
    session: Arc<Session>,
    events: mpsc::Sender<Bytes>,
) {
    let _in_use = ctx.session().cloned().map(SessionStreamGuard::new);
    let written = |text: &str| {
        let text = prefix_message(ctx.upstream.name().as_str(), text, &gw.settings.reply_limits);
        session.streams.replay_buffers.append_event(STANDALONE_STREAM, &text)
    };
    follow_upstream_stream(&gw, &ctx, last_event_id, &events, &written).await;
}

/// Marks a server session as in use while its stream is being relayed.
struct SessionStreamGuard {
    session: Arc<Session>,
    handle: Arc<Notify>,
}

impl SessionStreamGuard {
    fn new(session: Arc<Session>) -> Self {
        let handle = session.streams.open();
        Self { session, handle }
    }
}

impl Drop for SessionStreamGuard {
    fn drop(&mut self) {
        self.session.streams.close(&self.handle);
    }
}
