//! `subscriptions/listen` on the aggregate endpoint: one stream for the client, fed by one listen request per server.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::{JsonDocument, JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::aggregate_names::{UnroutableSubscriptionTarget, merge_capabilities, prefix_name};
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, ServerMessage, code, read_client_message, read_server_message,
};
use gatelodge_mutants::mutant;
use gatelodge_store::{CallOutcome, ServerName};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{AggregateRequest, FAN_OUT_TIMEOUT};
use crate::call_recorder::CallRecorder;
use crate::methods::dispatch::dispatch;
use crate::methods::standalone_stream::REVALIDATION_INTERVAL;
use crate::methods::subscriptions_listen::{
    CheckedResources, check_resource_count, check_resources, record_denied, resource_uris,
};
use crate::methods::task_requests;
use crate::pipeline::task_ownership;
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{RequestContext, StreamRevalidation};
use crate::responder::{ClientSessionCell, Responder};
use crate::runtime::InFlightGuard;
use crate::services::GatewayServices;
use crate::session::list_changed::{ListChangedSet, SUBSCRIPTION_ID_KEY, list_changed_notification_for};

/// How many messages are queued for a slow client before the servers have to wait.
const MAX_QUEUED_MESSAGES: usize = 64;
/// Delay before listening again to a server whose stream has ended.
const MIN_RECONNECT_DELAY: Duration = Duration::from_secs(1);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(60);

/// An event from one server's stream.
enum ServerStreamEvent {
    /// The server's acknowledgement of the subscription.
    Acknowledged(Bytes),
    Message(Bytes),
    /// The stream ended or could not be started.
    Ended(ServerStreamEnd),
}

/// Why a server's stream ended.
enum ServerStreamEnd {
    /// A temporary failure, after which the stream is opened again.
    Temporary,
    /// The server does not support listening. The other servers are not affected.
    Permanent,
    /// The server does not know a task that the client named; contains the error response.
    TaskRejected(Bytes),
}

/// Serves the stream until the client ends it.
pub(super) async fn handle_aggregate_listen(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    if let Err(refusal) = check_resource_count(request) {
        return task_requests::reply_refusal(gw, request, recorder, responder, &refusal).await;
    }
    let unknown = unknown_targets(aggregate, request);
    let checked = if mutant!("task-after-many-resources-allowed") { 64 } else { unknown.len() };
    if let Some(task) = unknown
        .iter()
        .take(checked)
        .find_map(|unknown| if let UnroutableSubscriptionTarget::Task(task) = unknown { Some(task) } else { None })
    {
        return reply_not_found(gw, recorder, task, responder, reply::unknown_task_reply(request.id(), task)).await;
    }
    for ctx in &aggregate.contexts {
        let text = request.listen_request_for(ctx.upstream.name().as_str());
        let Ok(ClientMessage::Request(own)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
            continue;
        };
        let client_ctx = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..ctx.clone() };
        // Only ownership is checked here. The server itself may be slow, so its own check is part of its stream.
        match task_ownership::find_unknown_task(gw, &client_ctx, &own).await {
            Ok(None) => {}
            Ok(Some(task)) => {
                let task = prefix_name(ctx.upstream.name().as_str(), &task);
                return reply_not_found(gw, recorder, &task, responder, reply::unknown_task_reply(request.id(), &task))
                    .await;
            }
            Err(error) => {
                return task_requests::reply_refusal(gw, request, recorder, responder, &Refusal::Store(error)).await;
            }
        }
    }
    for unknown in &unknown {
        // It is left out of the acknowledgement, like a resource that the policy denies.
        if let UnroutableSubscriptionTarget::Resource(uri) = unknown {
            record_unknown_resource(gw, aggregate, request, uri).await;
        }
    }
    match InFlightGuard::for_stream(&aggregate.grant) {
        Ok(in_flight) => responder.hold_in_flight_guard(in_flight),
        Err(refusal) => {
            responder.finish(reply::internal_error_reply(request.id(), recorder.call_id(), &refusal)).await;
            return gw.record_refusal(&mut recorder, &refusal).await;
        }
    }
    let subscriptions = server_subscriptions(gw, aggregate, request);
    for subscription in &subscriptions {
        // Recorded once per client request, not per reconnect.
        subscription.record_denials(gw, aggregate, request).await;
    }
    match run_stream(gw, aggregate, request, subscriptions, &mut responder).await {
        Some(refused) => {
            responder.finish(refused).await;
            gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
        }
        None => {
            responder.hang_up();
            gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
        }
    }
}

