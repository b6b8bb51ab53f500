//! The endpoints `/mcp/<server>` and `/mcp`, for all protocol revisions. Checks the headers and body of a request and
//! passes the request to its handler.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::http_headers::{self, HeaderRejection, ProtocolError, accepts, check_post, has_stateless_header};
use gatelodge_mcp::{ClientMessage, Method, ProtocolGeneration, code, error_response};
use gatelodge_store::CallOutcome;
use http::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::bearer_token::bearer_token_hash;
use super::listener::ClientConnectionContext;
use super::request_task::run_request;
use super::{aggregate_endpoint, request_body};
use crate::aggregate::AggregateRequest;
use crate::body::ReceivedBody;
use crate::client::protocol_detection::{SessionLookupScope, detect_client_protocol, require_session};
use crate::client::request_handler::handle_request;
use crate::config_snapshot::ActiveGrant;
use crate::methods::{initialize, policy_exempt_messages, standalone_stream, unknown_method_reply};
use crate::pipeline::CallRecorder;
use crate::reply::{ReplyBody, http_response};
use crate::request_context::{ClientProtocol, RequestContext};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::telemetry::RequestTrace;
use crate::transport::{ClientLeg, sse_server};

pub(crate) const GET_MUST_ACCEPT_EVENTS: &str = "a GET must accept `text/event-stream`";
pub(crate) const DUPLICATE_LAST_EVENT_ID: &str = "the request has more than one `Last-Event-ID` header";

/// Serves one HTTP request.
pub(crate) async fn serve(
    leg: &ClientLeg,
    connection: &ClientConnectionContext,
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    let gw = &leg.services;
    let (head, incoming) = request.into_parts();
    let ctx = match authenticate(leg, connection, &head) {
        Ok(RequestEndpoint::Server(ctx)) => ctx,
        Ok(RequestEndpoint::Aggregate(all)) => {
            return Box::pin(aggregate_endpoint::serve(gw, *all, head, incoming)).await;
        }
        Err((status, what)) => return unauthorized(status, what),
    };
    match head.method {
        http::Method::POST => match sse_server::connection_id(&head.uri) {
            Some(connection) => Box::pin(sse_server::handle_post(leg, ctx, connection, &head.headers, incoming)).await,
            None => post(gw, ctx, head.headers, incoming).await,
        },
        http::Method::GET => Box::pin(get(leg, ctx, &head.headers)).await,
        http::Method::DELETE => Box::pin(delete(gw, ctx, &head.headers)).await,
        _ => http_response::method_not_allowed_response("POST, GET, DELETE", "this URL accepts POST, GET and DELETE"),
    }
}

/// The endpoint of a request: one server or the aggregate endpoint.
pub(crate) enum RequestEndpoint {
    Server(RequestContext),
    Aggregate(Box<AggregateRequest>),
}

/// Finds the grant by the token and the server by the path.
fn authenticate(
    leg: &ClientLeg,
    connection: &ClientConnectionContext,
    head: &Parts,
) -> Result<RequestEndpoint, HeaderRejection> {
    let gw = &leg.services;
    let not_found = |what| Err((StatusCode::NOT_FOUND, what));
    let path = head.uri.path();
    let path = path.strip_suffix('/').unwrap_or(path);
    let Some(name) = path.strip_prefix("/mcp").filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return not_found("not found; servers are at /mcp/<server>, and combined at /mcp");
    };
    let snapshot = gw.config.snapshot();
    let address = Arc::clone(&connection.client_address);
    let token = bearer_token_hash(&head.headers, &head.uri, &connection.token_cache);
    let token = token.inspect_err(|_| gw.auth_failures.record_failure(&address))?;
    let is_valid = |grant: &&Arc<ActiveGrant>| grant.config.expires.is_none_or(|end| end > gw.clock.now());
    let grant = snapshot.find_grant(&token).filter(is_valid);
    let Some(grant) = grant else {
        gw.auth_failures.record_failure(&address);
        return Err((StatusCode::UNAUTHORIZED, "the token is unknown, expired or revoked"));
    };
    let Some(name) = name.strip_prefix('/') else {
        return Ok(RequestEndpoint::Aggregate(Box::new(AggregateRequest::new(
            &snapshot,
            grant,
            &address,
            &leg.aggregate_caches,
        ))));
    };
    let found = grant.config.servers.get(name).cloned().zip(snapshot.find_server(name).cloned());
    // A server of another grant looks the same as one that does not exist.
    let Some((server_access, upstream)) = found else { return not_found("this grant has no server with that name") };
    let (grant, client_protocol, pins_epoch) =
        (Arc::clone(grant), ClientProtocol::Stateful(None), upstream.pins_epoch());
    Ok(RequestEndpoint::Server(RequestContext {
        grant,
        server_access,
        upstream,
        pins_epoch,
        client_address: address,
        client_protocol,
        trace: None,
        request_body: Bytes::new(),
        streaming_digest: None,
    }))
}

