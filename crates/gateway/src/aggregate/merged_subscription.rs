//! `subscriptions/listen` on the aggregate endpoint: one stream for the client, fed by one listen request per server.

mod server_subscription;

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{JsonDocument, JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::aggregate_names::{UnroutableSubscriptionTarget, merge_capabilities, prefix_name};
use gatelodge_mcp::{ClientMessage, ClientRequest, Method, read_client_message};
use gatelodge_mutants::mutant;
use gatelodge_store::{CallOutcome, ServerName, StoreError};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::server_subscription::{
    ServerStreamEnd, ServerStreamEvent, ServerSubscription, server_subscriptions, spawn_listeners, subscribed_uris,
};
use super::{AggregateRequest, FAN_OUT_TIMEOUT};
use crate::call_recorder::CallRecorder;
use crate::methods::standalone_stream::REVALIDATION_INTERVAL;
use crate::methods::subscriptions_listen::check_resource_count;
use crate::methods::task_requests;
use crate::pipeline::task_ownership;
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{RequestContext, StreamRevalidation};
use crate::responder::Responder;
use crate::runtime::InFlightGuard;
use crate::services::GatewayServices;
use crate::session::list_changed::{ListChangedSet, SUBSCRIPTION_ID_KEY, list_changed_notification_for};

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
    match find_unknown_task(gw, aggregate, request, &unknown).await {
        Ok(None) => {}
        Ok(Some(task)) => return reply_unknown_task(gw, request, &task, recorder, responder).await,
        Err(error) => {
            return task_requests::reply_refusal(gw, request, recorder, responder, &Refusal::Store(error)).await;
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

/// Returns a task in the request that does not exist for the grant.
///
/// # Errors
/// The store fails.
async fn find_unknown_task(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    unknown: &[UnroutableSubscriptionTarget],
) -> Result<Option<String>, StoreError> {
    let checked = if mutant!("task-after-many-resources-allowed") { 64 } else { unknown.len() };
    let unroutable = unknown.iter().take(checked).find_map(|unknown| match unknown {
        UnroutableSubscriptionTarget::Task(task) => Some(task.clone()),
        UnroutableSubscriptionTarget::Resource(_) => None,
    });
    if unroutable.is_some() {
        return Ok(unroutable);
    }
    for ctx in &aggregate.contexts {
        let server = ctx.upstream.name().as_str();
        let text = request.listen_request_for(server);
        let Ok(ClientMessage::Request(own)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
            continue;
        };
        let client_ctx = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..ctx.clone() };
        // Only ownership is checked here. The server itself may be slow, so its own check is part of its stream.
        if let Some(task) = task_ownership::find_unknown_task(gw, &client_ctx, &own).await? {
            return Ok(Some(prefix_name(server, &task)));
        }
    }
    Ok(None)
}

/// Returns the resources and tasks in the request that belong to none of the grant's servers.
fn unknown_targets(aggregate: &AggregateRequest, request: &ClientRequest<'_>) -> Vec<UnroutableSubscriptionTarget> {
    request.unknown_targets(|server| aggregate.find_context(server).is_some())
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

async fn reply_unknown_task(
    gw: &GatewayServices,
    request: &ClientRequest<'_>,
    task: &str,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    recorder.set_target(task);
    responder.finish(reply::unknown_task_reply(request.id(), task).into()).await;
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
}

/// The servers' streams that feed the stream of one client.
struct ServerStreams {
    aggregate: AggregateRequest,
    /// The subscribed resources.
    uris: Vec<(ServerName, Vec<String>)>,
    events: mpsc::Receiver<(ServerName, ServerStreamEvent)>,
    /// Servers whose stream was restarted by a configuration change, not by a failure.
    restarted: HashSet<ServerName>,
}

impl ServerStreams {
    fn open(gw: &Arc<GatewayServices>, aggregate: &AggregateRequest, subscriptions: Vec<ServerSubscription>) -> Self {
        Self {
            uris: subscribed_uris(&subscriptions),
            events: spawn_listeners(gw, aggregate, subscriptions),
            aggregate: aggregate.clone(),
            restarted: HashSet::new(),
        }
    }

    /// Opens the streams again under a changed configuration. Returns false if the client has to subscribe again.
    fn reopen(&mut self, gw: &Arc<GatewayServices>, request: &ClientRequest<'_>, next: AggregateRequest) -> bool {
        let is_task = |unknown: &UnroutableSubscriptionTarget| matches!(unknown, UnroutableSubscriptionTarget::Task(_));
        let subscriptions = server_subscriptions(gw, &next, request);
        if subscribed_uris(&subscriptions) != self.uris || unknown_targets(&next, request).iter().any(is_task) {
            return false;
        }
        self.restarted = next.contexts.iter().map(|ctx| ctx.upstream.name().clone()).collect();
        self.events = spawn_listeners(gw, &next, subscriptions);
        self.aggregate = next;
        true
    }
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
    let mut streams = ServerStreams::open(gw, aggregate, subscriptions);
    let wanted = requested_lists(request);
    let (acknowledged, early) = match collect_acknowledgements(aggregate, wanted, &mut streams.events).await {
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
            Some((server, event)) = streams.events.recv() => match event {
                ServerStreamEvent::Message(text) => responder.send(str::from_utf8(&text).unwrap_or_default()).await,
                ServerStreamEvent::Acknowledged(_) if streams.restarted.remove(&server) => {}
                // The server was down; the client has to read its lists again.
                ServerStreamEvent::Acknowledged(_) => notify_list_changes(wanted, request, responder).await,
                // The task would be silently missing from now on, so the stream ends and the client subscribes again.
                ServerStreamEvent::Ended(ServerStreamEnd::TaskRejected(_)) => break,
                ServerStreamEvent::Ended(ServerStreamEnd::Temporary | ServerStreamEnd::Permanent) => drop(streams.restarted.remove(&server)),
            },
            Ok(changed) = changes.recv() => {
                if changed.grant == streams.aggregate.grant.config.id && wanted.contains(&changed.method) {
                    responder.send(&list_changed_notification_for(&changed.method, request.id())).await;
                }
            }
            _ = keep_alive.tick() => responder.keep_alive().await,
            _ = revalidation.tick() => match gw.config.revalidate_aggregate(&streams.aggregate) {
                StreamRevalidation::Unchanged => {}
                StreamRevalidation::Revoked => break,
                StreamRevalidation::Replaced(next) => {
                    notify_list_changes(wanted, request, responder).await;
                    if !streams.reopen(gw, request, *next) {
                        break;
                    }
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
