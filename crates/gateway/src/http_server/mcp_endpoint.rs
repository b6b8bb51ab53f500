//! `/mcp/<server>`, and `/mcp` for all of them: from a request's head and body to the method that handles it. The same road for every revision.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::http_headers::{
    self, HeaderRejection, ProtocolError, accepts, check_post, check_stateless, param_headers, revision, says_stateless,
};
use gatelodge_mcp::{
    ClientCapabilities, ClientMessage, ClientRequest as Asked, Method, ProtocolGeneration, Revision, code,
    error_response,
};
use gatelodge_policy::is_always_allowed;
use gatelodge_store::{CallOutcome, ServerName};
use http::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::bearer_token::bearer_token_hash;
use super::http_bodies::{self, ReplyBody};
use super::listener::ClientConnection;
use super::request_runner::RequestRunnerSlot;
use super::responder::Responder;
use super::{aggregate_endpoint, reply, sse_server};
use crate::Gateway;
use crate::all::All;
use crate::body_buffer::ReceivedBody;
use crate::call::{Refusal, Trail, subject_of};
use crate::config_snapshot::ActiveGrant;
use crate::methods::{call, crossing, gone, initialize, list, listen, pass, pool, stream, tasks};
use crate::request_context::{ClientProtocol, RequestContext, StatelessClient};
use crate::request_trace::RequestTrace;
use crate::session::{ClientInfo, Session, wait_for_cancel};
use crate::upstream::SendError;

/// What is said to whoever asks for a stream and does not take one, or comes from two places.
pub(super) const GET_MUST_ACCEPT_EVENTS: &str = "a GET must accept `text/event-stream`";
pub(super) const DUPLICATE_LAST_EVENT_ID: &str = "the request has more than one `Last-Event-ID` header";

/// Answers one request.
pub(super) async fn serve(
    gw: &Arc<Gateway>,
    connection: &ClientConnection,
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    let (head, incoming) = request.into_parts();
    let desk = &connection.request_runner;
    let visit = match authenticate(gw, connection, &head) {
        Ok(RequestTarget::Server(visit)) => visit,
        Ok(RequestTarget::Aggregate(all)) => {
            return Box::pin(aggregate_endpoint::serve(gw, *all, head, incoming, desk)).await;
        }
        Err((status, what)) => return unauthorized(status, what),
    };
    match head.method {
        http::Method::POST => match sse_server::connection_id(&head.uri) {
            Some(connection) => Box::pin(sse_server::handle_post(gw, visit, connection, &head.headers, incoming)).await,
            None => post(gw, visit, head.headers, incoming, desk).await,
        },
        http::Method::GET => Box::pin(get(gw, visit, &head.headers)).await,
        http::Method::DELETE => Box::pin(delete(gw, visit, &head.headers)).await,
        _ => reply::method_not_allowed_response("POST, GET, DELETE", "this address takes POST, GET and DELETE"),
    }
}

/// For whom a request is.
pub(super) enum RequestTarget {
    Server(RequestContext),
    Aggregate(Box<All>),
}

/// Finds out who asks and for which server.
fn authenticate(gw: &Gateway, connection: &ClientConnection, head: &Parts) -> Result<RequestTarget, HeaderRejection> {
    let not_found = |what| Err((StatusCode::NOT_FOUND, what));
    let path = head.uri.path();
    let path = path.strip_suffix('/').unwrap_or(path);
    let Some(name) = path.strip_prefix("/mcp").filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return not_found("there is nothing here; servers are at /mcp/<server>, and together at /mcp");
    };
    let live = gw.config_snapshot();
    let address = Arc::clone(&connection.client_address);
    let token = bearer_token_hash(&head.headers, &head.uri, &connection.token_cache);
    let token = token.inspect_err(|_| gw.auth_failures.record_failure(&address))?;
    let is_in_force = |grant: &&Arc<ActiveGrant>| grant.config.expires.is_none_or(|end| end > gw.clock.now());
    let grant = live.find_grant(&token).filter(is_in_force);
    let Some(grant) = grant else {
        gw.auth_failures.record_failure(&address);
        return Err((StatusCode::UNAUTHORIZED, "the token is unknown, expired or revoked"));
    };
    let Some(name) = name.strip_prefix('/') else {
        return Ok(RequestTarget::Aggregate(Box::new(All::new(&live, grant, &address))));
    };
    let found = grant.config.servers.get(name).cloned().zip(live.find_server(name).cloned());
    // A server of another grant is not told from one that is not there.
    let Some((door, upstream)) = found else { return not_found("this grant has no server of that name") };
    let (grant, side, acceptances) = (Arc::clone(grant), ClientProtocol::Stateful(None), upstream.pins_epoch());
    Ok(RequestTarget::Server(RequestContext {
        grant,
        server_access: door,
        upstream,
        pins_epoch: acceptances,
        client_address: address,
        client_protocol: side,
        trace: None,
        request_body: Bytes::new(),
        streaming_digest: None,
    }))
}

