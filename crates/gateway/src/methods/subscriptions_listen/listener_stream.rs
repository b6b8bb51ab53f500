//! Relays the notifications of a server that has opened a stream for this one listener.

use bytes::Bytes;
use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::{ClientRequest, Method, RequestId, ServerMessage, ServerNotification, read_server_message};
use gatelodge_mutants::mutant;
use gatelodge_store::CallId;

use super::checked_resources::resource_uris;
use super::notification_filter::NotificationFilter;
use super::subscription_listener::SubscriptionListener;
use super::{SubscriptionStreamEnd, wait_for_client_end};
use crate::methods::standalone_stream::REVALIDATION_INTERVAL;
use crate::pipeline::response_for_client;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::list_changed::SUBSCRIPTION_ID_KEY;
use crate::upstream::{Permit, UpstreamResponse, UpstreamSendError};
use crate::upstream_session::resource_subscription::AllowedResource;

/// One listener's own stream at the server.
pub(super) struct ListenerStream<'a> {
    gw: &'a GatewayServices,
    request: &'a ClientRequest<'a>,
    call: CallId,
    listener: SubscriptionListener,
    /// What the client requested; `None` once the server has acknowledged it.
    requested: Option<NotificationFilter>,
    acknowledged: NotificationFilter,
}

impl<'a> ListenerStream<'a> {
    pub fn new(
        gw: &'a GatewayServices,
        ctx: &RequestContext,
        request: &'a ClientRequest<'a>,
        call: CallId,
        allowed: &[AllowedResource],
    ) -> Self {
        Self {
            gw,
            request,
            call,
            listener: SubscriptionListener::new(ctx, resource_uris(allowed), None),
            requested: Some(NotificationFilter::from_request(request, allowed)),
            acknowledged: NotificationFilter::default(),
        }
    }

    /// Opens the stream and relays it until either side ends it.
    pub async fn relay(
        mut self,
        permit: Permit,
        responder: &mut Responder,
    ) -> Result<SubscriptionStreamEnd, UpstreamSendError> {
        let gw = self.gw;
        let sending = gw.upstream_client.send(&self.listener.ctx.upstream, permit);
        let opening = tokio::time::timeout(gw.settings.call_timeout, sending);
        let mut exchange = opening.await.unwrap_or(Err(UpstreamSendError::Timeout))?;
        let period = gw.settings.keep_alive_interval;
        let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        let mut revalidation = tokio::time::interval(REVALIDATION_INTERVAL);
        loop {
            let message = {
                let mut next = std::pin::pin!(exchange.next_message());
                loop {
                    tokio::select! {
                        message = &mut next => break message?,
                        _ = keep_alive.tick() => responder.keep_alive().await,
                        _ = revalidation.tick() => {
                            if !self.listener.revalidate(gw, self.request, responder).await {
                                return Ok(SubscriptionStreamEnd::Closed);
                            }
                        }
                        () = wait_for_client_end(responder) => return Ok(SubscriptionStreamEnd::ClientLeft),
                        () = gw.shutdown.wait() => return Ok(SubscriptionStreamEnd::Closed),
                    }
                }
            };
            let Some(message) = message else { return Ok(SubscriptionStreamEnd::Closed) };
            match read_server_message(&message, &gw.settings.reply_limits) {
                Ok(ServerMessage::Response(_)) => return self.end_with_response(&message, &exchange),
                Ok(ServerMessage::Notification(notification)) => {
                    self.relay_notification(&notification, responder).await;
                }
                Ok(ServerMessage::Request(_)) | Err(_) => gw.metrics.count_dropped_message(),
            }
        }
    }

    fn end_with_response(
        &self,
        message: &Bytes,
        exchange: &UpstreamResponse,
    ) -> Result<SubscriptionStreamEnd, UpstreamSendError> {
        let (ctx, id, limits) = (&self.listener.ctx, self.request.id(), &self.gw.settings.reply_limits);
        let (text, outcome) = response_for_client(ctx, message, id, limits)
            .ok_or_else(|| UpstreamSendError::InvalidResponse("the response cannot be read".to_owned()))?;
        let status = ctx.response_status(&message.clone().into(), self.call, exchange.status, limits);
        let tagged = str::from_utf8(&text).ok().and_then(|text| with_subscription_id(text, id, limits));
        Ok(SubscriptionStreamEnd::Response(status, tagged.map_or(text, Bytes::from), outcome))
    }

    async fn relay_notification(&mut self, notification: &ServerNotification<'_>, responder: &mut Responder) {
        if *notification.method() == Method::SubscriptionsAcknowledged {
            let Some(requested) = self.requested.take() else { return };
            let text = requested
                .restrict_acknowledgement(notification.text())
                .unwrap_or_else(|| notification.text().to_owned());
            self.forward_notification(text, responder).await;
            self.acknowledged = requested.restrict_to_acknowledged(notification.params().unwrap_or_default());
            self.listener.advertised_lists = Some(self.acknowledged.lists);
            return self.listener.notify_list_changes(self.request, responder).await;
        }
        // Notifications that were not requested are dropped, whatever the server sends.
        let passed = self.acknowledged.filter_notification(self.gw, &self.listener.ctx, notification).await;
        let forced = || mutant!("unrequested-notification-forwarded").then(|| notification.text().to_owned());
        if let Some(text) = passed.or_else(forced) {
            self.forward_notification(text, responder).await;
        }
    }

    /// Forwards a server's notification under the client's subscription id.
    async fn forward_notification(&self, text: String, responder: &mut Responder) {
        let text = with_subscription_id(&text, self.request.id(), &JsonLimits::REPLY).unwrap_or(text);
        responder.send(&self.listener.ctx.upstream.secret_redactor().redact_json(text)).await;
    }
}

/// Replaces the subscription id in a notification or response with the client's subscription id. Upstream, the gateway
/// uses an id of its own.
fn with_subscription_id(text: &str, id: &RequestId<'_>, limits: &JsonLimits) -> Option<String> {
    let document = read(text.as_bytes(), limits).ok()?;
    let body = document.root().get("params").or_else(|| document.root().get("result"))?;
    let tag: JsonValue<'_> = body.get("_meta")?.get(SUBSCRIPTION_ID_KEY)?;
    let (start, end) = tag.span();
    Some(format!("{}{}{}", text.get(..start)?, id.raw(), text.get(end..)?))
}
