//! The event stream of a server, which carries its messages that belong to no request: how it is opened, and what the
//! session knows of it.

use std::time::Duration;

use gatelodge_mcp::Method;
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mutants::mutant;
use http::{HeaderValue, StatusCode};

use super::handshake::reopen_session;
use super::lost_session::{can_mean_lost_session, is_session_lost};
use super::resource_subscription::authorize_subscription;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::session::StandaloneStreamState;
use crate::session::list_changed::ListChangedSet;
use crate::upstream::{Permit, UpstreamRequest};

/// Delay before the stream is opened again after it has ended.
pub(crate) const MIN_RECONNECT_DELAY: Duration = Duration::from_secs(1);
pub(crate) const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(60);

/// Returns the permit for opening the stream: a GET for a stateful upstream, `subscriptions/listen` for a stateless
/// one. Resources that the policy denies are left out, and each denial is recorded once.
pub(crate) async fn event_stream_permit(
    gw: &GatewayServices,
    ctx: &RequestContext,
    last: Option<HeaderValue>,
) -> Option<Permit> {
    let Some(session) = ctx.local_session() else {
        let (session_link, revision) = ctx.upstream_session_address();
        return Some(Permit::for_event_stream(session_link, revision, last));
    };
    let mut uris = Vec::new();
    for uri in session.subscriptions.uris_for_stream() {
        if let Some(allowed) = authorize_subscription(gw, ctx, session, &uri).await {
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

/// The notifications that the gateway asks a server for.
pub(crate) struct RequestedNotifications {
    pub lists: ListChangedSet,
    pub uris: Vec<String>,
    pub wants_log_messages: bool,
}

/// Returns the notifications that the stream was opened for; `None` if the server decides itself what it sends.
pub(crate) fn requested_notifications(ctx: &RequestContext) -> Option<RequestedNotifications> {
    ctx.local_session().map(|session| RequestedNotifications {
        lists: ListChangedSet::ALL,
        uris: session.subscriptions.uris(),
        wants_log_messages: session.negotiated.wants_log_messages(),
    })
}

/// Waits until the session subscribes to other resources and the stream has to be opened again for them. Other servers
/// are asked for each resource on its own.
pub(crate) async fn wait_for_subscription_change(ctx: &RequestContext) {
    match ctx.local_session() {
        Some(session) => session.subscriptions.changed.notified().await,
        None => std::future::pending().await,
    }
}

/// Marks the stream as open until dropped.
pub(crate) struct OpenStreamGuard<'a>(&'a RequestContext);

impl<'a> OpenStreamGuard<'a> {
    pub fn open(ctx: &'a RequestContext) -> Self {
        set_stream_state(ctx, StandaloneStreamState::Open);
        Self(ctx)
    }
}

impl Drop for OpenStreamGuard<'_> {
    fn drop(&mut self) {
        set_stream_state(self.0, StandaloneStreamState::Closed);
    }
}

pub(crate) fn set_stream_state(ctx: &RequestContext, state: StandaloneStreamState) {
    if let Some(session) = ctx.upstream_session() {
        session.notification_hub.set_stream_state(state);
    }
}

/// Waits until a listener needs the stream.
pub(crate) async fn wait_for_listener(ctx: &RequestContext) {
    match ctx.upstream_session() {
        Some(session) => session.notification_hub.wait_until_wanted().await,
        None => std::future::pending().await,
    }
}

/// Returns whether the upstream has lost the session, judged by the status and a ping. Returns `None` if neither is
/// conclusive.
pub(crate) async fn is_session_forgotten(
    gw: &GatewayServices,
    ctx: &RequestContext,
    status: StatusCode,
) -> Option<bool> {
    ctx.upstream_session()?;
    match status == StatusCode::NOT_FOUND || can_mean_lost_session(ctx, status) {
        true => is_session_lost(gw, ctx).await,
        false => None,
    }
}

/// Reopens a session that the upstream has lost. Calls would do this too, but a client that only listens makes none.
/// Returns the number of handshake attempts.
pub(crate) async fn reopen_forgotten_session(gw: &GatewayServices, ctx: &RequestContext) -> Option<u64> {
    let session = ctx.upstream_session()?;
    reopen_session(gw, ctx, Some(session.upstream_link.handshake_attempts())).await;
    Some(session.upstream_link.handshake_attempts())
}

/// Returns the number of handshake attempts; `None` without an upstream session.
pub(crate) fn handshake_attempts(ctx: &RequestContext) -> Option<u64> {
    ctx.upstream_session().map(|session| session.upstream_link.handshake_attempts())
}

/// Stores the id of the last event received from the stream. `attempt` is the handshake attempt after which the stream
/// was opened.
pub(crate) fn set_last_event_id(ctx: &RequestContext, last: Option<HeaderValue>, attempt: Option<u64>) {
    if let Some((session, attempt)) = ctx.upstream_session().zip(attempt) {
        session.set_last_event_id(last, attempt);
    }
}
