//! `subscriptions/listen` for an upstream that has a session with us: its own stream, shared by all who listen, and a
//! subscription for each resource.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::{JsonLimits, read};
use gatelodge_mcp::{ClientRequest, Method, RequestId, ServerMessage as Said, read_server_message};
use gatelodge_mutants::mutant;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::notification_filter::NotificationFilter;
use super::{ListenEnd, SubscriptionListener, resource_uris, wait_for_client_end};
use crate::Gateway;
use crate::http_server::responder::Responder;
use crate::list_changed::{ListChangedSet, SUBSCRIPTION_ID_KEY};
use crate::methods::resources_subscribe::send_subscription;
use crate::methods::standalone_stream::{REVALIDATION_INTERVAL, follow_upstream_stream};
use crate::methods::unsolicited_messages::AllowedResource;
use crate::request_context::RequestContext;
use crate::session::Session;
use crate::upstream::SendError;

/// How long a server may take to be told of which resources somebody listens for.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Of what is asked for, what the server has and the grant may hear of.
fn build_filter(request: &ClientRequest<'_>, session: &Session, heard: &[AllowedResource]) -> NotificationFilter {
    let server_info = read(&session.server_info, &JsonLimits::REPLY).ok();
    let resources =
        server_info.as_ref().and_then(|server_info| server_info.root().get("capabilities")?.get("resources"));
    let subscribe = resources.and_then(|own| own.get("subscribe"));
    let tells_of_one = subscribe.is_some_and(|subscribe| subscribe.as_bool() == Some(true));
    let asked = NotificationFilter::from_request(request, if tells_of_one { heard } else { &[] });
    let lists = asked.lists.intersection(ListChangedSet::advertised(&session.server_info));
    // Nothing else is told to all who listen.
    NotificationFilter::of(lists, asked.uris, false)
}

/// A notification as a listener gets it; none if it is not for them.
fn to_listener_message(filter: &NotificationFilter, message: &Bytes, id: &RequestId<'_>) -> Option<String> {
    let Ok(Said::Notification(said)) = read_server_message(message, &JsonLimits::REPLY) else { return None };
    if !filter.matches(&said) {
        return None;
    }
    let document = said.params().and_then(|params| read(params.as_bytes(), &JsonLimits::REPLY).ok());
    let members =
        document.iter().flat_map(|document| document.root().members()).filter(|(key, _)| !key.is_str("_meta"));
    let mut members: Vec<String> = members.map(|(key, value)| format!("{}:{}", key.raw(), value.raw())).collect();
    let meta = document.as_ref().and_then(|document| document.root().get("_meta"));
    let meta = meta.iter().flat_map(|meta| meta.members()).filter(|(key, _)| !key.is_str(SUBSCRIPTION_ID_KEY));
    let mut meta: Vec<String> = meta.map(|(key, value)| format!("{}:{}", key.raw(), value.raw())).collect();
    meta.push(format!("\"{SUBSCRIPTION_ID_KEY}\":{id}"));
    members.push(format!("\"_meta\":{{{}}}", meta.join(",")));
    Some(said.with_params(&format!("{{{}}}", members.join(","))))
}

/// Holds the stream open until either side ends it.
pub(super) async fn listen_stateful(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    named: Vec<AllowedResource>,
    responder: &mut Responder,
) -> Result<ListenEnd, SendError> {
    let Some(session) = ctx.upstream_session() else { return Ok(ListenEnd::Closed) };
    let filter = build_filter(request, session, &named);
    let mut messages = session.notification_hub.subscribe();
    // Its process is not taken for one that nobody uses.
    let _held = session.mark_in_use();
    gw.ensure_hub_follower(ctx, session);
    // What is acknowledged before it can be heard could be missed.
    tokio::select! {
        stands = tokio::time::timeout(gw.settings.connect_time, session.notification_hub.wait_for_stream()) => {
            stands.map_err(|_| SendError::InvalidResponse("the server's stream does not open".to_owned()))?;
        }
        () = wait_for_client_end(responder) => return Ok(ListenEnd::ClientLeft),
        () = gw.wait_for_shutdown() => return Ok(ListenEnd::Closed),
    }
    let mut handshake_attempts = session.handshake_attempts();
    let is_told = |heard: &AllowedResource| filter.uris.iter().any(|uri| uri == heard.uri());
    let uris = resource_uris(&named);
    let heard: Arc<[AllowedResource]> = named.into_iter().filter(is_told).collect();
    let _watching = ResourceWatchGuard::begin(gw, ctx, session, &heard);
    let taken = tokio::select! {
        taken = sync_subscriptions(gw, ctx, session, &heard) => taken,
        () = wait_for_client_end(responder) => return Ok(ListenEnd::ClientLeft),
        () = gw.wait_for_shutdown() => return Ok(ListenEnd::Closed),
    };
    // What the server will not tell of is not promised.
    let filter = NotificationFilter::of(filter.lists, taken, false);
    responder.send(&filter.acknowledgement(request.id())).await;
    let period = gw.settings.keep_alive;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    let mut look = tokio::time::interval(REVALIDATION_INTERVAL);
    let mut listener = SubscriptionListener::new(ctx, uris, Some(filter.lists));
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                Ok(message) => {
                    if let Some(text) = to_listener_message(&filter, &message, request.id()) {
                        responder.send(&text).await;
                    }
                }
                // It reads too slowly; what it missed, the next list tells.
                Err(RecvError::Lagged(_)) => gw.metrics.count_dropped_message(),
                Err(RecvError::Closed) => return Ok(ListenEnd::Closed),
            },
            _ = keep_alive.tick() => responder.keep_alive().await,
            _ = look.tick() => {
                if !listener.revalidate(gw, request, responder).await {
                    return Ok(ListenEnd::Closed);
                }
                gw.ensure_hub_follower(&listener.ctx, session);
                // A server that had forgotten the session has forgotten what was to be heard of, too.
                if std::mem::replace(&mut handshake_attempts, session.handshake_attempts()) != handshake_attempts
                    && !mutant!("listener-subscriptions-not-restored")
                {
                    gw.sync_subscriptions_in_background(&listener.ctx, session, &heard);
                }
            }
            () = wait_for_client_end(responder) => return Ok(ListenEnd::ClientLeft),
            () = gw.wait_for_shutdown() => return Ok(ListenEnd::Closed),
        }
    }
}

