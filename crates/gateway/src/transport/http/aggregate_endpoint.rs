//! The aggregate endpoint `/mcp`, which serves all servers of a grant. It follows the same HTTP rules as
//! `/mcp/<server>`.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::http_headers::{self, ProtocolError, accepts, check_post, has_stateless_header};
use gatelodge_mcp::{ClientMessage, Method, ProtocolGeneration, Revision, error_response, read_client_message};
use gatelodge_store::CallOutcome;
use http::header::HeaderMap;
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::mcp_endpoint::{DUPLICATE_LAST_EVENT_ID, GET_MUST_ACCEPT_EVENTS, InboundClientMessage, RequestEndpoint};
use super::request_body;
use super::request_task::run_request;
use crate::aggregate::{AggregateRequest, merged_stream, router};
use crate::client::protocol_detection::{SessionLookupScope, detect_client_protocol, require_session};
use crate::methods::unknown_method_reply;
use crate::pipeline::CallRecorder;
use crate::reply::{ReplyBody, http_response};
use crate::request_context::ClientProtocol;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::telemetry::RequestTrace;

/// Serves one HTTP request.
pub(crate) async fn serve(
    gw: &Arc<GatewayServices>,
    aggregate: AggregateRequest,
    head: Parts,
    incoming: Incoming,
) -> Response<ReplyBody> {
    match head.method {
        http::Method::POST => post(gw, aggregate, head.headers, incoming).await,
        http::Method::GET => get(gw, aggregate, &head.headers).await,
        http::Method::DELETE => delete(gw, aggregate, &head.headers).await,
        _ => http_response::method_not_allowed_response("POST, GET, DELETE", "this URL accepts POST, GET and DELETE"),
    }
}

async fn post(
    gw: &Arc<GatewayServices>,
    aggregate: AggregateRequest,
    headers: HeaderMap,
    incoming: Incoming,
) -> Response<ReplyBody> {
    let reject_request =
        |status, what: String| gw.reject_http(recorder_for_http_method(gw, &aggregate, "POST"), status, what);
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
    run_request(gw, InboundClientMessage { endpoint: RequestEndpoint::Aggregate(Box::new(aggregate)), headers, body })
        .await
}

pub(crate) async fn handle_message(
    gw: &Arc<GatewayServices>,
    mut aggregate: AggregateRequest,
    headers: HeaderMap,
    body: Bytes,
    mut responder: Responder,
) {
    let message = match read_client_message(&body, &gw.settings.request_limits) {
        Ok(message) => message,
        Err(cause) => {
            let generation = if has_stateless_header(&headers) {
                ProtocolGeneration::Stateless
            } else {
                ProtocolGeneration::Stateful
            };
            responder.reject(&cause, generation).await;
            return record_rejection(gw, &aggregate, cause.code, &cause.message).await;
        }
    };
    aggregate.trace = RequestTrace::of(&message, Some(&headers), &gw.telemetry).map(Box::new);
    let scope = SessionLookupScope { grant: &aggregate.grant, server: None };
    match detect_client_protocol(gw, scope, &headers, &message, |_| aggregate.grant.allowed_revisions(&Revision::ALL))
        .await
    {
        Ok(client_protocol) => aggregate.client_protocol = client_protocol,
        Err(ProtocolError { status, code, message: what, data }) => {
            let id = match &message {
                ClientMessage::Request(request) => Some(request.id()),
                ClientMessage::Notification(_) | ClientMessage::Response(_) => None,
            };
            responder.finish_with_status(status, error_response(id, code, &what, data.as_deref()).into()).await;
            // Clients probe this way for supported revisions; this is not recorded as a refusal.
            let is_probe = matches!(&message, ClientMessage::Request(request) if *request.method() == Method::Discover);
            return if is_probe {
                record_probe(gw, &aggregate).await
            } else {
                record_rejection(gw, &aggregate, code, &what).await
            };
        }
    }
    if let Some(session) = aggregate.client_protocol.session() {
        responder.set_resumable_session(session);
    }
    match &message {
        ClientMessage::Request(request) => router::route_request(gw, &aggregate, request, responder).await,
        ClientMessage::Notification(notification)
            if notification.method().is_absent_in(aggregate.client_protocol.generation()) =>
        {
            let recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
            unknown_method_reply::reply_method_not_found(
                gw,
                aggregate.client_protocol.generation(),
                None,
                notification.method(),
                recorder,
                responder,
            )
            .await;
        }
        ClientMessage::Notification(_) | ClientMessage::Response(_) => {
            // Delivered before the response, so that the client's next message cannot overtake it.
            router::route_one_way(gw, &aggregate, &message).await;
            responder.accept();
        }
    }
}

