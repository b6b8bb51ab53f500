//! `subscriptions/listen` where all listeners share the standalone stream of one upstream session, and each resource has
//! one upstream subscription.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::{JsonLimits, read};
use gatelodge_mcp::{ClientRequest, Method, RequestId, ServerMessage, read_server_message};
use gatelodge_mutants::mutant;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::notification_filter::NotificationFilter;
use super::subscription_listener::SubscriptionListener;
use super::{SubscriptionStreamEnd, resource_uris, wait_for_client_end};
use crate::methods::standalone_stream::{REVALIDATION_INTERVAL, follow_upstream_stream};
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::Session;
use crate::session::list_changed::{ListChangedSet, SUBSCRIPTION_ID_KEY};
use crate::upstream::UpstreamSendError;
use crate::upstream_session::resource_subscription::{AllowedResource, send_subscription};

/// Time limit for all subscribe requests of a listener.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Creates a filter for notifications that the client requested, if the server supports them and the grant allows
/// them.
fn build_filter(request: &ClientRequest<'_>, session: &Session, resources: &[AllowedResource]) -> NotificationFilter {
    let server_info = read(&session.negotiated.server_info, &JsonLimits::REPLY).ok();
    let capability =
        server_info.as_ref().and_then(|server_info| server_info.root().get("capabilities")?.get("resources"));
    let subscribe = capability.and_then(|own| own.get("subscribe"));
    let can_subscribe = subscribe.is_some_and(|subscribe| subscribe.as_bool() == Some(true));
    let requested = NotificationFilter::from_request(request, if can_subscribe { resources } else { &[] });
    let lists = requested.lists.intersection(ListChangedSet::advertised(&session.negotiated.server_info));
    // The hub broadcasts nothing else.
    NotificationFilter::of(lists, requested.uris, false)
}

/// Returns a notification in the form that the listener expects; `None` if it is not for this listener.
fn to_listener_message(filter: &NotificationFilter, message: &Bytes, id: &RequestId<'_>) -> Option<String> {
    let Ok(ServerMessage::Notification(notification)) = read_server_message(message, &JsonLimits::REPLY) else {
        return None;
    };
    if !filter.matches(&notification) {
        return None;
    }
    let document = notification.params().and_then(|params| read(params.as_bytes(), &JsonLimits::REPLY).ok());
    let members =
        document.iter().flat_map(|document| document.root().members()).filter(|(key, _)| !key.is_str("_meta"));
    let mut members: Vec<String> = members.map(|(key, value)| format!("{}:{}", key.raw(), value.raw())).collect();
    let meta = document.as_ref().and_then(|document| document.root().get("_meta"));
    let meta = meta.iter().flat_map(|meta| meta.members()).filter(|(key, _)| !key.is_str(SUBSCRIPTION_ID_KEY));
    let mut meta: Vec<String> = meta.map(|(key, value)| format!("{}:{}", key.raw(), value.raw())).collect();
    meta.push(format!("\"{SUBSCRIPTION_ID_KEY}\":{id}"));
    members.push(format!("\"_meta\":{{{}}}", meta.join(",")));
    Some(notification.with_params(&format!("{{{}}}", members.join(","))))
}

/// Serves the stream until either side ends it.
pub(super) async fn listen_on_shared_stream(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    named: Vec<AllowedResource>,
    responder: &mut Responder,
) -> Result<SubscriptionStreamEnd, UpstreamSendError> {
    let Some(session) = ctx.upstream_session() else { return Ok(SubscriptionStreamEnd::Closed) };
    let filter = build_filter(request, session, &named);
    let mut messages = session.notification_hub.subscribe();
    // Keeps the session's process from being stopped as idle.
    let _held = session.mark_in_use();
    gw.ensure_hub_follower(ctx, session);
    // Acknowledged only after the upstream's stream is open; otherwise a notification could be missed.
    tokio::select! {
        opened = tokio::time::timeout(gw.settings.connect_timeout, session.notification_hub.wait_for_stream()) => {
            opened.map_err(|_| UpstreamSendError::InvalidResponse("the server's event stream does not open".to_owned()))?;
        }
        () = wait_for_client_end(responder) => return Ok(SubscriptionStreamEnd::ClientLeft),
        () = gw.shutdown.wait() => return Ok(SubscriptionStreamEnd::Closed),
    }
    let mut handshake_attempts = session.upstream_link.handshake_attempts();
    let is_accepted_resource = |resource: &AllowedResource| filter.uris.iter().any(|uri| uri == resource.uri());
    let uris = resource_uris(&named);
    let resources: Arc<[AllowedResource]> = named.into_iter().filter(is_accepted_resource).collect();
    let _watching = ResourceWatchGuard::begin(gw, ctx, session, &resources);
    let accepted = tokio::select! {
        accepted = sync_subscriptions(gw, ctx, session, &resources) => accepted,
        () = wait_for_client_end(responder) => return Ok(SubscriptionStreamEnd::ClientLeft),
        () = gw.shutdown.wait() => return Ok(SubscriptionStreamEnd::Closed),
    };
    // Resources that the server did not accept are not acknowledged.
    let filter = NotificationFilter::of(filter.lists, accepted, false);
    responder.send(&filter.acknowledgement(request.id())).await;
    let period = gw.settings.keep_alive_interval;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    let mut revalidation = tokio::time::interval(REVALIDATION_INTERVAL);
    let mut listener = SubscriptionListener::new(ctx, uris, Some(filter.lists));
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Ok(message) => {
                    if let Some(text) = to_listener_message(&filter, &message, request.id()) {
                        responder.send(&text).await;
                    }
                }
                // The client reads too slowly; the missed changes show in the next list.
                Err(RecvError::Lagged(_)) => gw.metrics.count_dropped_message(),
                Err(RecvError::Closed) => return Ok(SubscriptionStreamEnd::Closed),
            },
            _ = keep_alive.tick() => responder.keep_alive().await,
            _ = revalidation.tick() => {
                if !listener.revalidate(gw, request, responder).await {
                    return Ok(SubscriptionStreamEnd::Closed);
                }
                gw.ensure_hub_follower(&listener.ctx, session);
                // A server that lost the session has also lost its subscriptions.
                if std::mem::replace(&mut handshake_attempts, session.upstream_link.handshake_attempts()) != handshake_attempts
                    && !mutant!("listener-subscriptions-not-restored")
                {
                    gw.sync_subscriptions_in_background(&listener.ctx, session, &resources);
                }
            }
            () = wait_for_client_end(responder) => return Ok(SubscriptionStreamEnd::ClientLeft),
            () = gw.shutdown.wait() => return Ok(SubscriptionStreamEnd::Closed),
        }
    }
}

