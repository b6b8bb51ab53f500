//! `subscriptions/listen` to all servers: one stream for the client, and one at each server for what is its own.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::{JsonDocument, JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::aggregate_names::{UnknownTarget, merge_capabilities, prefix_name};
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, ServerMessage as Said, code, read_client_message, read_server_message,
};
use gatelodge_mutants::mutant;
use gatelodge_store::{CallOutcome, ServerName};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{AggregateRequest, FAN_OUT_TIMEOUT};
use crate::Gateway;
use crate::http_server::mcp_endpoint::dispatch;
use crate::http_server::reply;
use crate::http_server::responder::{Responder, SessionSlot};
use crate::list_changed::{ListChangedSet, SUBSCRIPTION_ID_KEY, list_changed_notification_for};
use crate::methods::standalone_stream::REVALIDATION_INTERVAL;
use crate::methods::subscriptions_listen::{
    CheckedResources, check_resource_count, check_resources, record_denied, resource_uris,
};
use crate::methods::task_requests;
use crate::pipeline::{CallRecorder, InFlightGuard, Refusal};
use crate::request_context::RequestContext;
use crate::revalidation::Revalidation;

/// Messages that wait for a client that does not read; beyond that the servers wait.
const MAX_QUEUED_MESSAGES: usize = 64;
/// How long to wait before a server is listened to again that has ended.
const MIN_RECONNECT_DELAY: Duration = Duration::from_secs(1);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(60);

/// What comes from one server.
enum ServerStreamEvent {
    /// What it lets the client hear of.
    Acknowledged(Bytes),
    Message(Bytes),
    /// It has ended, or did not begin.
    Ended(ServerStreamEnd),
}

/// How one server was left.
enum ServerStreamEnd {
    /// A bad moment; it is listened to again.
    Temporary,
    /// It has nothing to be listened to. The others go on.
    Permanent,
    /// A task that the client named is not there for it, or not any more, as the error says.
    TaskRejected(Bytes),
}

