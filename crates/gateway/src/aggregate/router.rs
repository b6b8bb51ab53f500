//! Routes a message on the aggregate endpoint to the server that it names, to all servers, or to a local handler.

use std::sync::Arc;

use gatelodge_mcp::{ClientMessage, ClientRequest, MessageError, Method, ProtocolGeneration, read_client_message};
use gatelodge_store::CallOutcome;
use http::StatusCode;

use super::aggregate_server_sessions::{self, set_log_level};
use super::{AggregateRequest, fan_out, merged_list, merged_server_info, merged_subscription};
use crate::call_recorder::CallRecorder;
use crate::methods::dispatch::dispatch;
use crate::methods::{call_handler, unknown_method_reply};
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::{ClientProtocol, RequestContext, RequestSubject, parse_subject};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::wait_for_cancel;
use crate::upstream::UpstreamSendError;

/// Routes a request.
pub(crate) async fn route_request(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    responder: Responder,
) {
    let mut recorder = CallRecorder::for_client(aggregate.client(), gw.new_call_id(), gw.clock.now());
    recorder.set_request(request);
    if request.method().is_absent_in(aggregate.client_protocol.generation()) {
        return unknown_method_reply::reply_method_not_found(
            gw,
            aggregate.client_protocol.unknown_method_status(),
            Some(request.id()),
            request.method(),
            recorder,
            responder,
        )
        .await;
    }
    match (request.method(), &aggregate.client_protocol) {
        (Method::Initialize, _) => {
            merged_server_info::handle_initialize(gw, aggregate, request, recorder, responder).await
        }
        (Method::Discover, ClientProtocol::Stateless(_)) => {
            merged_server_info::handle_discover(gw, aggregate, request, recorder, responder).await
        }
        (Method::Ping, _) => reply_locally(gw, request, "{}", recorder, responder).await,
        (Method::SetLevel, _) => handle_set_level(gw, aggregate, request, recorder, responder).await,
        (Method::Listen, ClientProtocol::Stateless(_)) => {
            merged_subscription::handle_aggregate_listen(gw, aggregate, request, recorder, responder).await
        }
        (Method::ToolsList | Method::PromptsList | Method::ResourcesList | Method::ResourceTemplatesList, _)
        | (Method::TasksList, ClientProtocol::Stateful(_)) => {
            merged_list::handle_aggregate_list(gw, aggregate, request, recorder, responder).await
        }
        _ => match parse_server_subject(request, aggregate.client_protocol.generation()) {
            Ok(RequestSubject::Method { .. }) => {
                unknown_method_reply::reply_method_not_found(
                    gw,
                    aggregate.client_protocol.unknown_method_status(),
                    Some(request.id()),
                    request.method(),
                    recorder,
                    responder,
                )
                .await
            }
            Ok(subject) => route_to_server(gw, aggregate, request, &subject, recorder, responder).await,
            Err(error) => reject(gw, aggregate, recorder, responder, &error).await,
        },
    }
}

/// Routes a notification or response.
pub(crate) async fn route_one_way(gw: &GatewayServices, aggregate: &AggregateRequest, message: &ClientMessage<'_>) {
    aggregate_server_sessions::deliver_one_way(gw, aggregate, message).await;
}

/// Ends the client's sessions with all servers.
pub(crate) async fn end_session(gw: &GatewayServices, aggregate: &AggregateRequest) {
    aggregate_server_sessions::end_session(gw, aggregate).await;
}

/// Reads the subject of a request. If the request is about a task, the subject is that task.
fn parse_server_subject<'r>(
    request: &'r ClientRequest<'_>,
    generation: ProtocolGeneration,
) -> Result<RequestSubject<'r>, MessageError> {
    match (request.method(), generation) {
        (Method::TasksUpdate, ProtocolGeneration::Stateful) => {
            Ok(RequestSubject::Method { name: request.method().name() })
        }
        (Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate, _) => {
            Ok(RequestSubject::Task { id: request.task_id()?, tool: String::new() })
        }
        _ => parse_subject(request),
    }
}

