//! `subscriptions/listen`: notification stream of a stateless client, filtered by the policy.

pub(crate) mod notification_filter;
mod shared_stream_listen;

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, RequestId, ServerMessage, code, error_response, read_client_message,
    read_server_message, result_response,
};
use gatelodge_mutants::mutant;
use gatelodge_policy::Reason;
use gatelodge_store::{CallId, CallOutcome};
use http::StatusCode;

use self::notification_filter::NotificationFilter;
use super::policy_exempt_messages::reply_failure;
use super::standalone_stream::REVALIDATION_INTERVAL;
use super::task_requests::{self, find_hidden_task};
use crate::call_recorder::CallRecorder;
use crate::pipeline::response_for_client;
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{RequestContext, RequestSubject, StreamRevalidation};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::list_changed::{ListChangedSet, SUBSCRIPTION_ID_KEY, list_changed_notification_for};
use crate::session::wait_for_cancel;
use crate::upstream::{Permit, UpstreamRequest, UpstreamResponse, UpstreamSendError};
use crate::upstream_session::resource_subscription::{AllowedResource, authorize_resource};

/// Maximum number of resources in a request, the same as for a session. Each denied resource is recorded in a row of
/// its own.
const MAX_NAMED_RESOURCES: usize = 256;

/// How a stream ends.
enum SubscriptionStreamEnd {
    /// The stream ends with the server's response, in the form that the client expects.
    Response(StatusCode, Bytes, CallOutcome),
    /// The client disconnected or cancelled.
    ClientLeft,
    /// The server ended the stream, or the gateway no longer relays it.
    Closed,
}

/// Serves the stream until either side ends it.
pub(crate) async fn handle_listen(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    if let Err(refusal) = check_resource_count(request) {
        return task_requests::reply_refusal(gw, request, recorder, responder, &refusal).await;
    }
    let resources = check_resources(gw, ctx, request);
    record_denied(gw, ctx, request, &resources).await;
    // Parsed again after the rewrite, so that the evaluated text is the text that is sent.
    let text = resources.restrict_request(request);
    let allowed = resources.allowed;
    let Ok(ClientMessage::Request(own)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
        return reply_failure(
            gw,
            request.id(),
            &mut recorder,
            UpstreamSendError::NotSent("the rewritten request cannot be read".to_owned()),
            responder,
        )
        .await;
    };
    if ctx.shares_upstream_stream() {
        return match shared_stream_listen::listen_on_shared_stream(gw, ctx, request, allowed, &mut responder).await {
            Ok(end) => finish_stream(gw, ctx, request, recorder, responder, end).await,
            Err(error) => reply_failure(gw, request.id(), &mut recorder, error, responder).await,
        };
    }
    let hidden_task = match find_hidden_task(gw, ctx, request, &mut responder).await {
        Ok(hidden_task) => hidden_task,
        Err(error) => {
            return task_requests::reply_refusal(gw, request, recorder, responder, &Refusal::Store(error)).await;
        }
    };
    if let Some(task) = hidden_task {
        recorder.set_subject(ctx, Some(&task), None);
        let subject = responder.with_client_names(&RequestSubject::Task { id: task.into(), tool: String::new() });
        responder.finish(reply::not_found_reply(&ctx.client_protocol, &subject, request.id()).into()).await;
        return gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
    }
    let method = request.method().name();
    let span = ctx.upstream_span(method, None);
    let text = own.page_request(
        &RequestId::string(recorder.call_id().as_str()),
        None,
        span.as_ref().map(|span| &span.context),
    );
    let outgoing =
        ctx.request_for_upstream(UpstreamRequest::request(text, recorder.call_id()), method, None).with_span(span);
    let end = match Permit::for_policy_exempt(method, outgoing) {
        Some(permit) => {
            let span = ctx.begin_upstream_span(permit.span_context(), recorder.call_id(), &*gw.clock);
            let end = open_and_relay(gw, ctx, request, (recorder.call_id(), permit), &allowed, &mut responder).await;
            if let Some(span) = span {
                span.end_stream(end.as_ref().err().map(UpstreamSendError::error_type));
            }
            end
        }
        None => Err(UpstreamSendError::NotSent("the method is subject to the policy".to_owned())),
    };
    match end {
        Ok(end) => finish_stream(gw, ctx, request, recorder, responder, end).await,
        Err(error) => reply_failure(gw, request.id(), &mut recorder, error, responder).await,
    }
}

async fn finish_stream(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
    end: SubscriptionStreamEnd,
) {
    let outcome = match end {
        SubscriptionStreamEnd::Response(status, text, outcome) => {
            responder.finish_with_status(status, text).await;
            outcome
        }
        SubscriptionStreamEnd::ClientLeft => {
            responder.hang_up();
            CallOutcome::Ok
        }
        SubscriptionStreamEnd::Closed => {
            responder.close_stream(closing_message(gw, ctx, request.id())).await;
            CallOutcome::Ok
        }
    };
    gw.write_row(recorder.outcome_row(outcome, None)).await;
}