fn unauthorized(status: StatusCode, what: &str) -> Response<ReplyBody> {
    let mut response = reply::http_error_response(status, what);
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

async fn post(
    gw: &Arc<Gateway>,
    visit: RequestContext,
    headers: HeaderMap,
    incoming: Incoming,
    desk: &RequestRunnerSlot<InboundMessage>,
) -> Response<ReplyBody> {
    let away = |status, what: String| gw.reject_http(gw.recorder_for_http_method(&visit, "POST"), status, what);
    if let Err((status, what)) = check_post(&headers) {
        return away(status, what.to_owned()).await;
    }
    let body =
        match http_bodies::read_request_body(incoming, gw.settings.request_limits.max_bytes, gw.settings.body_time)
            .await
        {
            Ok(body) => body,
            Err((status, what)) => return away(status, what).await,
        };
    desk.run_request(gw, InboundMessage { target: RequestTarget::Server(visit), headers, body }, run_message).await
}

/// A message that was read, and for whom it is.
pub(crate) struct InboundMessage {
    pub(super) target: RequestTarget,
    pub(super) headers: HeaderMap,
    pub(super) body: ReceivedBody,
}

/// Does what a message asks for.
pub(super) async fn run_message(
    gw: Arc<Gateway>,
    InboundMessage { target: to, headers, body }: InboundMessage,
    line: Responder,
) {
    match to {
        RequestTarget::Server(visit) => handle_message(&gw, visit, headers, body, line).await,
        RequestTarget::Aggregate(all) => {
            Box::pin(aggregate_endpoint::handle_message(&gw, *all, headers, body.into_bytes(), line)).await
        }
    }
}

async fn handle_message(
    gw: &Arc<Gateway>,
    mut visit: RequestContext,
    headers: HeaderMap,
    body: ReceivedBody,
    mut line: Responder,
) {
    let message = match body.read(&gw.settings.request_limits) {
        Ok(message) => message,
        Err(fault) => {
            let era =
                if says_stateless(&headers) { ProtocolGeneration::Stateless } else { ProtocolGeneration::Stateful };
            line.reject(&fault, era).await;
            return gw.record_rejection(&visit, fault.code, &fault.message).await;
        }
    };
    visit.trace = RequestTrace::of(&message, Some(&headers), &gw.telemetry).map(Box::new);
    match &body {
        ReceivedBody::Whole(body) => visit.request_body = body.clone(),
        ReceivedBody::Segmented(_, begun) => visit.streaming_digest = begun.clone(),
    }
    match detect_client_protocol(gw, SessionScope::of(&visit), &headers, &message, |era| visit.supported_revisions(era))
        .await
    {
        Ok(side) => visit.client_protocol = side,
        Err(ProtocolError { status, code, message: what, data }) => {
            let id = match &message {
                ClientMessage::Request(request) => Some(request.id()),
                ClientMessage::Notification(_) | ClientMessage::Response(_) => None,
            };
            line.finish_with_status(status, error_response(id, code, &what, data.as_deref()).into()).await;
            // Clients find out in this way which revision is spoken; nothing was refused that they wanted.
            let is_probe = matches!(&message, ClientMessage::Request(request) if *request.method() == Method::Discover);
            return if is_probe {
                gw.record_probe(&visit).await
            } else {
                gw.record_rejection(&visit, code, &what).await
            };
        }
    }
    if let Some(session) = visit.session() {
        line.set_resumable_session(session);
    }
    match &message {
        ClientMessage::Request(request) => handle_request(gw, visit, request, line).await,
        ClientMessage::Notification(said) if said.method().is_absent_in(visit.generation()) => {
            let trail = Trail::of_visit(&visit, gw.new_call_id(), gw.clock.now());
            gone::refuse(gw, visit.generation(), None, said.method(), trail, line).await;
        }
        ClientMessage::Notification(_) | ClientMessage::Response(_) => {
            // Sent on first: what the client says next must not overtake it.
            Box::pin(pass::one_way(gw, &visit, &message)).await;
            line.accept();
        }
    }
}

/// Answers a request, when its server is greeted where it wants a session of ours. Who cancels does not wait for that.
pub(crate) async fn handle_request(gw: &Gateway, mut visit: RequestContext, request: &Asked<'_>, line: Responder) {
    if let ClientProtocol::Stateless(side) = &visit.client_protocol {
        let told = line.cancel_signal();
        let joining = Box::pin(pool::joined(gw, &visit, request, side.clone()));
        let joined = tokio::select! {
            biased;
            () = wait_for_cancel(told.as_deref()) => Err(Refusal::Upstream(SendError::ClientGone)),
            joined = joining => joined,
        };
        match joined {
            Ok(side) => visit.client_protocol = ClientProtocol::Stateless(side),
            Err(refusal) => {
                return Box::pin(reply_handshake_failed(gw, &visit, request, refusal.at_handshake(), line)).await;
            }
        }
    }
    dispatch(gw, &visit, request, line).await;
}

/// Ends a request to a server that cannot be greeted.
async fn reply_handshake_failed(
    gw: &Gateway,
    visit: &RequestContext,
    request: &Asked<'_>,
    refusal: Refusal,
    line: Responder,
) {
    if is_policy_checked(request.method())
        && !is_task_method(request.method())
        && let Ok(facts) = subject_of(request)
    {
        return call::unreachable(gw, visit, request, &facts, refusal, line).await;
    }
    let mut trail = Trail::begin(visit, request, gw.new_call_id(), gw.clock.now());
    if matches!(refusal, Refusal::Upstream(SendError::ClientGone)) {
        line.hang_up();
        return gw.write(trail.left()).await;
    }
    line.finish_with_status(StatusCode::BAD_GATEWAY, reply::internal_error_reply(request.id(), trail.call(), &refusal))
        .await;
    gw.refuse(&mut trail, &refusal).await;
}

// A call goes its way here; the rest is in boxes, so that a call need not have its size.
pub(crate) async fn dispatch(gw: &Gateway, visit: &RequestContext, request: &Asked<'_>, mut line: Responder) {
    let at = gw.clock.now();
    let mut trail = Trail::begin(visit, request, gw.new_call_id_at(at), at);
    line.capture_reply(trail.answer());
    if let Some(session) = visit.session() {
        // Each page of a list is asked for under an id of its own.
        let call = Some(trail.call()).filter(|_| !is_list_method(request.method()));
        line.register_cancellable(session.cancellable_requests(), request.id(), call);
    }
    if request.method().is_absent_in(visit.generation()) {
        return Box::pin(gone::refuse(gw, visit.generation(), Some(request.id()), request.method(), trail, line)).await;
    }
    if is_task_method(request.method()) {
        return Box::pin(tasks::request(gw, visit, request, trail, line)).await;
    }
    if is_policy_checked(request.method()) {
        return match subject_of(request) {
            Ok(facts) => call::carry(gw, visit, request, &facts, trail, line).await,
            Err(fault) => {
                line.reject(&fault, visit.generation()).await;
                gw.record_rejection(visit, fault.code, &fault.message).await;
            }
        };
    }
    if let Err(refusal) = line.acquire_in_flight(visit, request.method()) {
        line.finish(reply::internal_error_reply(request.id(), trail.call(), &refusal)).await;
        return gw.refuse(&mut trail, &refusal).await;
    }
    let Some((trail, line)) = Box::pin(crossing::own_answer(gw, visit, request, trail, line)).await else { return };
    initialize::reopen_if_over(gw, visit).await;
    match request.method() {
        Method::Initialize => Box::pin(initialize::initialize(gw, visit, request, trail, line)).await,
        method if is_list_method(method) => Box::pin(list::list(gw, visit, request, trail, line)).await,
        Method::Listen => Box::pin(listen::listen(gw, visit, request, trail, line)).await,
        _ => Box::pin(pass::request(gw, visit, request, trail, line)).await,
    }
}

/// Whether the policy speaks of a method. Sending one of the others takes that it passes under every policy.
fn is_policy_checked(method: &Method<'_>) -> bool {
    !is_always_allowed(method.name())
}

fn is_list_method(method: &Method<'_>) -> bool {
    use Method::{PromptsList, ResourceTemplatesList, ResourcesList, TasksList, ToolsList};
    matches!(method, ToolsList | ResourcesList | ResourceTemplatesList | PromptsList | TasksList)
}

fn is_task_method(method: &Method<'_>) -> bool {
    use Method::{TasksCancel, TasksGet, TasksList, TasksResult, TasksUpdate};
    matches!(method, TasksGet | TasksResult | TasksList | TasksCancel | TasksUpdate)
}

/// Whose session is looked for: a grant's, at a server or at all.
#[derive(Clone, Copy)]
pub(super) struct SessionScope<'a> {
    pub grant: &'a ActiveGrant,
    pub server: Option<&'a ServerName>,
}