/// Sends a request to the server that it names. If that is not one of the grant's servers, the target is reported as
/// not found.
async fn route_to_server(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    recorder: CallRecorder,
    mut responder: Responder,
) {
    let own = request.to_target_server();
    let found = own.as_ref().and_then(|(server, text)| Some((aggregate.find_context(server)?, text)));
    let Some((server_ctx, text)) = found else {
        return reply_not_found(gw, aggregate, request, subject, recorder, responder).await;
    };
    // Parsed again after the rewrite, so that the evaluated text is the text that is sent.
    let own = match read_client_message(text.as_bytes(), &gw.settings.request_limits) {
        Ok(ClientMessage::Request(own)) => own,
        Ok(_) => return reply_not_found(gw, aggregate, request, subject, recorder, responder).await,
        Err(error) => return reject(gw, aggregate, recorder, responder, &error).await,
    };
    responder.prefix_names_of(server_ctx.upstream.name(), own.method(), gw.settings.reply_limits);
    // The request can be cancelled even before there is a session at the server.
    if let Some(session) = aggregate.client_protocol.session() {
        responder.register_cancellable(session.cancellable_requests(), request.id(), None);
    }
    let cancel_signal = responder.cancel_signal();
    let session_ctx = tokio::select! {
        biased;
        () = wait_for_cancel(cancel_signal.as_deref()) => Err(Refusal::Upstream(UpstreamSendError::ClientGone)),
        session_ctx = aggregate.open_server_session(gw, server_ctx, &own) => session_ctx,
    };
    match session_ctx {
        Ok(session_ctx) => dispatch(gw, &session_ctx, &own, responder).await,
        Err(refusal) => {
            let client_ctx = RequestContext {
                client_protocol: aggregate.client_protocol.clone(),
                trace: aggregate.trace.clone(),
                ..server_ctx.clone()
            };
            match parse_server_subject(&own, aggregate.client_protocol.generation()) {
                Ok(subject) => {
                    call_handler::handle_unreachable(gw, &client_ctx, &own, &subject, refusal, responder).await
                }
                Err(error) => reject(gw, aggregate, recorder, responder, &error).await,
            }
        }
    }
}

async fn reply_not_found(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    subject: &RequestSubject<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    let target = match subject {
        RequestSubject::Task { id, .. } => Some(id.as_ref()),
        subject => subject.target(),
    };
    recorder.set_target(target.unwrap_or_default());
    responder.finish(reply::not_found_reply(&aggregate.client_protocol, subject, request.id()).into()).await;
    gw.record_refusal(&mut recorder, &Refusal::UnknownReference).await;
}

async fn reject(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    mut recorder: CallRecorder,
    responder: Responder,
    error: &MessageError,
) {
    responder.reject(error, aggregate.client_protocol.rejection_status(error)).await;
    gw.metrics.count_refusal("rejected");
    gw.write_row(recorder.rejection_row(error.code, &error.message)).await;
}

/// Responds with a result from the gateway itself, given as JSON.
pub(super) async fn reply_locally(
    gw: &GatewayServices,
    request: &ClientRequest<'_>,
    result: &str,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    responder.finish_with_status(StatusCode::OK, gatelodge_mcp::result_response(request.id(), result).into()).await;
    gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
}

/// Sends the client's log level to all servers, and stores it for sessions that are opened later.
async fn handle_set_level(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    let level = request.params().and_then(|params| params.get("level")?.as_str());
    let (Some(level), Some(session)) = (level, aggregate.client_protocol.session()) else {
        let (code, what) = (gatelodge_mcp::code::INVALID_PARAMS, "`params.level` must be a string");
        responder.finish(gatelodge_mcp::error_response(Some(request.id()), code, what, None).into()).await;
        return gw.write_row(recorder.rejection_row(code, what)).await;
    };
    gw.sessions.persist_log_level(session, &level).await;
    let level: Arc<str> = level.as_ref().into();
    fan_out::fan_out(gw, aggregate, |gw, server_ctx| {
        let (part, level) = (session.server_sessions.find(server_ctx.upstream.name()), Arc::clone(&level));
        async move {
            if let Some(part) = part {
                set_log_level(&gw, &server_ctx.with_session(Arc::clone(&part)), &part, &level).await;
            }
        }
    })
    .await;
    reply_locally(gw, request, "{}", recorder, responder).await;
}
