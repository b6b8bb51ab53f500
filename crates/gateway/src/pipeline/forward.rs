//! Forwards a request to an upstream and relays its messages to the client until the response arrives.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::JsonDocumentText;
use gatelodge_mcp::{
    ClientRequest, RequestId, RequestRewrite, ServerMessage, ServerResponseOffsets, read_server_message,
};
use gatelodge_store::CallId;
use http::StatusCode;

use super::client_response::segmented_reply_spans;
use super::{UpstreamStreamResumption, call_suspension, server_message_filter};
use crate::body::{MessageBody, ReceivedBody};
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::runtime::Shutdown;
use crate::runtime::deadline_timer::{DeadlineTimer, sleep};
use crate::services::GatewayServices;
use crate::session::{ProgressRelay, wait_for_cancel};
use crate::telemetry::SpanOutcome;
use crate::upstream::{
    ListResponseBaseline, Permit, UpstreamRequest, UpstreamResponse, UpstreamSendError, UpstreamSessionLink,
};
use crate::upstream_session::handshake;
use crate::upstream_session::lost_session::{
    SessionEpoch, can_mean_lost_session, has_expirable_session, recover_session,
};
use crate::upstream_session::protocol_probe::reprobe_after;
use crate::upstream_session::upstream_exchange::is_id_of_call;

/// How long to wait for further server requests after the first: servers that need several inputs at once send their
/// requests in quick succession.
const SERVER_REQUEST_BATCH_WINDOW: Duration = Duration::from_millis(50);
/// Maximum number of server requests passed to a client at once; the rest follow in the next round.
pub(crate) const MAX_SERVER_REQUESTS_PER_ROUND: usize = 16;

/// Builds the upstream request from the evaluated message, with the gateway's id and progress token in place of the
/// client's.
pub(crate) fn rewrite_for_upstream(
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    call: CallId,
    about: Option<&str>,
) -> UpstreamRequest {
    let id = RequestId::string(call.as_str());
    let method = request.method().name();
    let span = ctx.upstream_span(method, about);
    let has_token = request.meta().progress_token().is_some();
    let rewrite = RequestRewrite {
        id: &id,
        target: None,
        progress_token: has_token.then_some(&id),
        trace: span.as_ref().map(|span| &span.context),
    };
    // INVARIANT: a progress token is replaced only if there is one, so the rewrite cannot fail.
    let text = match request.source() {
        JsonDocumentText::Segmented(segmented)
            if let Ok(Some((before, after))) = request.rewrite_segmented(&rewrite) =>
        {
            MessageBody::from_segments(before, segmented.parts().1, after)
        }
        source => {
            let (head, rest) = request.rewrite_prefix(&rewrite).unwrap_or_default();
            MessageBody::with_new_prefix(head, source.as_str().get(rest..).unwrap_or_default(), &ctx.request_body)
        }
    };
    let mut outgoing = ctx.request_for_upstream(UpstreamRequest::request(text, call), method, about);
    outgoing.span = span.map(Box::new);
    outgoing.may_send_requests = request.method().can_request_input();
    outgoing
}

/// Outcome of an exchange with an upstream.
#[derive(Debug)]
pub(crate) enum ForwardOutcome {
    /// A response and the positions of its parts. If the upstream sent the previous response again, this is the stored
    /// copy of it, with the id of the earlier request.
    Response(ReceivedBody, ServerResponseOffsets),
    /// The upstream asks for client input, and the client's protocol requires the gateway to pass these requests on in
    /// its response.
    ServerRequests(Vec<Bytes>),
    /// The client no longer wants a response.
    Cancelled,
}

/// One request being forwarded.
#[derive(Debug)]
pub(crate) struct ForwardContext<'a> {
    pub gw: &'a GatewayServices,
    pub ctx: &'a RequestContext,
    /// The gateway's id for the request, which is also the progress token sent upstream.
    pub call: CallId,
    /// Relays progress to the client; `None` if the client did not ask for it.
    pub progress: Option<&'a ProgressRelay>,
    /// Whether the request has no side effects upstream, so that it can be dropped when the client disconnects.
    pub cancels_on_disconnect: bool,
    /// Whether this is the client's own request, whose response is a stream if the upstream's response is one.
    pub is_client_request: bool,
    /// Whether the call can be suspended until the client provides input.
    pub can_suspend: bool,
    /// The upstream's last response to the same request.
    pub previous_response: Option<&'a ListResponseBaseline>,
    /// Timer of the client's connection, used for long waits; if `None`, separate timers are created.
    pub deadline_timer: Option<&'a DeadlineTimer>,
}