/// Holds the stream open until the client ends it.
pub(super) async fn handle_aggregate_listen(
    gw: &Arc<Gateway>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    if let Err(refusal) = check_resource_count(request) {
        return task_requests::reply_refusal(gw, request, recorder, responder, &refusal).await;
    }
    let past = unknown_targets(aggregate, request);
    let checked = if mutant!("task-after-many-resources-allowed") { 64 } else { past.len() };
    if let Some(task) =
        past.iter().take(checked).find_map(|past| if let UnknownTarget::Task(task) = past { Some(task) } else { None })
    {
        return reply_not_found(gw, recorder, task, responder, reply::unknown_task_reply(request.id(), task)).await;
    }
    for visit in &aggregate.contexts {
        let text = request.listen_request_for(visit.upstream.name().as_str());
        let Ok(ClientMessage::Request(own)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
            continue;
        };
        let as_asked = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..visit.clone() };
        // Whether it may be heard of, its server's part says; it may be slow.
        match task_requests::find_unknown_task(gw, &as_asked, &own).await {
            Ok(None) => {}
            Ok(Some(task)) => {
                let task = prefix_name(visit.upstream.name().as_str(), &task);
                return reply_not_found(gw, recorder, &task, responder, reply::unknown_task_reply(request.id(), &task))
                    .await;
            }
            Err(error) => {
                return task_requests::reply_refusal(gw, request, recorder, responder, &Refusal::Store(error)).await;
            }
        }
    }
    for past in &past {
        // It is left out of what is acknowledged, like one that the policy denies.
        if let UnknownTarget::Resource(uri) = past {
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
    let shares = server_subscriptions(gw, aggregate, request);
    for share in &shares {
        // Once for the client, however often its servers are listened to.
        share.record_denials(gw, aggregate, request).await;
    }
    match run_stream(gw, aggregate, request, shares, &mut responder).await {
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

/// What the client names that is of no server of the grant.
fn unknown_targets(aggregate: &AggregateRequest, request: &ClientRequest<'_>) -> Vec<UnknownTarget> {
    request.unknown_targets(|server| aggregate.find_context(server).is_some())
}

/// What is listened for at one server, by what is in force.
struct ServerSubscription {
    ctx: RequestContext,
    /// The request for it, without what may not be heard of.
    request_text: Arc<str>,
    resources: CheckedResources,
}

impl ServerSubscription {
    /// Writes of what the client is not told though it asked.
    async fn record_denials(&self, gw: &Gateway, aggregate: &AggregateRequest, request: &ClientRequest<'_>) {
        let as_asked = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..self.ctx.clone() };
        record_denied(gw, &as_asked, request, &self.resources).await;
    }
}

/// What is listened for at each server.
fn server_subscriptions(
    gw: &Gateway,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
) -> Vec<ServerSubscription> {
    let share = |visit: &RequestContext| {
        let text = request.listen_request_for(visit.upstream.name().as_str());
        let Ok(ClientMessage::Request(own)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
            return None;
        };
        let as_asked = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..visit.clone() };
        let resources = check_resources(gw, &as_asked, &own);
        Some(ServerSubscription {
            ctx: visit.clone(),
            request_text: resources.restrict_request(&own).into(),
            resources,
        })
    };
    aggregate.contexts.iter().filter_map(share).collect()
}

/// The resources of which the client hears. Where they are others than before, or a task is nobody's any more, it listens
/// anew, and is told.
fn subscribed_uris(shares: &[ServerSubscription]) -> Vec<(ServerName, Vec<String>)> {
    let named = shares.iter().map(|share| (share.ctx.upstream.name().clone(), resource_uris(&share.resources.allowed)));
    named.filter(|(_, uris)| !uris.is_empty()).collect()
}

/// Writes that a client asked to hear of what no server of the grant has.
async fn record_unknown_resource(gw: &Gateway, aggregate: &AggregateRequest, request: &ClientRequest<'_>, uri: &str) {
    let mut recorder = CallRecorder::for_aggregate(aggregate, gw.new_call_id(), gw.clock.now());
    recorder.set_request(request);
    recorder.set_target(uri);
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
}

/// Answers that something is not there.
async fn reply_not_found(gw: &Gateway, mut recorder: CallRecorder, about: &str, responder: Responder, text: String) {
    recorder.set_target(about);
    responder.finish(text.into()).await;
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
}

/// Listens to each server, for as long as somebody hears what is given.
fn spawn_listeners(
    gw: &Arc<Gateway>,
    aggregate: &AggregateRequest,
    shares: Vec<ServerSubscription>,
) -> mpsc::Receiver<(ServerName, ServerStreamEvent)> {
    let (said, events) = mpsc::channel(MAX_QUEUED_MESSAGES);
    for ServerSubscription { ctx: visit, request_text: text, .. } in shares {
        let (task, aggregate, said) = (Arc::clone(gw), aggregate.clone(), said.clone());
        gw.spawn(async move { listen_with_retry(&task, &aggregate, &visit, &text, &said).await });
    }
    events
}

/// Listens until the stream has to end. Gives the error where it does not begin, because a server refuses a task.
async fn run_stream(
    gw: &Arc<Gateway>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    begun: Vec<ServerSubscription>,
    responder: &mut Responder,
) -> Option<Bytes> {
    let mut changes = gw.late_lists.subscribe_changes();
    let mut aggregate = aggregate.clone();
    let named = subscribed_uris(&begun);
    let mut events = spawn_listeners(gw, &aggregate, begun);
    let wanted = requested_lists(request);
    // Those that are listened to anew, though they were not away.
    let mut anew = HashSet::new();
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
    let period = gw.settings.keep_alive;
    let mut keep_alive = tokio::time::interval_at(Instant::now() + period, period);
    let mut look = tokio::time::interval(REVALIDATION_INTERVAL);
    loop {
        tokio::select! {
            Some((server, said)) = events.recv() => match said {
                ServerStreamEvent::Message(text) => responder.send(str::from_utf8(&text).unwrap_or_default()).await,
                ServerStreamEvent::Acknowledged(_) if anew.remove(&server) => {}
                // It was away; what it would have said meanwhile, the next lists tell.
                ServerStreamEvent::Acknowledged(_) => notify_list_changes(wanted, request, responder).await,
                // It would not be heard at all from now on. So the client listens anew, and is told.
                ServerStreamEvent::Ended(ServerStreamEnd::TaskRejected(_)) => break,
                ServerStreamEvent::Ended(ServerStreamEnd::Temporary | ServerStreamEnd::Permanent) => drop(anew.remove(&server)),
            },
            Ok(changed) = changes.recv() => {
                if changed.grant == aggregate.grant.config.id && wanted.contains(&changed.method) {
                    responder.send(&list_changed_notification_for(&changed.method, request.id())).await;
                }
            }
            _ = keep_alive.tick() => responder.keep_alive().await,
            _ = look.tick() => match gw.revalidate_aggregate(&aggregate) {
                Revalidation::Unchanged => {}
                Revalidation::Revoked => break,
                Revalidation::Replaced(next) => {
                    notify_list_changes(wanted, request, responder).await;
                    let has_tasks = |aggregate: &AggregateRequest| !unknown_targets(aggregate, request).iter().any(|past| matches!(past, UnknownTarget::Task(_)));
                    let shares = server_subscriptions(gw, &next, request);
                    if subscribed_uris(&shares) != named || !has_tasks(&next) {
                        break;
                    }
                    aggregate = *next;
                    anew = aggregate.contexts.iter().map(|ctx| ctx.upstream.name().clone()).collect();
                    events = spawn_listeners(gw, &aggregate, shares);
                }
            },
            () = responder.wait_for_disconnect() => break,
            () = gw.wait_for_shutdown() => break,
        }
    }
    None
}

/// The lists that the client wants to hear of. Whatever its servers tell, we do: which they are may change.
fn requested_lists(request: &ClientRequest<'_>) -> ListChangedSet {
    ListChangedSet::from_listen_request(request.params().and_then(|params| params.get("notifications")))
}

/// Tells the client that its lists are others now.
async fn notify_list_changes(lists: ListChangedSet, request: &ClientRequest<'_>, responder: &mut Responder) {
    for method in lists.methods() {
        responder.send(&list_changed_notification_for(&method, request.id())).await;
    }
}

/// What the client will hear of: the lists that it wants, and the rest as far as servers say so in time; and what they
/// said meanwhile.
///
/// # Errors
/// A server refuses a task that the client named.
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
    let said = documents.iter().filter_map(|document| document.root().get("params")?.get("notifications"));
    let said = said.filter(|said| said.kind() == JsonKind::Object);
    let said: Vec<JsonValue<'_>> = own.as_ref().map(|own| own.root()).into_iter().chain(said).collect();
    Ok((merge_capabilities(&said), early))
}