/// Keeps a listener registered for resources until dropped.
struct ResourceWatchGuard<'a> {
    gw: &'a GatewayServices,
    ctx: &'a RequestContext,
    session: &'a Arc<Session>,
    resources: &'a Arc<[AllowedResource]>,
}

impl<'a> ResourceWatchGuard<'a> {
    fn begin(
        gw: &'a GatewayServices,
        ctx: &'a RequestContext,
        session: &'a Arc<Session>,
        resources: &'a Arc<[AllowedResource]>,
    ) -> Self {
        resources.iter().for_each(|resource| session.notification_hub.watch(resource.uri()));
        Self { gw, ctx, session, resources }
    }
}

impl Drop for ResourceWatchGuard<'_> {
    fn drop(&mut self) {
        self.resources.iter().for_each(|resource| self.session.notification_hub.unwatch(resource.uri()));
        self.gw.sync_subscriptions_in_background(self.ctx, self.session, self.resources);
    }
}

/// Subscribes upstream to exactly those resources that have listeners, and returns the accepted ones. One time limit
/// covers all requests, in case the server hangs.
async fn sync_subscriptions(
    gw: &GatewayServices,
    ctx: &RequestContext,
    session: &Session,
    resources: &[AllowedResource],
) -> Vec<String> {
    let mut accepted = Vec::new();
    let syncing = async {
        for resource in resources {
            let subscription = session.notification_hub.upstream_subscription(resource.uri());
            let mut subscription = subscription.lock().await;
            let is_wanted = session.notification_hub.is_watched(resource.uri());
            match subscription.plan_request(is_wanted, session.upstream_link.handshake_attempts()) {
                Some(true) => {
                    subscription.record_reply(send_subscription(gw, ctx, &Method::ResourcesSubscribe, resource).await)
                }
                Some(false) => drop(send_subscription(gw, ctx, &Method::ResourcesUnsubscribe, resource).await),
                None => {}
            }
            if is_wanted && subscription.is_accepted {
                accepted.push(resource.uri().to_owned());
            }
        }
    };
    let _ = tokio::time::timeout(SUBSCRIBE_TIMEOUT, syncing).await;
    accepted
}

impl GatewayServices {
    /// Like [`sync_subscriptions`], in the background: a server that hangs must not delay clients.
    fn sync_subscriptions_in_background(
        &self,
        ctx: &RequestContext,
        session: &Arc<Session>,
        resources: &Arc<[AllowedResource]>,
    ) {
        let Some(gw) = self.arc_self().filter(|_| !resources.is_empty()) else { return };
        let (task, ctx, session, resources) =
            (Arc::clone(&gw), ctx.clone(), Arc::clone(session), Arc::clone(resources));
        gw.tasks.spawn(async move {
            tokio::select! {
                _ = sync_subscriptions(&task, &ctx, &session, &resources) => {}
                () = task.shutdown.wait() => {}
            }
        });
    }

    /// Starts following a session's upstream stream, unless a task is already following it.
    fn ensure_hub_follower(&self, ctx: &RequestContext, session: &Arc<Session>) {
        if let Some(resumes) = session.notification_hub.try_start_following() {
            self.spawn_hub_follower(ctx.on_behalf_of_session(Arc::clone(session)), resumes);
        }
    }

    /// Follows a session's upstream stream as long as the session has listeners. If `resumes` is true, the task takes
    /// over from another one and resumes after the last event. Otherwise there were no listeners before, so earlier
    /// events are not needed.
    fn spawn_hub_follower(&self, ctx: RequestContext, resumes: bool) {
        let Some(gw) = self.arc_self() else { return };
        let task = Arc::clone(&gw);
        gw.tasks.spawn(async move {
            let Some(session) = ctx.upstream_session().cloned() else { return };
            let (events, mut receiver) = mpsc::channel::<Bytes>(1);
            let last = session.streams.last_event_id().filter(|_| resumes);
            let following =
                follow_upstream_stream(&task, &ctx, last, &events, |text| Bytes::copy_from_slice(text.as_bytes()));
            let notifying = async {
                while let Some(message) = receiver.recv().await {
                    session.notification_hub.broadcast(message);
                }
            };
            let ending = async {
                while !session.notification_hub.stop_following_if_unused() {
                    if !task.config.is_context_current(&ctx) {
                        return true;
                    }
                    tokio::time::sleep(REVALIDATION_INTERVAL).await;
                }
                false
            };
            let is_left = tokio::select! {
                () = following => true,
                () = notifying => true,
                is_left = ending => is_left,
                () = task.shutdown.wait() => true,
            };
            while let Ok(message) = receiver.try_recv() {
                session.notification_hub.broadcast(message);
            }
            if is_left {
                // A listener under the new configuration starts the next follower.
                session.notification_hub.stop_following();
            }
        });
    }
}
