//! Follows the event stream of a server and relays its messages.

use std::time::{Duration, Instant};

use bytes::Bytes;
use gatelodge_mcp::{Method, ServerMessage, ServerNotification, read_server_message};
use gatelodge_mutants::mutant;
use http::{HeaderValue, StatusCode};
use tokio::sync::mpsc;

use crate::methods::subscriptions_listen::notification_filter::NotificationFilter;
use crate::pipeline::server_message_filter::{filter_standalone_notification, relay_server_request};
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::session::StandaloneStreamState;
use crate::upstream::{UpstreamResponse, UpstreamSendError};
use crate::upstream_session::event_stream::{
    MAX_RECONNECT_DELAY, MIN_RECONNECT_DELAY, OpenStreamGuard, event_stream_permit, handshake_attempts,
    is_session_forgotten, reopen_forgotten_session, requested_notifications, set_last_event_id, set_stream_state,
    wait_for_listener, wait_for_subscription_change,
};
use crate::upstream_session::handshake::reopen_if_stale;
use crate::upstream_session::resource_subscription;

/// Minimum delay that the upstream can ask for.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Follows the upstream's standalone stream from the last event, and relays its messages, encoded with `encode`. If the
/// upstream has no stream, waits forever, so that the client's stream stays open.
pub(crate) async fn follow_upstream_stream(
    gw: &GatewayServices,
    ctx: &RequestContext,
    last: Option<HeaderValue>,
    events: &mpsc::Sender<Bytes>,
    encode: impl Fn(&str) -> Bytes + Copy,
) {
    let mut reconnection = Reconnection::default();
    // Stored with the session, which resets it when it is reopened.
    set_last_event_id(ctx, last, handshake_attempts(ctx));
    loop {
        reopen_if_stale(gw, ctx).await;
        // A concurrent reopening restores the subscriptions itself.
        if ctx.session().is_some_and(|session| session.upstream_link.reopen_lock.try_lock().is_ok()) {
            resource_subscription::resubscribe(gw, ctx);
        }
        let (attempt, started_at) = (handshake_attempts(ctx), Instant::now());
        let last = ctx.upstream_session().and_then(|session| session.streams.last_event_id());
        let is_resumed = last.is_some();
        let Some(permit) = event_stream_permit(gw, ctx, last).await else { return std::future::pending().await };
        match gw.upstream_client.send(&ctx.upstream, permit).await {
            Ok(mut exchange) if exchange.is_stream() => {
                reconnection.reopened = None;
                let _open = OpenStreamGuard::open(ctx);
                tokio::select! {
                    () = relay_events(gw, ctx, &mut exchange, attempt, events, encode) => {}
                    // The subscriptions changed, so the stream is opened again immediately.
                    () = wait_for_subscription_change(ctx) => continue,
                }
                // The last message may not have been sent; it is sent again when the client resumes.
                if events.is_closed() {
                    return;
                }
                let (id, retry) = exchange.last_event();
                reconnection.delay_after_stream(ctx, started_at, retry);
                set_last_event_id(ctx, id, attempt);
            }
            Ok(exchange) if exchange.status == StatusCode::METHOD_NOT_ALLOWED => return wait_without_stream(ctx).await,
            Err(UpstreamSendError::Status(405)) => return wait_without_stream(ctx).await,
            // The server is down, has lost the session or the event, or has no stream and says so with 404.
            answer => {
                reconnection.delay_after_failure(gw, ctx, failure_status(&answer), attempt, is_resumed).await;
                if !matches!(answer, Err(UpstreamSendError::NotSent(_) | UpstreamSendError::ConnectionLost(_))) {
                    set_last_event_id(ctx, None, attempt);
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(reconnection.delay) => {}
            () = wait_for_listener(ctx) => {}
        }
    }
}

/// When the stream is opened again.
struct Reconnection {
    delay: Duration,
    /// Delay before restarting a process that ended; it grows for processes that end soon after their start.
    restart_delay: Duration,
    /// Handshake attempt that was made because the upstream had lost the session.
    reopened: Option<u64>,
}

impl Default for Reconnection {
    fn default() -> Self {
        Self { delay: MIN_RECONNECT_DELAY, restart_delay: MIN_RECONNECT_DELAY, reopened: None }
    }
}

impl Reconnection {
    /// Sets the delay after a stream has ended. `retry` is the delay that the upstream asked for.
    fn delay_after_stream(&mut self, ctx: &RequestContext, started_at: Instant, retry: Option<Duration>) {
        if started_at.elapsed() > MAX_RECONNECT_DELAY || !ctx.upstream.is_process() {
            self.restart_delay = MIN_RECONNECT_DELAY;
        }
        self.delay = retry.unwrap_or(self.restart_delay).clamp(MIN_RETRY_DELAY, MAX_RECONNECT_DELAY);
        self.restart_delay = (self.restart_delay * 2).min(MAX_RECONNECT_DELAY);
    }

    /// Sets the delay after the stream could not be opened. A session that the upstream has lost is reopened, once
    /// until a stream opens.
    async fn delay_after_failure(
        &mut self,
        gw: &GatewayServices,
        ctx: &RequestContext,
        status: StatusCode,
        attempt: Option<u64>,
        is_resumed: bool,
    ) {
        self.delay = (self.delay * 2).min(MAX_RECONNECT_DELAY);
        match is_session_forgotten(gw, ctx, status).await {
            Some(true) if self.reopened != attempt => {
                self.reopened = reopen_forgotten_session(gw, ctx).await;
                self.delay = MIN_RECONNECT_DELAY;
            }
            Some(false) if status == StatusCode::NOT_FOUND && !is_resumed => {
                set_stream_state(ctx, StandaloneStreamState::Unsupported)
            }
            Some(_) | None => {}
        }
    }
}

/// Waits forever, because the upstream has no stream.
async fn wait_without_stream(ctx: &RequestContext) {
    set_stream_state(ctx, StandaloneStreamState::Unsupported);
    std::future::pending().await
}

fn failure_status(answer: &Result<UpstreamResponse, UpstreamSendError>) -> StatusCode {
    match answer {
        Ok(exchange) => exchange.status,
        Err(UpstreamSendError::Status(status)) => StatusCode::from_u16(*status).unwrap_or_default(),
        Err(_) => StatusCode::default(),
    }
}

async fn relay_events(
    gw: &GatewayServices,
    ctx: &RequestContext,
    exchange: &mut UpstreamResponse,
    attempt: Option<u64>,
    events: &mpsc::Sender<Bytes>,
    encode: impl Fn(&str) -> Bytes,
) {
    let mut filter = StreamFilter::of(ctx);
    while let Ok(Some(message)) = exchange.next_message().await {
        if mutant!("event-acknowledged-before-delivery") {
            set_last_event_id(ctx, exchange.last_event().0, attempt);
        }
        let text = match read_server_message(&message, &gw.settings.reply_limits) {
            Ok(ServerMessage::Notification(notification)) => filter.filter_notification(gw, ctx, &notification).await,
            Ok(ServerMessage::Request(server_request)) => relay_server_request(gw, ctx, &server_request).await,
            Ok(ServerMessage::Response(_)) | Err(_) => {
                gw.metrics.count_dropped_message();
                None
            }
        };
        if let Some(text) = text {
            let text = ctx.upstream.secret_redactor().redact_json(text);
            // Reserving first makes append and send one step: cancelled before it, the message is received again; after
            // it, the message is sent. An appended event is replayed to resuming clients, so it must not be appended
            // twice.
            let Ok(place) = events.reserve().await else { return };
            place.send(encode(&text));
        }
        set_last_event_id(ctx, exchange.last_event().0, attempt);
    }
}

/// Selects the notifications of one stream: those that were requested and acknowledged, or everything that the server
/// decides to send.
struct StreamFilter {
    /// `None` once the server has acknowledged the request.
    requested: Option<NotificationFilter>,
    /// `None` if nothing was requested.
    acknowledged: Option<NotificationFilter>,
}

impl StreamFilter {
    fn of(ctx: &RequestContext) -> Self {
        let requested = requested_notifications(ctx)
            .map(|requested| NotificationFilter::of(requested.lists, requested.uris, requested.wants_log_messages));
        Self { acknowledged: requested.is_some().then(NotificationFilter::default), requested }
    }

    /// Returns the notification as the client gets it, if it may.
    async fn filter_notification(
        &mut self,
        gw: &GatewayServices,
        ctx: &RequestContext,
        notification: &ServerNotification<'_>,
    ) -> Option<String> {
        let Some(acknowledged) =
            self.acknowledged.as_mut().filter(|_| !mutant!("unrequested-notification-reaches-session"))
        else {
            return filter_standalone_notification(gw, ctx, notification).await;
        };
        let is_acknowledgement = *notification.method() == Method::SubscriptionsAcknowledged;
        if let Some(requested) = self.requested.take_if(|_| is_acknowledgement) {
            *acknowledged = requested.restrict_to_acknowledged(notification.params().unwrap_or_default());
        }
        acknowledged.filter_notification(gw, ctx, notification).await
    }
}
