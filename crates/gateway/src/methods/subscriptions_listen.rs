//! `subscriptions/listen`: notification stream of a stateless client, filtered by the policy.

mod checked_resources;
mod listener_stream;
pub(crate) mod notification_filter;
mod shared_stream_listen;
mod subscription_listener;

use bytes::Bytes;
use gatelodge_mcp::{
    ClientMessage, ClientRequest, RequestId, code, error_response, read_client_message, result_response,
};
use gatelodge_store::{CallId, CallOutcome};
use http::StatusCode;

use self::listener_stream::ListenerStream;
use self::shared_stream_listen::listen_on_shared_stream;
use super::policy_exempt_messages::reply_failure;
use super::task_requests::{self, find_hidden_task};
use crate::call_recorder::CallRecorder;
use crate::config_snapshot::ActiveConfig;
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{RequestContext, RequestSubject, StreamRevalidation};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::list_changed::SUBSCRIPTION_ID_KEY;
use crate::session::wait_for_cancel;
use crate::upstream::{Permit, UpstreamRequest, UpstreamSendError};
use crate::upstream_session::resource_subscription::AllowedResource;

pub(crate) use self::checked_resources::{
    CheckedResources, check_resource_count, check_resources, record_denied, resource_uris,
};

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
        let end = listen_on_shared_stream(gw, ctx, request, allowed, &mut responder).await;
        return finish_stream(gw, ctx, request, recorder, responder, end).await;
    }
    match find_hidden_task(gw, ctx, request, &mut responder).await {
        Ok(None) => {}
        Ok(Some(task)) => return reply_hidden_task(gw, ctx, request, task, recorder, responder).await,
        Err(error) => {
            return task_requests::reply_refusal(gw, request, recorder, responder, &Refusal::Store(error)).await;
        }
    }
    let end = listen_on_own_stream(gw, ctx, (request, &own), recorder.call_id(), &allowed, &mut responder).await;
    finish_stream(gw, ctx, request, recorder, responder, end).await;
}

/// Opens a stream at the server for this listener alone. `own` is the request without denied resources.
async fn listen_on_own_stream(
    gw: &GatewayServices,
    ctx: &RequestContext,
    (request, own): (&ClientRequest<'_>, &ClientRequest<'_>),
    call: CallId,
    allowed: &[AllowedResource],
    responder: &mut Responder,
) -> Result<SubscriptionStreamEnd, UpstreamSendError> {
    let method = request.method().name();
    let span = ctx.upstream_span(method, None);
    let text = own.page_request(&RequestId::string(call.as_str()), None, span.as_ref().map(|span| &span.context));
    let outgoing = ctx.request_for_upstream(UpstreamRequest::request(text, call), method, None).with_span(span);
    let permit = Permit::for_policy_exempt(method, outgoing)
        .ok_or_else(|| UpstreamSendError::NotSent("the method is subject to the policy".to_owned()))?;
    let span = ctx.begin_upstream_span(permit.span_context(), call, &*gw.clock);
    let end = ListenerStream::new(gw, ctx, request, call, allowed).relay(permit, responder).await;
    if let Some(span) = span {
        span.end_stream(end.as_ref().err().map(UpstreamSendError::error_type));
    }
    end
}

async fn reply_hidden_task(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    task: String,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    recorder.set_subject(ctx, Some(&task), None);
    let subject = responder.with_client_names(&RequestSubject::Task { id: task.into(), tool: String::new() });
    responder.finish(reply::not_found_reply(&ctx.client_protocol, &subject, request.id()).into()).await;
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
}

async fn finish_stream(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
    end: Result<SubscriptionStreamEnd, UpstreamSendError>,
) {
    let outcome = match end {
        Err(error) => return reply_failure(gw, request.id(), &mut recorder, error, responder).await,
        Ok(SubscriptionStreamEnd::Response(status, text, outcome)) => {
            responder.finish_with_status(status, text).await;
            outcome
        }
        Ok(SubscriptionStreamEnd::ClientLeft) => {
            responder.hang_up();
            CallOutcome::Ok
        }
        Ok(SubscriptionStreamEnd::Closed) => {
            responder.close_stream(closing_message(&gw.config, ctx, request.id())).await;
            CallOutcome::Ok
        }
    };
    gw.write_row(recorder.outcome_row(outcome, None)).await;
}

/// Returns the final message for a client that has to subscribe again or has lost access.
fn closing_message(config: &ActiveConfig, ctx: &RequestContext, id: &RequestId<'_>) -> String {
    match config.revalidate(ctx) {
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