impl<'a> SessionScope<'a> {
    fn of(visit: &'a RequestContext) -> Self {
        Self { grant: &visit.grant, server: Some(visit.upstream.name()) }
    }
}

/// How the client speaks, by this request alone.
pub(super) async fn detect_client_protocol(
    gw: &Gateway,
    whose: SessionScope<'_>,
    headers: &HeaderMap,
    message: &ClientMessage<'_>,
    spoken: impl Fn(ProtocolGeneration) -> Vec<Revision>,
) -> Result<ClientProtocol, ProtocolError> {
    let is_modern = match message {
        ClientMessage::Request(request) => http_headers::is_stateless(headers, request),
        ClientMessage::Notification(_) | ClientMessage::Response(_) => says_stateless(headers),
    };
    if !is_modern {
        return detect_stateful_client(gw, whose, headers, message, || spoken(ProtocolGeneration::Stateful)).await;
    }
    let spoken = spoken(ProtocolGeneration::Stateless);
    let side = detect_stateless_client(headers, message, &spoken)?;
    whose.grant.check_revision(side.revision, || spoken)?;
    Ok(ClientProtocol::Stateless(Box::new(side)))
}

async fn detect_stateful_client(
    gw: &Gateway,
    whose: SessionScope<'_>,
    headers: &HeaderMap,
    message: &ClientMessage<'_>,
    spoken: impl Fn() -> Vec<Revision>,
) -> Result<ClientProtocol, ProtocolError> {
    if let ClientMessage::Request(request) = message
        && *request.method() == Method::Initialize
    {
        revision(headers, &spoken)?;
        // A session that comes with a handshake is an old one.
        return whose.grant.check_handshake_revision(request, spoken).map(|()| ClientProtocol::Stateful(None));
    }
    let session = require_session(gw, whose, headers, &spoken).await?;
    whose.grant.check_session_revision(&session, spoken)?;
    Ok(ClientProtocol::Stateful(Some(session)))
}