/// Returns the resources and tasks in the request that belong to none of the grant's servers.
fn unknown_targets(aggregate: &AggregateRequest, request: &ClientRequest<'_>) -> Vec<UnroutableSubscriptionTarget> {
    request.unknown_targets(|server| aggregate.find_context(server).is_some())
}

/// The subscription to one server's notifications, under the active policy.
struct ServerSubscription {
    ctx: RequestContext,
    /// Listen request for the server, without denied resources.
    request_text: Arc<str>,
    resources: CheckedResources,
}

impl ServerSubscription {
    /// Records the requested resources that the policy denies.
    async fn record_denials(&self, gw: &GatewayServices, aggregate: &AggregateRequest, request: &ClientRequest<'_>) {
        let client_ctx = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..self.ctx.clone() };
        record_denied(gw, &client_ctx, request, &self.resources).await;
    }
}

fn server_subscriptions(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
) -> Vec<ServerSubscription> {
    let subscription = |ctx: &RequestContext| {
        let text = request.listen_request_for(ctx.upstream.name().as_str());
        let Ok(ClientMessage::Request(own)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
            return None;
        };
        let client_ctx = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..ctx.clone() };
        let resources = check_resources(gw, &client_ctx, &own);
        Some(ServerSubscription { ctx: ctx.clone(), request_text: resources.restrict_request(&own).into(), resources })
    };
    aggregate.contexts.iter().filter_map(subscription).collect()
}

/// Returns the URIs of the subscribed resources by server. If they change, the stream ends, so that the client
/// subscribes again and gets a new acknowledgement.
fn subscribed_uris(subscriptions: &[ServerSubscription]) -> Vec<(ServerName, Vec<String>)> {
    let named = subscriptions
        .iter()
        .map(|subscription| (subscription.ctx.upstream.name().clone(), resource_uris(&subscription.resources.allowed)));
    named.filter(|(_, uris)| !uris.is_empty()).collect()
}

async fn record_unknown_resource(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    uri: &str,
) {
    let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
    recorder.set_request(request);
    recorder.set_target(uri);
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
}

async fn reply_not_found(
    gw: &GatewayServices,
    mut recorder: CallRecorder,
    about: &str,
    responder: Responder,
    text: String,
) {
    recorder.set_target(about);
    responder.finish(text.into()).await;
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
}

/// Starts one listener per server. Each runs until the receiver is dropped.
fn spawn_listeners(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    subscriptions: Vec<ServerSubscription>,
) -> mpsc::Receiver<(ServerName, ServerStreamEvent)> {
    let (event_sender, events) = mpsc::channel(MAX_QUEUED_MESSAGES);
    for ServerSubscription { ctx, request_text: text, .. } in subscriptions {
        let (task, aggregate, event_sender) = (Arc::clone(gw), aggregate.clone(), event_sender.clone());
        gw.tasks.spawn(async move { listen_with_retry(&task, &aggregate, &ctx, &text, &event_sender).await });
    }
    events
}