/// Sends a request and relays messages until the response arrives.
pub(crate) async fn forward(
    forward_ctx: &ForwardContext<'_>,
    permit: Permit,
    responder: &mut Responder,
) -> Result<(ForwardOutcome, Option<UpstreamResponse>), UpstreamSendError> {
    let span = forward_ctx
        .ctx
        .begin_upstream_span(permit.span_context(), forward_ctx.call, &*forward_ctx.gw.clock)
        .map(Box::new);
    let ended = send_and_relay(forward_ctx, permit, responder).await;
    if let Some(span) = span {
        span.end(match &ended {
            Ok((ForwardOutcome::Response(message, _), _)) => SpanOutcome::Response(message.outline()),
            Ok((ForwardOutcome::ServerRequests(_), _)) => SpanOutcome::InputRequired,
            Ok((ForwardOutcome::Cancelled, _)) => SpanOutcome::Cancelled,
            Err(error) => SpanOutcome::Error(error.error_type()),
        });
    }
    ended
}

async fn send_and_relay(
    forward_ctx: &ForwardContext<'_>,
    permit: Permit,
    responder: &mut Responder,
) -> Result<(ForwardOutcome, Option<UpstreamResponse>), UpstreamSendError> {
    let ForwardContext { gw, ctx, .. } = forward_ctx;
    let at = SessionEpoch::current(ctx);
    let back = permit.resume_target();
    let Some(sent) = wait_or_cancel(forward_ctx, responder, pin!(gw.upstream_client.send(&ctx.upstream, permit))).await
    else {
        return Ok((abandoned_outcome(&gw.shutdown)?, None));
    };
    // The body of an HTTP error is not read, but its status is used below.
    let status = match &sent {
        Ok(exchange) => exchange.status,
        Err(UpstreamSendError::Status(status)) => StatusCode::from_u16(*status).unwrap_or_default(),
        Err(_) => StatusCode::default(),
    };
    match status {
        StatusCode::NOT_FOUND if at.is_some() && has_expirable_session(ctx) => {
            Box::pin(handshake::reopen_session(gw, ctx, at.map(|at| at.handshake_attempts))).await;
            reprobe_after(gw, ctx, status, None, forward_ctx.call).await;
            return Err(UpstreamSendError::SessionExpired);
        }
        // The credential is the gateway's, not the client's, so the client gets no 401 or 403.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(UpstreamSendError::Status(status.as_u16())),
        _ => {}
    }
    let ended = match sent {
        Ok(mut exchange) => {
            exchange.resume_target = back;
            if forward_ctx.is_client_request && exchange.is_event_stream() {
                responder.start_stream();
            }
            relay_until_response(forward_ctx, exchange, responder).await
        }
        Err(error) => Err(error),
    };
    // An error status whose body is not a JSON-RPC response is reported by its status.
    let ended = match ended {
        Err(UpstreamSendError::InvalidResponse(_)) if !status.is_success() => {
            Err(UpstreamSendError::Status(status.as_u16()))
        }
        ended => ended,
    };
    // The call may have run, so it is not sent again.
    if can_mean_lost_session(ctx, status)
        && let Some(at) = at
        && Box::pin(recover_session(gw, ctx, at)).await
    {
        return Err(UpstreamSendError::SessionExpired);
    }
    let response = match &ended {
        Ok((ForwardOutcome::Response(message, _), _)) => Some(message),
        _ => None,
    };
    reprobe_after(gw, ctx, status, response, forward_ctx.call).await;
    ended
}