/// Returns the final message for a client that has to subscribe again or has lost access.
fn closing_message(gw: &GatewayServices, ctx: &RequestContext, id: &RequestId<'_>) -> String {
    match gw.config.revalidate(ctx) {
        StreamRevalidation::Revoked => {
            let what = "the grant has expired or no longer includes this server";
            error_response(Some(id), code::INVALID_REQUEST, what, None)
        }
        StreamRevalidation::Unchanged | StreamRevalidation::Replaced(_) => {
            result_response(id, &format!(r#"{{"resultType":"complete","_meta":{{"{SUBSCRIPTION_ID_KEY}":{id}}}}}"#))
        }
    }
}

/// Waits until the client disconnects or cancels the request.
async fn wait_for_client_end(responder: &mut Responder) {
    let cancel_signal = responder.cancel_signal();
    tokio::select! {
        () = responder.wait_for_disconnect() => {}
        () = wait_for_cancel(cancel_signal.as_deref()) => {}
    }
}

/// The resources in a request: those that the grant may watch, and the denied ones with the reason for each denial.
pub(crate) struct CheckedResources {
    pub allowed: Vec<AllowedResource>,
    denied: Vec<(String, Reason)>,
}

impl CheckedResources {
    /// Returns the request with only the allowed resources.
    pub fn restrict_request(&self, request: &ClientRequest<'_>) -> String {
        request.with_allowed_resources(|uri| self.allowed.iter().any(|allowed| allowed.uri() == uri))
    }
}

pub(crate) fn resource_uris(allowed: &[AllowedResource]) -> Vec<String> {
    allowed.iter().map(|allowed| allowed.uri().to_owned()).collect()
}

/// Checks the number of resources in a request.
///
/// # Errors
/// The request names too many resources.
pub(crate) fn check_resource_count(request: &ClientRequest<'_>) -> Result<(), Refusal> {
    if named_resources(request).iter().flat_map(|named| named.elements()).count() <= MAX_NAMED_RESOURCES
        || mutant!("subscription-count-unlimited")
    {
        return Ok(());
    }
    let what = format!("`resourceSubscriptions` names more than {MAX_NAMED_RESOURCES} resources");
    Err(Refusal::Protocol(ProtocolError::new(StatusCode::OK, code::INVALID_PARAMS, &what)))
}

fn named_resources<'r>(request: &'r ClientRequest<'_>) -> Option<JsonValue<'r>> {
    request.params()?.get("notifications")?.get("resourceSubscriptions")
}

/// Evaluates the policy for each resource in a request. The server does not learn of denied resources.
pub(crate) fn check_resources(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
) -> CheckedResources {
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    for uri in named_resources(request).iter().flat_map(|named| named.elements()).filter_map(|uri| uri.as_str()) {
        match authorize_resource(gw, ctx, &uri) {
            Ok(own) => allowed.push(own),
            Err(reason) => denied.push((uri.into_owned(), reason)),
        }
    }
    if mutant!("one-denied-resource-denies-all") && !denied.is_empty() {
        allowed.clear();
    }
    CheckedResources { allowed, denied }
}

/// Records the requested resources that were denied.
pub(crate) async fn record_denied(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    resources: &CheckedResources,
) {
    for (uri, reason) in &resources.denied {
        let mut recorder = CallRecorder::start(ctx, request, gw.new_call_id(), gw.clock.now());
        recorder.set_subject(ctx, Some(uri), None);
        gw.record_refusal(&mut recorder, &Refusal::Denied(reason.clone())).await;
    }
}

async fn open_and_relay(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    (call, permit): (CallId, Permit),
    allowed: &[AllowedResource],
    responder: &mut Responder,
) -> Result<SubscriptionStreamEnd, UpstreamSendError> {
    let opening = tokio::time::timeout(gw.settings.call_timeout, gw.upstream_client.send(&ctx.upstream, permit));
    let mut exchange = opening.await.unwrap_or(Err(UpstreamSendError::Timeout))?;
    relay_notifications(gw, ctx, request, (call, allowed), &mut exchange, responder).await
}

async fn relay_notifications(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    (call, allowed): (CallId, &[AllowedResource]),
    exchange: &mut UpstreamResponse,
    responder: &mut Responder,
) -> Result<SubscriptionStreamEnd, UpstreamSendError> {
    let period = gw.settings.keep_alive_interval;
    let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    let mut revalidation = tokio::time::interval(REVALIDATION_INTERVAL);
    let mut listener = SubscriptionListener::new(ctx, resource_uris(allowed), None);
    let (mut requested, mut filter) =
        (Some(NotificationFilter::from_request(request, allowed)), NotificationFilter::default());
    loop {
        let message = {
            let mut next = std::pin::pin!(exchange.next_message());
            loop {
                tokio::select! {
                    message = &mut next => break message?,
                    _ = keep_alive.tick() => responder.keep_alive().await,
                    _ = revalidation.tick() => {
                        if !listener.revalidate(gw, request, responder).await {
                            return Ok(SubscriptionStreamEnd::Closed);
                        }
                    }
                    () = wait_for_client_end(responder) => return Ok(SubscriptionStreamEnd::ClientLeft),
                    () = gw.shutdown.wait() => return Ok(SubscriptionStreamEnd::Closed),
                }
            }
        };
        let Some(message) = message else { return Ok(SubscriptionStreamEnd::Closed) };
        let ctx = &listener.ctx;
        match read_server_message(&message, &gw.settings.reply_limits) {
            Ok(ServerMessage::Response(_)) => {
                let (text, outcome) = response_for_client(ctx, &message, request.id(), &gw.settings.reply_limits)
                    .ok_or_else(|| UpstreamSendError::InvalidResponse("the response cannot be read".to_owned()))?;
                let status =
                    ctx.response_status(&message.clone().into(), call, exchange.status, &gw.settings.reply_limits);
                let tagged = str::from_utf8(&text)
                    .ok()
                    .and_then(|text| with_subscription_id(text, request.id(), &gw.settings.reply_limits));
                return Ok(SubscriptionStreamEnd::Response(status, tagged.map_or(text, Bytes::from), outcome));
            }
            Ok(ServerMessage::Notification(notification))
                if *notification.method() == Method::SubscriptionsAcknowledged =>
            {
                let Some(requested) = requested.take() else { continue };
                let text = requested
                    .restrict_acknowledgement(notification.text())
                    .unwrap_or_else(|| notification.text().to_owned());
                forward_notification(ctx, request, text, responder).await;
                filter = requested.restrict_to_acknowledged(notification.params().unwrap_or_default());
                listener.advertised_lists = Some(filter.lists);
                listener.notify_list_changes(request, responder).await;
            }
            // Notifications that were not requested are dropped, whatever the server sends.
            Ok(ServerMessage::Notification(notification)) => {
                let passed = filter.filter_notification(gw, ctx, &notification).await;
                let forced = || mutant!("unrequested-notification-forwarded").then(|| notification.text().to_owned());
                if let Some(text) = passed.or_else(forced) {
                    forward_notification(ctx, request, text, responder).await;
                }
            }
            Ok(ServerMessage::Request(_)) | Err(_) => gw.metrics.count_dropped_message(),
        }
    }
}

/// Forwards a server's notification under the client's subscription id.
async fn forward_notification(
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    text: String,
    responder: &mut Responder,
) {
    let text = with_subscription_id(&text, request.id(), &JsonLimits::REPLY).unwrap_or(text);
    responder.send(&ctx.upstream.secret_redactor().redact_json(text)).await;
}

/// State of one listener: its configuration, and what it is notified of.
struct SubscriptionListener {
    ctx: RequestContext,
    /// Requested resources that the grant may watch.
    uris: Vec<String>,
    /// `None` until the acknowledgement is sent.
    advertised_lists: Option<ListChangedSet>,
    /// Whether lists have changed and the client has not been notified yet.
    has_pending_list_change: bool,
}

impl SubscriptionListener {
    fn new(ctx: &RequestContext, uris: Vec<String>, advertised_lists: Option<ListChangedSet>) -> Self {
        Self { ctx: ctx.clone(), uris, advertised_lists, has_pending_list_change: false }
    }

    /// Adopts a changed configuration and notifies the client. Returns `false` if the stream must end, because the
    /// client has lost access or has to subscribe again. The client has to subscribe again to get a new acknowledgement
    /// if the server has been replaced or the policy now allows a different set of the requested resources.
    async fn revalidate(
        &mut self,
        gw: &GatewayServices,
        request: &ClientRequest<'_>,
        responder: &mut Responder,
    ) -> bool {
        let next = match gw.config.revalidate(&self.ctx) {
            StreamRevalidation::Unchanged => return true,
            StreamRevalidation::Revoked => return false,
            // The aggregate stream notifies once for all servers.
            StreamRevalidation::Replaced(_) if responder.is_aggregate() => return false,
            StreamRevalidation::Replaced(next) => *next,
        };
        self.has_pending_list_change = true;
        self.notify_list_changes(request, responder).await;
        let before = std::mem::replace(&mut self.ctx, next);
        Arc::ptr_eq(&before.upstream, &self.ctx.upstream)
            && resource_uris(&check_resources(gw, &self.ctx, request).allowed) == self.uris
            && self.can_see_tasks(gw, request, responder).await
    }

    /// Returns whether the client may still watch all tasks that it named. The tool listing may have to be fetched
    /// again for that; without it, the tasks count as hidden.
    async fn can_see_tasks(
        &self,
        gw: &GatewayServices,
        request: &ClientRequest<'_>,
        responder: &mut Responder,
    ) -> bool {
        !self.ctx.can_use_tasks() || matches!(find_hidden_task(gw, &self.ctx, request, responder).await, Ok(None))
    }

    /// Sends pending `list_changed` notifications.
    async fn notify_list_changes(&mut self, request: &ClientRequest<'_>, responder: &mut Responder) {
        let Some(advertised) = self.advertised_lists.filter(|_| std::mem::take(&mut self.has_pending_list_change))
        else {
            return;
        };
        for method in advertised.methods() {
            responder.send(&list_changed_notification_for(&method, request.id())).await;
        }
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