/// Runs the stream until the client disconnects, loses access or has to subscribe again, or the gateway stops. Returns
/// the error response if a server does not know a task that the client named and the stream has not started yet.
async fn run_stream(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    subscriptions: Vec<ServerSubscription>,
    responder: &mut Responder,
) -> Option<Bytes> {
    let mut changes = aggregate.caches.late_lists.subscribe_changes();
    let mut aggregate = aggregate.clone();
    let named = subscribed_uris(&subscriptions);
    let mut events = spawn_listeners(gw, &aggregate, subscriptions);
    let wanted = requested_lists(request);
    // Servers whose stream was restarted by a configuration change, not by a failure.
    let mut restarted = HashSet::new();
    let (acknowledged, early) = match collect_acknowledgements(&aggregate, wanted, &mut events).await {
        Ok(acknowledged) => acknowledged,
        Err(refused) => return Some(refused),
    };
    let params = format!(r#"{{"notifications":{acknowledged},"_meta":{{"{SUBSCRIPTION_ID_KEY}":{}}}}}"#, request.id());
    let method = Method::SubscriptionsAcknowledged.name();
    responder.send(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)).await;
    for text in early {
        responder.send(str::from_utf8(&text).unwrap_or_default()).await;
    }
    let period = gw.settings.keep_alive_interval;
    let mut keep_alive = tokio::time::interval_at(Instant::now() + period, period);
    let mut revalidation = tokio::time::interval(REVALIDATION_INTERVAL);
    loop {
        tokio::select! {
            Some((server, event)) = events.recv() => match event {
                ServerStreamEvent::Message(text) => responder.send(str::from_utf8(&text).unwrap_or_default()).await,
                ServerStreamEvent::Acknowledged(_) if restarted.remove(&server) => {}
                // The server was down; the client has to read its lists again.
                ServerStreamEvent::Acknowledged(_) => notify_list_changes(wanted, request, responder).await,
                // The task would be silently missing from now on, so the stream ends and the client subscribes again.
                ServerStreamEvent::Ended(ServerStreamEnd::TaskRejected(_)) => break,
                ServerStreamEvent::Ended(ServerStreamEnd::Temporary | ServerStreamEnd::Permanent) => drop(restarted.remove(&server)),
            },
            Ok(changed) = changes.recv() => {
                if changed.grant == aggregate.grant.config.id && wanted.contains(&changed.method) {
                    responder.send(&list_changed_notification_for(&changed.method, request.id())).await;
                }
            }
            _ = keep_alive.tick() => responder.keep_alive().await,
            _ = revalidation.tick() => match gw.config.revalidate_aggregate(&aggregate) {
                StreamRevalidation::Unchanged => {}
                StreamRevalidation::Revoked => break,
                StreamRevalidation::Replaced(next) => {
                    notify_list_changes(wanted, request, responder).await;
                    let has_tasks = |aggregate: &AggregateRequest| !unknown_targets(aggregate, request).iter().any(|unknown| matches!(unknown, UnroutableSubscriptionTarget::Task(_)));
                    let subscriptions = server_subscriptions(gw, &next, request);
                    if subscribed_uris(&subscriptions) != named || !has_tasks(&next) {
                        break;
                    }
                    aggregate = *next;
                    restarted = aggregate.contexts.iter().map(|ctx| ctx.upstream.name().clone()).collect();
                    events = spawn_listeners(gw, &aggregate, subscriptions);
                }
            },
            () = responder.wait_for_disconnect() => break,
            () = gw.shutdown.wait() => break,
        }
    }
    None
}

/// Returns the lists that the client subscribes to. The gateway itself announces changes to them, because the set of
/// servers may change.
fn requested_lists(request: &ClientRequest<'_>) -> ListChangedSet {
    ListChangedSet::from_listen_request(request.params().and_then(|params| params.get("notifications")))
}

async fn notify_list_changes(lists: ListChangedSet, request: &ClientRequest<'_>, responder: &mut Responder) {
    for method in lists.methods() {
        responder.send(&list_changed_notification_for(&method, request.id())).await;
    }
}

/// Builds the acknowledgement from the requested lists and what the servers acknowledge before the deadline. Also
/// returns the messages that arrived in the meantime.
///
/// # Errors
/// A server rejects a task that the client named.
async fn collect_acknowledgements(
    aggregate: &AggregateRequest,
    wanted: ListChangedSet,
    events: &mut mpsc::Receiver<(ServerName, ServerStreamEvent)>,
) -> Result<(String, Vec<Bytes>), Bytes> {
    let until = Instant::now() + FAN_OUT_TIMEOUT;
    let (mut texts, mut early) = (Vec::new(), Vec::new());
    let mut ended = 0;
    while texts.len() + ended < aggregate.contexts.len() {
        match tokio::time::timeout_at(until, events.recv()).await {
            Ok(Some((_, ServerStreamEvent::Acknowledged(text)))) => texts.push(text),
            Ok(Some((_, ServerStreamEvent::Message(text)))) => early.push(text),
            Ok(Some((_, ServerStreamEvent::Ended(ServerStreamEnd::TaskRejected(error))))) => return Err(error),
            Ok(Some((_, ServerStreamEvent::Ended(ServerStreamEnd::Temporary | ServerStreamEnd::Permanent)))) => {
                ended += 1
            }
            Ok(None) | Err(_) => break,
        }
    }
    let own = format!("{{{}}}", wanted.to_json_members().join(","));
    let documents: Vec<JsonDocument<'_>> =
        texts.iter().filter_map(|text| read(text, &JsonLimits::REPLY).ok()).collect();
    let own = read(own.as_bytes(), &JsonLimits::REPLY).ok();
    let acknowledged = documents.iter().filter_map(|document| document.root().get("params")?.get("notifications"));
    let acknowledged = acknowledged.filter(|acknowledged| acknowledged.kind() == JsonKind::Object);
    let acknowledged: Vec<JsonValue<'_>> = own.as_ref().map(|own| own.root()).into_iter().chain(acknowledged).collect();
    Ok((merge_capabilities(&acknowledged), early))
}