/// Relays the messages of an exchange that has already started, until the response arrives.
pub(crate) async fn relay_until_response(
    forward_ctx: &ForwardContext<'_>,
    mut exchange: UpstreamResponse,
    responder: &mut Responder,
) -> Result<(ForwardOutcome, Option<UpstreamResponse>), UpstreamSendError> {
    let secrets = forward_ctx.ctx.upstream.secret_redactor();
    let ended = relay(forward_ctx, &mut exchange, responder).await.map_err(|error| error.redact(secrets))?;
    Ok((ended, Some(exchange)))
}

/// Sends keep-alives to the client while waiting for `work`. Returns `None` when the client no longer wants a response,
/// or on forced shutdown.
pub(crate) async fn wait_or_cancel<T>(
    forward_ctx: &ForwardContext<'_>,
    responder: &mut Responder,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    let period = forward_ctx.gw.settings.keep_alive_interval;
    let mut keep_alive = pin!(sleep(forward_ctx.deadline_timer, period));
    let cancel_signal = responder.cancel_signal();
    loop {
        tokio::select! {
            // Biased: a call that is cancelled before it is sent must not be sent.
            biased;
            () = wait_for_cancel(cancel_signal.as_deref()) => return None,
            done = work.as_mut() => return Some(done),
            () = keep_alive.as_mut() => {
                responder.keep_alive().await;
                keep_alive.set(sleep(forward_ctx.deadline_timer, period));
            }
            () = responder.wait_for_disconnect(), if forward_ctx.cancels_on_disconnect || forward_ctx.ctx.cancels_by_disconnecting() => return None,
            () = forward_ctx.gw.shutdown.wait_until_forced() => return None,
        }
    }
}

/// Returns the outcome of a request whose response is no longer awaited.
pub(crate) fn abandoned_outcome(shutdown: &Shutdown) -> Result<ForwardOutcome, UpstreamSendError> {
    if shutdown.is_forced() {
        Err(UpstreamSendError::InvalidResponse("the gateway was stopped".to_owned()))
    } else {
        Ok(ForwardOutcome::Cancelled)
    }
}

/// Relays messages that belong to this call and drops all others, until the response arrives.
async fn relay(
    forward_ctx: &ForwardContext<'_>,
    exchange: &mut UpstreamResponse,
    responder: &mut Responder,
) -> Result<ForwardOutcome, UpstreamSendError> {
    let gw = forward_ctx.gw;
    let mut resumption = UpstreamStreamResumption::default();
    let mut unsent = UnsentServerRequests { forward_ctx, link: UpstreamSessionLink::NoSession, requests: Vec::new() };
    let own_id = || RequestId::string(forward_ctx.call.as_str());
    if let Some(before) = forward_ctx.previous_response {
        let again = wait_or_cancel(forward_ctx, responder, pin!(exchange.matches_previous(before, &own_id()))).await;
        let Some(again) = again else { return abandoned_outcome(&gw.shutdown) };
        if again? {
            return Ok(ForwardOutcome::Response(ReceivedBody::Whole(before.text.clone()), before.spans));
        }
    }
    loop {
        let is_stream = exchange.is_stream();
        let Some(message) =
            wait_or_cancel(forward_ctx, responder, pin!(next_message_in_batch(&unsent.requests, exchange))).await
        else {
            return abandoned_outcome(&gw.shutdown);
        };
        let Some(message) = message else {
            return Ok(ForwardOutcome::ServerRequests(std::mem::take(&mut unsent.requests)));
        };
        let ended = match message {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(UpstreamSendError::InvalidResponse("the stream ended without a response".to_owned())),
            Err(error @ UpstreamSendError::ConnectionLost(_)) => Err(error),
            Err(error) => return Err(error),
        };
        let message = match ended {
            Ok(message) => message,
            Err(error) => match Box::pin(resumption.reconnect(forward_ctx, exchange, error, responder)).await? {
                Some(resumed) => {
                    *exchange = resumed;
                    continue;
                }
                None => return abandoned_outcome(&gw.shutdown),
            },
        };
        let message = match message {
            message if let Some(spans) = segmented_reply_spans(forward_ctx, &message) => {
                return Ok(ForwardOutcome::Response(message, spans));
            }
            message => message.into_bytes(),
        };
        if let Some(before) = forward_ctx.previous_response.filter(|before| before.is_same_with_id(&own_id(), &message))
            && exchange.status.is_success()
        {
            return Ok(ForwardOutcome::Response(ReceivedBody::Whole(before.text.clone()), before.spans));
        }
        if let Some(response) =
            relay_message(forward_ctx, exchange, &message, is_stream, &mut unsent, responder).await?
        {
            return Ok(response);
        }
    }
}