/// Listens to one server for as long as somebody hears it, again and again.
async fn listen_with_retry(
    gw: &Gateway,
    aggregate: &AggregateRequest,
    ctx: &RequestContext,
    text: &str,
    said: &mpsc::Sender<(ServerName, ServerStreamEvent)>,
) {
    let server = ctx.upstream.name();
    let mut pause = MIN_RECONNECT_DELAY;
    loop {
        let began = Instant::now();
        let ended = listen_once(gw, aggregate, ctx, text, said).await;
        let is_final = !matches!(ended, ServerStreamEnd::Temporary);
        // One that was good for a while is not to be left alone for long.
        if began.elapsed() > MAX_RECONNECT_DELAY {
            pause = MIN_RECONNECT_DELAY;
        }
        if said.send((server.clone(), ServerStreamEvent::Ended(ended))).await.is_err() || is_final {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_RECONNECT_DELAY),
            () = said.closed() => return,
            () = gw.wait_for_shutdown() => return,
        }
    }
}

/// The same once.
async fn listen_once(
    gw: &Gateway,
    aggregate: &AggregateRequest,
    ctx: &RequestContext,
    text: &str,
    said: &mpsc::Sender<(ServerName, ServerStreamEvent)>,
) -> ServerStreamEnd {
    let Ok(ClientMessage::Request(request)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
        return ServerStreamEnd::Permanent;
    };
    let server = ctx.upstream.name();
    let session_ctx = tokio::select! {
        seated = aggregate.with_upstream_session(gw, ctx, &request) => seated,
        () = said.closed() => return ServerStreamEnd::Permanent,
    };
    let Ok(session_ctx) = session_ctx else { return ServerStreamEnd::Temporary };
    let (texts, queue) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let mut responder = Responder::to_message_queue(texts, SessionSlot::default());
    responder.hold_in_flight_guard(InFlightGuard::unlimited());
    responder.prefix_names_of(server, request.method(), gw.settings.reply_limits);
    let hearing = async {
        let (mut queue, mut ended) = (queue, ServerStreamEnd::Temporary);
        loop {
            let text = tokio::select! {
                text = queue.recv() => text,
                // The queue goes, so that the line is cut and the server is left in order.
                () = said.closed() => None,
            };
            let Some(text) = text else { return ended };
            let events = match read_server_message(&text, &gw.settings.reply_limits) {
                Ok(Said::Response(reply)) => {
                    let error = reply.error().and_then(|error| error.code.parse().ok());
                    ended = match error {
                        None | Some(code::INTERNAL_ERROR) => ServerStreamEnd::Temporary,
                        Some(code::INVALID_PARAMS) if task_requests::has_task_ids(&request) => {
                            ServerStreamEnd::TaskRejected(text.clone())
                        }
                        Some(_) => ServerStreamEnd::Permanent,
                    };
                    continue;
                }
                Ok(Said::Notification(said)) if *said.method() == Method::SubscriptionsAcknowledged => {
                    ServerStreamEvent::Acknowledged(text)
                }
                _ => ServerStreamEvent::Message(text),
            };
            let _ = said.send((server.clone(), events)).await;
        }
    };
    let ((), ended) = tokio::join!(dispatch(gw, &session_ctx, &request, responder), hearing);
    ended
}