/// The session that the head of a request names, whatever the verb, if it speaks as was agreed.
pub(super) async fn require_session(
    gw: &Gateway,
    whose: SessionScope<'_>,
    headers: &HeaderMap,
    spoken: impl FnOnce() -> Vec<Revision>,
) -> Result<Arc<Session>, ProtocolError> {
    let version = revision(headers, spoken)?;
    let session = session_from_headers(gw, whose, headers).await?;
    // Gemini sends no version after the handshake; what was agreed counts.
    if version.is_some_and(|version| version != session.revision()) {
        let message = format!("the session speaks {}", session.revision());
        return Err(ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, &message));
    }
    Ok(session)
}

async fn session_from_headers(
    gw: &Gateway,
    whose: SessionScope<'_>,
    headers: &HeaderMap,
) -> Result<Arc<Session>, ProtocolError> {
    let mut values = headers.get_all(http_headers::SESSION_ID).iter();
    let (first, second) = (values.next(), values.next());
    let invalid = |what| ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, what);
    if second.is_some() {
        return Err(invalid("the request has more than one `Mcp-Session-Id` header"));
    }
    let id = first.ok_or_else(|| invalid("begin with `initialize`, and send the `Mcp-Session-Id` it gives"))?;
    let id = id.to_str().map_err(|_| invalid("the `Mcp-Session-Id` header is not plain text"))?;
    gw.find_session(id, whose.grant, whose.server).await?.ok_or_else(|| {
        ProtocolError::new(
            StatusCode::NOT_FOUND,
            code::INVALID_REQUEST,
            "the session is unknown or over; begin with `initialize`",
        )
    })
}

fn detect_stateless_client(
    headers: &HeaderMap,
    message: &ClientMessage<'_>,
    spoken: &[Revision],
) -> Result<StatelessClient, ProtocolError> {
    let ClientMessage::Request(request) = message else {
        return Ok(StatelessClient {
            revision: Revision::R2026_07_28,
            client: ClientInfo::default(),
            client_capabilities: ClientCapabilities::default(),
            wants_log_messages: false,
            param_headers: None,
            upstream_session: None,
            exclusive_session: None,
        });
    };
    let revision = check_stateless(headers, request, spoken)?;
    let params = match request.method() {
        Method::ToolsCall => Some(param_headers(headers)?),
        _ => None,
    };
    let (client, declared) =
        (ClientInfo::of(request.meta().client_info()), ClientCapabilities::of(request.meta().client_capabilities()));
    let wants_log = request.meta().log_level().is_some();
    Ok(StatelessClient {
        revision,
        client,
        client_capabilities: declared,
        wants_log_messages: wants_log,
        param_headers: params,
        upstream_session: None,
        exclusive_session: None,
    })
}