/// Handles one message: returns the response to the call, relays what belongs to the call, and drops everything else.
async fn relay_message(
    forward_ctx: &ForwardContext<'_>,
    exchange: &UpstreamResponse,
    message: &Bytes,
    is_stream: bool,
    unsent: &mut UnsentServerRequests<'_>,
    responder: &mut Responder,
) -> Result<Option<ForwardOutcome>, UpstreamSendError> {
    let ForwardContext { gw, ctx, .. } = forward_ctx;
    match read_server_message(message, &gw.settings.reply_limits) {
        Err(_) if is_stream => gw.metrics.count_dropped_message(),
        Err(error) => {
            return Err(UpstreamSendError::InvalidResponse(format!("the response cannot be read: {error}")));
        }
        Ok(ServerMessage::Response(reply)) => {
            // A response without an id is an error. No other request can wait for it here: see `MessageDemux`.
            if reply.id().is_none_or(|id| is_id_of_call(id, forward_ctx.call)) {
                return Ok(Some(ForwardOutcome::Response(ReceivedBody::Whole(message.clone()), reply.spans())));
            }
            gw.metrics.count_dropped_message();
            if !is_stream {
                return Err(UpstreamSendError::InvalidResponse("the response is for another request".to_owned()));
            }
        }
        Ok(ServerMessage::Notification(notification)) => {
            if let Some(text) =
                Box::pin(server_message_filter::filter_call_notification(forward_ctx, &notification)).await
            {
                responder.send(&redact_secrets(ctx, text)).await;
            }
        }
        Ok(ServerMessage::Request(server_request)) if ctx.passes_server_requests_in_response() => {
            let why_not = if forward_ctx.can_suspend && !exchange.is_before_call() {
                (!exchange.is_only_call()).then_some(server_message_filter::AMBIGUOUS_CALL_MESSAGE)
            } else {
                Some(server_message_filter::CLIENT_NOT_WAITING_MESSAGE)
            };
            if Box::pin(server_message_filter::accept_as_client_input(gw, ctx, &server_request, why_not)).await {
                unsent.link = exchange.session_link.clone();
                unsent.requests.push(message.clone());
            }
        }
        Ok(ServerMessage::Request(server_request)) => {
            if let Some(text) = Box::pin(server_message_filter::relay_server_request(gw, ctx, &server_request)).await {
                responder.send(&redact_secrets(ctx, text)).await;
            }
        }
    }
    Ok(None)
}

/// Server requests that may be passed on but have not been yet. Dropping them declines them: otherwise the server might
/// wait for a response and, on a shared connection, block the next call.
struct UnsentServerRequests<'a> {
    forward_ctx: &'a ForwardContext<'a>,
    /// Connection on which the requests arrived.
    link: UpstreamSessionLink,
    requests: Vec<Bytes>,
}

impl Drop for UnsentServerRequests<'_> {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            call_suspension::decline_unasked(self.forward_ctx, &self.link, &self.requests);
        }
    }
}

/// Returns the next message, or `None` when the batch of server requests is full or its time window has passed.
async fn next_message_in_batch(
    requests: &[Bytes],
    exchange: &mut UpstreamResponse,
) -> Option<Result<Option<ReceivedBody>, UpstreamSendError>> {
    match requests.len() {
        0 => Some(exchange.next_body().await),
        MAX_SERVER_REQUESTS_PER_ROUND.. => None,
        _ => tokio::time::timeout(SERVER_REQUEST_BATCH_WINDOW, exchange.next_body()).await.ok(),
    }
}

fn redact_secrets(ctx: &RequestContext, text: String) -> String {
    ctx.upstream.secret_redactor().redact_json(text)
}