fn unauthorized(status: StatusCode, what: &str) -> Response<ReplyBody> {
    let mut response = http_response::http_error_response(status, what);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

async fn post(
    gw: &Arc<GatewayServices>,
    ctx: RequestContext,
    headers: HeaderMap,
    incoming: Incoming,
) -> Response<ReplyBody> {
    let reject_request = |status, what: String| gw.reject_http(gw.recorder_for_http_method(&ctx, "POST"), status, what);
    if let Err((status, what)) = check_post(&headers) {
        return reject_request(status, what.to_owned()).await;
    }
    let body =
        match request_body::read_request_body(incoming, gw.settings.request_limits.max_bytes, gw.settings.body_timeout)
            .await
        {
            Ok(body) => body,
            Err((status, what)) => return reject_request(status, what).await,
        };
    run_request(gw, InboundClientMessage { endpoint: RequestEndpoint::Server(ctx), headers, body }).await
}

/// A client message whose body has been received, with its HTTP headers and its endpoint.
pub(crate) struct InboundClientMessage {
    pub(crate) endpoint: RequestEndpoint,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ReceivedBody,
}

/// Handles a message.
pub(crate) async fn run_message(
    gw: Arc<GatewayServices>,
    InboundClientMessage { endpoint: to, headers, body }: InboundClientMessage,
    responder: Responder,
) {
    match to {
        RequestEndpoint::Server(ctx) => handle_message(&gw, ctx, headers, body, responder).await,
        RequestEndpoint::Aggregate(all) => {
            Box::pin(aggregate_endpoint::handle_message(&gw, *all, headers, body.into_bytes(), responder)).await
        }
    }
}

async fn handle_message(
    gw: &Arc<GatewayServices>,
    mut ctx: RequestContext,
    headers: HeaderMap,
    body: ReceivedBody,
    mut responder: Responder,
) {
    let message = match body.read(&gw.settings.request_limits) {
        Ok(message) => message,
        Err(cause) => {
            let generation = if has_stateless_header(&headers) {
                ProtocolGeneration::Stateless
            } else {
                ProtocolGeneration::Stateful
            };
            responder.reject(&cause, generation).await;
            return gw.record_rejection(&ctx, cause.code, &cause.message).await;
        }
    };
    ctx.trace = RequestTrace::of(&message, Some(&headers), &gw.telemetry).map(Box::new);
    match &body {
        ReceivedBody::Whole(body) => ctx.request_body = body.clone(),
        ReceivedBody::Segmented(_, digest) => ctx.streaming_digest = digest.clone(),
    }
    match detect_client_protocol(gw, SessionLookupScope::of(&ctx), &headers, &message, |generation| {
        ctx.supported_revisions(generation)
    })
    .await
    {
        Ok(client_protocol) => ctx.client_protocol = client_protocol,
        Err(ProtocolError { status, code, message: what, data }) => {
            let id = match &message {
                ClientMessage::Request(request) => Some(request.id()),
                ClientMessage::Notification(_) | ClientMessage::Response(_) => None,
            };
            responder.finish_with_status(status, error_response(id, code, &what, data.as_deref()).into()).await;
            // Clients probe this way for supported revisions; this is not recorded as a refusal.
            let is_probe = matches!(&message, ClientMessage::Request(request) if *request.method() == Method::Discover);
            return if is_probe { gw.record_probe(&ctx).await } else { gw.record_rejection(&ctx, code, &what).await };
        }
    }
    if let Some(session) = ctx.session() {
        responder.set_resumable_session(session);
    }
    match &message {
        ClientMessage::Request(request) => handle_request(gw, ctx, request, responder).await,
        ClientMessage::Notification(notification) if notification.method().is_absent_in(ctx.generation()) => {
            let recorder = CallRecorder::for_request(&ctx, gw.new_call_id(), gw.clock.now());
            unknown_method_reply::reply_method_not_found(
                gw,
                ctx.generation(),
                None,
                notification.method(),
                recorder,
                responder,
            )
            .await;
        }
        ClientMessage::Notification(_) | ClientMessage::Response(_) => {
            // Forwarded before the response, so that the client's next message cannot overtake it.
            Box::pin(policy_exempt_messages::forward_one_way(gw, &ctx, &message)).await;
            responder.accept();
        }
    }
}

async fn get(leg: &ClientLeg, mut ctx: RequestContext, headers: &HeaderMap) -> Response<ReplyBody> {
    let gw = &leg.services;
    if has_stateless_header(headers) {
        return http_response::method_not_allowed_response("POST", "the stateless protocol has no GET");
    }
    let recorder = gw.recorder_for_http_method(&ctx, "GET");
    if !accepts(headers, "text/event-stream") {
        return gw.reject_http(recorder, StatusCode::NOT_ACCEPTABLE, GET_MUST_ACCEPT_EVENTS.to_owned()).await;
    }
    // Without session and revision this is a client of the HTTP+SSE transport, which starts with its stream.
    if !headers.contains_key(http_headers::SESSION_ID) && !headers.contains_key(http_headers::PROTOCOL_VERSION) {
        if let Err(ProtocolError { code, message, .. }) = ctx.grant.check_stream_allowed() {
            gw.record_rejection(&ctx, code, &message).await;
            return http_response::method_not_allowed_response("POST", &message);
        }
        return sse_server::open_connection(leg, ctx).await;
    }
    let supported = || ctx.supported_revisions(ProtocolGeneration::Stateful);
    let found = require_session(gw, SessionLookupScope::of(&ctx), headers, supported).await;
    match found.and_then(|session| ctx.grant.check_session_revision(&session, supported).map(|()| session)) {
        Err(protocol_error) => gw.reject_http(recorder, protocol_error.status, protocol_error.message).await,
        Ok(session) => {
            ctx.client_protocol = ClientProtocol::Stateful(Some(session));
            let mut last = headers.get_all(http_headers::LAST_EVENT_ID).iter();
            match (last.next(), last.next()) {
                (None, _) => standalone_stream::open_stream(gw, ctx, None).await,
                (Some(last), None) => {
                    standalone_stream::resume_stream(gw, ctx, last.to_str().unwrap_or_default()).await
                }
                (Some(_), Some(_)) => {
                    gw.reject_http(recorder, StatusCode::BAD_REQUEST, DUPLICATE_LAST_EVENT_ID.to_owned()).await
                }
            }
        }
    }
}

async fn delete(gw: &Arc<GatewayServices>, mut ctx: RequestContext, headers: &HeaderMap) -> Response<ReplyBody> {
    if has_stateless_header(headers) {
        return http_response::method_not_allowed_response("POST", "the stateless protocol has no DELETE");
    }
    match require_session(gw, SessionLookupScope::of(&ctx), headers, || {
        ctx.supported_revisions(ProtocolGeneration::Stateful)
    })
    .await
    {
        Err(protocol_error) => {
            gw.reject_http(gw.recorder_for_http_method(&ctx, "DELETE"), protocol_error.status, protocol_error.message)
                .await
        }
        Ok(session) => {
            gw.sessions.end(&session);
            ctx.client_protocol = ClientProtocol::Stateful(Some(session));
            let task = Arc::clone(gw);
            gw.tasks.spawn(async move { initialize::end_session(&task, &ctx).await });
            http_response::empty_response(StatusCode::NO_CONTENT)
        }
    }
}

impl GatewayServices {
    /// Records that a client asked for an unsupported revision.
    async fn record_probe(&self, ctx: &RequestContext) {
        let mut recorder = CallRecorder::for_request(ctx, self.new_call_id(), self.clock.now());
        recorder.set_method(Method::Discover.name());
        self.write_row(recorder.outcome_row(CallOutcome::Error, None)).await;
    }

    /// Starts the record of an HTTP request that contains no message.
    pub(crate) fn recorder_for_http_method(&self, ctx: &RequestContext, verb: &str) -> CallRecorder {
        let mut recorder = CallRecorder::for_request(ctx, self.new_call_id(), self.clock.now());
        recorder.set_method(verb);
        recorder
    }

    /// Rejects a request because of its headers or its size, and records the rejection.
    pub(crate) async fn reject_http(
        &self,
        mut recorder: CallRecorder,
        status: StatusCode,
        what: String,
    ) -> Response<ReplyBody> {
        self.metrics.count_refusal("rejected");
        self.write_row(recorder.rejection_row(code::INVALID_REQUEST, &what)).await;
        http_response::http_error_response(status, &what)
    }
}
