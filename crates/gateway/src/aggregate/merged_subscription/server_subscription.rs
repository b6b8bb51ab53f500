//! The subscription to one server, and the stream that is opened for it again whenever it ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, ServerMessage, code, read_client_message, read_server_message,
};
use gatelodge_store::ServerName;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::aggregate::AggregateRequest;
use crate::methods::dispatch::dispatch;
use crate::methods::subscriptions_listen::{CheckedResources, check_resources, record_denied, resource_uris};
use crate::pipeline::task_ownership;
use crate::request_context::RequestContext;
use crate::responder::{ClientSessionCell, Responder};
use crate::runtime::InFlightGuard;
use crate::services::GatewayServices;

/// How many messages are queued for a slow client before the servers have to wait.
const MAX_QUEUED_MESSAGES: usize = 64;
/// Delay before listening again to a server whose stream has ended.
const MIN_RECONNECT_DELAY: Duration = Duration::from_secs(1);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(60);

/// An event from one server's stream.
pub(super) enum ServerStreamEvent {
    /// The server's acknowledgement of the subscription.
    Acknowledged(Bytes),
    Message(Bytes),
    /// The stream ended or could not be started.
    Ended(ServerStreamEnd),
}

/// Why a server's stream ended.
pub(super) enum ServerStreamEnd {
    /// A temporary failure, after which the stream is opened again.
    Temporary,
    /// The server does not support listening. The other servers are not affected.
    Permanent,
    /// The server does not know a task that the client named; contains the error response.
    TaskRejected(Bytes),
}

/// The subscription to one server's notifications, under the active policy.
pub(super) struct ServerSubscription {
    ctx: RequestContext,
    /// Listen request for the server, without denied resources.
    request_text: Arc<str>,
    resources: CheckedResources,
}

impl ServerSubscription {
    /// Records the requested resources that the policy denies.
    pub async fn record_denials(
        &self,
        gw: &GatewayServices,
        aggregate: &AggregateRequest,
        request: &ClientRequest<'_>,
    ) {
        let client_ctx = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..self.ctx.clone() };
        record_denied(gw, &client_ctx, request, &self.resources).await;
    }
}

pub(super) fn server_subscriptions(
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
pub(super) fn subscribed_uris(subscriptions: &[ServerSubscription]) -> Vec<(ServerName, Vec<String>)> {
    let named = subscriptions
        .iter()
        .map(|subscription| (subscription.ctx.upstream.name().clone(), resource_uris(&subscription.resources.allowed)));
    named.filter(|(_, uris)| !uris.is_empty()).collect()
}

/// Starts one listener per server. Each runs until the receiver is dropped.
pub(super) fn spawn_listeners(
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