/// Listens to one server and reconnects until the receiver is dropped.
async fn listen_with_retry(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    ctx: &RequestContext,
    text: &str,
    event_sender: &mpsc::Sender<(ServerName, ServerStreamEvent)>,
) {
    let server = ctx.upstream.name();
    let mut delay = MIN_RECONNECT_DELAY;
    loop {
        let started_at = Instant::now();
        let ended = listen_once(gw, aggregate, ctx, text, event_sender).await;
        let is_final = !matches!(ended, ServerStreamEnd::Temporary);
        // Reset the delay after a stream that lasted.
        if started_at.elapsed() > MAX_RECONNECT_DELAY {
            delay = MIN_RECONNECT_DELAY;
        }
        if event_sender.send((server.clone(), ServerStreamEvent::Ended(ended))).await.is_err() || is_final {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => delay = (delay * 2).min(MAX_RECONNECT_DELAY),
            () = event_sender.closed() => return,
            () = gw.shutdown.wait() => return,
        }
    }
}

/// Opens the server's stream once, and relays it until it ends.
async fn listen_once(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    ctx: &RequestContext,
    text: &str,
    event_sender: &mpsc::Sender<(ServerName, ServerStreamEvent)>,
) -> ServerStreamEnd {
    let Ok(ClientMessage::Request(request)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
        return ServerStreamEnd::Permanent;
    };
    let server = ctx.upstream.name();
    let session_ctx = tokio::select! {
        session_ctx = aggregate.open_server_session(gw, ctx, &request) => session_ctx,
        () = event_sender.closed() => return ServerStreamEnd::Permanent,
    };
    let Ok(session_ctx) = session_ctx else { return ServerStreamEnd::Temporary };
    let (texts, queue) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let mut responder = Responder::to_message_queue(texts, ClientSessionCell::default());
    responder.hold_in_flight_guard(InFlightGuard::unlimited());
    responder.prefix_names_of(server, request.method(), gw.settings.reply_limits);
    let relay_events = async {
        let (mut queue, mut ended) = (queue, ServerStreamEnd::Temporary);
        loop {
            let text = tokio::select! {
                text = queue.recv() => text,
                // Dropping the queue ends the responder, which cancels the request upstream.
                () = event_sender.closed() => None,
            };
            let Some(text) = text else { return ended };
            let events = match read_server_message(&text, &gw.settings.reply_limits) {
                Ok(ServerMessage::Response(reply)) => {
                    let error = reply.error().and_then(|error| error.code.parse().ok());
                    ended = match error {
                        None | Some(code::INTERNAL_ERROR) => ServerStreamEnd::Temporary,
                        Some(code::INVALID_PARAMS) if task_ownership::has_task_ids(&request) => {
                            ServerStreamEnd::TaskRejected(text.clone())
                        }
                        Some(_) => ServerStreamEnd::Permanent,
                    };
                    continue;
                }
                Ok(ServerMessage::Notification(notification))
                    if *notification.method() == Method::SubscriptionsAcknowledged =>
                {
                    ServerStreamEvent::Acknowledged(text)
                }
                _ => ServerStreamEvent::Message(text),
            };
            let _ = event_sender.send((server.clone(), events)).await;
        }
    };
    let ((), ended) = tokio::join!(dispatch(gw, &session_ctx, &request, responder), relay_events);
    ended
}