async fn get(gw: &Arc<GatewayServices>, mut aggregate: AggregateRequest, headers: &HeaderMap) -> Response<ReplyBody> {
    if has_stateless_header(headers) {
        return http_response::method_not_allowed_response("POST", "the stateless protocol has no GET");
    }
    let recorder = recorder_for_http_method(gw, &aggregate, "GET");
    if !accepts(headers, "text/event-stream") {
        return gw.reject_http(recorder, StatusCode::NOT_ACCEPTABLE, GET_MUST_ACCEPT_EVENTS.to_owned()).await;
    }
    if !headers.contains_key(http_headers::SESSION_ID) && !headers.contains_key(http_headers::PROTOCOL_VERSION) {
        let what = "the HTTP+SSE transport of 2024-11-05 is available at /mcp/<server> only; here, start with a POST of `initialize`";
        return http_response::method_not_allowed_response("POST, GET, DELETE", what);
    }
    let scope = SessionLookupScope { grant: &aggregate.grant, server: None };
    let supported = || aggregate.grant.allowed_revisions(&Revision::ALL);
    let found = require_session(gw, scope, headers, supported).await;
    let session = match found
        .and_then(|session| aggregate.grant.check_session_revision(&session, supported).map(|()| session))
    {
        Err(protocol_error) => return gw.reject_http(recorder, protocol_error.status, protocol_error.message).await,
        Ok(session) => session,
    };
    aggregate.client_protocol = ClientProtocol::Stateful(Some(session));
    let mut last = headers.get_all(http_headers::LAST_EVENT_ID).iter();
    match (last.next(), last.next()) {
        (None, _) => merged_stream::open_stream(gw, aggregate, None).await,
        (Some(last), None) => merged_stream::resume_stream(gw, aggregate, last.to_str().unwrap_or_default()).await,
        (Some(_), Some(_)) => {
            gw.reject_http(recorder, StatusCode::BAD_REQUEST, DUPLICATE_LAST_EVENT_ID.to_owned()).await
        }
    }
}

async fn delete(
    gw: &Arc<GatewayServices>,
    mut aggregate: AggregateRequest,
    headers: &HeaderMap,
) -> Response<ReplyBody> {
    if has_stateless_header(headers) {
        return http_response::method_not_allowed_response("POST", "the stateless protocol has no DELETE");
    }
    let scope = SessionLookupScope { grant: &aggregate.grant, server: None };
    let session = match require_session(gw, scope, headers, || aggregate.grant.allowed_revisions(&Revision::ALL)).await
    {
        Err(protocol_error) => {
            return gw
                .reject_http(
                    recorder_for_http_method(gw, &aggregate, "DELETE"),
                    protocol_error.status,
                    protocol_error.message,
                )
                .await;
        }
        Ok(session) => session,
    };
    gw.sessions.end(&session);
    aggregate.client_protocol = ClientProtocol::Stateful(Some(session));
    let task = Arc::clone(gw);
    gw.tasks.spawn(async move { router::end_session(&task, &aggregate).await });
    http_response::empty_response(StatusCode::NO_CONTENT)
}

/// Starts the record of an HTTP request that contains no message.
fn recorder_for_http_method(gw: &GatewayServices, aggregate: &AggregateRequest, verb: &str) -> CallRecorder {
    let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
    recorder.set_method(verb);
    recorder
}

/// Records that a client asked for an unsupported revision.
async fn record_probe(gw: &GatewayServices, aggregate: &AggregateRequest) {
    let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
    recorder.set_method(Method::Discover.name());
    gw.write_row(recorder.outcome_row(CallOutcome::Error, None)).await;
}

/// Records a rejected message. The message itself is not stored, because it could contain anything.
async fn record_rejection(gw: &GatewayServices, aggregate: &AggregateRequest, code: i64, message: &str) {
    gw.metrics.count_refusal("rejected");
    let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
    gw.write_row(recorder.rejection_row(code, message)).await;
}