async fn get(gw: &Arc<Gateway>, mut visit: RequestContext, headers: &HeaderMap) -> Response<ReplyBody> {
    if says_stateless(headers) {
        return reply::method_not_allowed_response("POST", "the stateless revision has no GET");
    }
    let trail = gw.recorder_for_http_method(&visit, "GET");
    if !accepts(headers, "text/event-stream") {
        return gw.reject_http(trail, StatusCode::NOT_ACCEPTABLE, GET_MUST_ACCEPT_EVENTS.to_owned()).await;
    }
    // A client that names neither a session nor a revision has agreed on nothing yet: it begins with its stream.
    if !headers.contains_key(http_headers::SESSION_ID) && !headers.contains_key(http_headers::PROTOCOL_VERSION) {
        if let Err(ProtocolError { code, message, .. }) = visit.grant.check_stream_allowed() {
            gw.record_rejection(&visit, code, &message).await;
            return reply::method_not_allowed_response("POST", &message);
        }
        return sse_server::open_connection(gw, visit).await;
    }
    let spoken = || visit.supported_revisions(ProtocolGeneration::Stateful);
    let found = require_session(gw, SessionScope::of(&visit), headers, spoken).await;
    match found.and_then(|session| visit.grant.check_session_revision(&session, spoken).map(|()| session)) {
        Err(misfit) => gw.reject_http(trail, misfit.status, misfit.message).await,
        Ok(session) => {
            visit.client_protocol = ClientProtocol::Stateful(Some(session));
            let mut last = headers.get_all(http_headers::LAST_EVENT_ID).iter();
            match (last.next(), last.next()) {
                (None, _) => stream::open(gw, visit, None).await,
                (Some(last), None) => stream::resume(gw, visit, last.to_str().unwrap_or_default()).await,
                (Some(_), Some(_)) => {
                    gw.reject_http(trail, StatusCode::BAD_REQUEST, DUPLICATE_LAST_EVENT_ID.to_owned()).await
                }
            }
        }
    }
}

async fn delete(gw: &Arc<Gateway>, mut visit: RequestContext, headers: &HeaderMap) -> Response<ReplyBody> {
    if says_stateless(headers) {
        return reply::method_not_allowed_response("POST", "the stateless revision has no DELETE");
    }
    match require_session(gw, SessionScope::of(&visit), headers, || {
        visit.supported_revisions(ProtocolGeneration::Stateful)
    })
    .await
    {
        Err(misfit) => {
            gw.reject_http(gw.recorder_for_http_method(&visit, "DELETE"), misfit.status, misfit.message).await
        }
        Ok(session) => {
            gw.end_session(&session);
            visit.client_protocol = ClientProtocol::Stateful(Some(session));
            let task = Arc::clone(gw);
            gw.spawn(async move { initialize::end(&task, &visit).await });
            reply::empty_response(StatusCode::NO_CONTENT)
        }
    }
}

impl Gateway {
    /// Writes that a client asked for a revision that is not spoken.
    async fn record_probe(&self, visit: &RequestContext) {
        let mut trail = Trail::of_visit(visit, self.new_call_id(), self.clock.now());
        trail.method(Method::Discover.name());
        self.write(trail.outcome(CallOutcome::Error, None)).await;
    }

    /// The trail of what is said by a head alone.
    pub(super) fn recorder_for_http_method(&self, visit: &RequestContext, verb: &str) -> Trail {
        let mut trail = Trail::of_visit(visit, self.new_call_id(), self.clock.now());
        trail.method(verb);
        trail
    }

    /// Answers that a request is not taken, by its head or its size, and writes that down.
    pub(super) async fn reject_http(&self, mut trail: Trail, status: StatusCode, what: String) -> Response<ReplyBody> {
        self.metrics.count_refusal("rejected");
        self.write(trail.rejected(code::INVALID_REQUEST, &what)).await;
        reply::http_error_response(status, &what)
    }

    /// Writes that a message was not taken. The text of it is not kept: it may be anything.
    pub(crate) async fn record_rejection(&self, visit: &RequestContext, code: i64, message: &str) {
        self.metrics.count_refusal("rejected");
        let mut trail = Trail::of_visit(visit, self.new_call_id(), self.clock.now());
        self.write(trail.rejected(code, message)).await;
    }
}