/// One who listens for some resources, until this is dropped.
struct ResourceWatchGuard<'a> {
    gw: &'a Gateway,
    ctx: &'a RequestContext,
    session: &'a Arc<Session>,
    resources: &'a Arc<[AllowedResource]>,
}

impl<'a> ResourceWatchGuard<'a> {
    fn begin(
        gw: &'a Gateway,
        ctx: &'a RequestContext,
        session: &'a Arc<Session>,
        resources: &'a Arc<[AllowedResource]>,
    ) -> Self {
        resources.iter().for_each(|heard| session.notification_hub.watch(heard.uri()));
        Self { gw, ctx, session, resources }
    }
}

impl Drop for ResourceWatchGuard<'_> {
    fn drop(&mut self) {
        self.resources.iter().for_each(|heard| self.session.notification_hub.unwatch(heard.uri()));
        self.gw.sync_subscriptions_in_background(self.ctx, self.session, self.resources);
    }
}

/// Asks the upstream to tell of just those resources that somebody listens for, and gives those of which it will. One that
/// hangs is not asked for each.
async fn sync_subscriptions(
    gw: &Gateway,
    ctx: &RequestContext,
    session: &Session,
    heard: &[AllowedResource],
) -> Vec<String> {
    let mut taken = Vec::new();
    let settling = async {
        for heard in heard {
            let asked = session.notification_hub.upstream_subscription(heard.uri());
            let mut asked = asked.lock().await;
            let is_wanted = session.notification_hub.is_watched(heard.uri());
            match asked.plan_request(is_wanted, session.handshake_attempts()) {
                Some(true) => asked.record_reply(send_subscription(gw, ctx, &Method::ResourcesSubscribe, heard).await),
                Some(false) => drop(send_subscription(gw, ctx, &Method::ResourcesUnsubscribe, heard).await),
                None => {}
            }
            if is_wanted && asked.is_accepted {
                taken.push(heard.uri().to_owned());
            }
        }
    };
    let _ = tokio::time::timeout(SUBSCRIBE_TIMEOUT, settling).await;
    taken
}

impl Gateway {
    /// The same, and nobody waits for it: a server that hangs keeps no client from hearing, or from leaving.
    fn sync_subscriptions_in_background(
        &self,
        ctx: &RequestContext,
        session: &Arc<Session>,
        heard: &Arc<[AllowedResource]>,
    ) {
        let Some(gw) = self.arc_self().filter(|_| !heard.is_empty()) else { return };
        let (task, ctx, session, heard) = (Arc::clone(&gw), ctx.clone(), Arc::clone(session), Arc::clone(heard));
        gw.spawn(async move {
            tokio::select! {
                _ = sync_subscriptions(&task, &ctx, &session, &heard) => {}
                () = task.wait_for_shutdown() => {}
            }
        });
    }

    /// Has somebody follow the upstream's stream of a session, if nobody does.
    fn ensure_hub_follower(&self, ctx: &RequestContext, session: &Arc<Session>) {
        if let Some(goes_on) = session.notification_hub.try_start_following() {
            self.spawn_hub_follower(ctx.on_behalf_of_session(Arc::clone(session)), goes_on);
        }
    }

    /// Follows the upstream's stream of a session for all who listen, until none does: from where it was left, if it goes
    /// on with what somebody else left. What is said while nobody listens is nobody's.
    fn spawn_hub_follower(&self, ctx: RequestContext, goes_on: bool) {
        let Some(gw) = self.arc_self() else { return };
        let task = Arc::clone(&gw);
        gw.spawn(async move {
            let Some(session) = ctx.upstream_session().cloned() else { return };
            let (events, mut heard) = mpsc::channel::<Bytes>(1);
            let last = session.last_event_id().filter(|_| goes_on);
            let following =
                follow_upstream_stream(&task, &ctx, last, &events, |text| Bytes::copy_from_slice(text.as_bytes()));
            let telling = async {
                while let Some(message) = heard.recv().await {
                    session.notification_hub.broadcast(message);
                }
            };
            let ending = async {
                while !session.notification_hub.stop_following_if_unused() {
                    if !task.is_context_current(&ctx) {
                        return true;
                    }
                    tokio::time::sleep(REVALIDATION_INTERVAL).await;
                }
                false
            };
            let is_left = tokio::select! {
                () = following => true,
                () = telling => true,
                is_left = ending => is_left,
                () = task.wait_for_shutdown() => true,
            };
            while let Ok(message) = heard.try_recv() {
                session.notification_hub.broadcast(message);
            }
            if is_left {
                // Whoever listens by what is in force now, follows it next.
                session.notification_hub.stop_following();
            }
        });
    }
}
