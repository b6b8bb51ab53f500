//! Probes once, when the first stateless client arrives, whether an upstream supports the stateless protocol.

use bytes::Bytes;
use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::{
    Method, ProtocolGeneration, RequestId, Revision, ServerMessage, code, has_task_capability, read_server_message,
};
use gatelodge_store::CallId;
use http::StatusCode;

use super::upstream_exchange::{await_own_response, is_id_of_call, result_text};
use crate::body::ReceivedBody;
use crate::request_context::{GATEWAY_META, ProtocolTranslation, RequestContext};
use crate::services::GatewayServices;
use crate::upstream::{Permit, StatelessHeaders, UpstreamRequest, UpstreamSendError};

/// Returns whether the upstream supports the stateless protocol.
pub(crate) async fn probe_is_stateless(gw: &GatewayServices, ctx: &RequestContext) -> Result<bool, UpstreamSendError> {
    if let Some(known) = ctx.upstream.supports_stateless() {
        return Ok(known);
    }
    let _one_at_a_time = ctx.upstream.probe_lock.lock().await;
    if let Some(known) = ctx.upstream.supports_stateless() {
        return Ok(known);
    }
    Ok(!matches!(probe(gw, ctx).await?, DiscoverResult::NotStateless))
}

/// Returns the upstream's information if it supports the stateless protocol. If that is not known yet, the same request
/// serves as the probe.
pub(crate) async fn fetch_server_info(
    gw: &GatewayServices,
    ctx: &RequestContext,
) -> Result<Option<Bytes>, UpstreamSendError> {
    let known = |result: DiscoverResult| match result {
        DiscoverResult::ServerInfo(server_info) => Some(server_info),
        DiscoverResult::Rejected | DiscoverResult::NotStateless => None,
    };
    if ctx.upstream.supports_stateless().is_none() {
        let _one_at_a_time = ctx.upstream.probe_lock.lock().await;
        if ctx.upstream.supports_stateless().is_none() {
            return probe(gw, ctx).await.map(known);
        }
    }
    match ctx.upstream.supports_stateless() {
        Some(false) => Ok(None),
        _ => request_discover(gw, ctx).await.map(known),
    }
}

/// Like [`fetch_server_info`], for a server that rejected a handshake. It may have been upgraded since it was probed, so
/// an earlier result that it is not stateless does not count.
pub(crate) async fn fetch_server_info_after_rejection(
    gw: &GatewayServices,
    ctx: &RequestContext,
) -> Result<Option<Bytes>, UpstreamSendError> {
    if ctx.upstream.supports_stateless() == Some(false) {
        ctx.upstream.forget_stateless_support();
    }
    fetch_server_info(gw, ctx).await
}

/// Probes the upstream and stores the result.
async fn probe(gw: &GatewayServices, ctx: &RequestContext) -> Result<DiscoverResult, UpstreamSendError> {
    let result = match request_discover(gw, ctx).await {
        // Typical responses of servers without the stateless protocol.
        Err(UpstreamSendError::Status(400 | 404 | 405)) => DiscoverResult::NotStateless,
        // A temporary failure is not stored; the next client probes again.
        Err(UpstreamSendError::Status(_) | UpstreamSendError::ConnectionLost(_)) => {
            return Ok(DiscoverResult::NotStateless);
        }
        // The server ignores unknown requests or is slow to start. This is stored, because probing again would delay
        // every client; it is reset if the server does not open a session either.
        Err(UpstreamSendError::HandshakeTimeout(_)) => DiscoverResult::NotStateless,
        Err(error) => return Err(error),
        Ok(result) => result,
    };
    let is_stateless = !matches!(result, DiscoverResult::NotStateless);
    ctx.upstream.set_supports_stateless(is_stateless);
    if !is_stateless {
        ctx.upstream.stop_shared_process();
    }
    Ok(result)
}

/// Probes again if a response shows that the upstream no longer understands the protocol in use, and ends a session that
/// depends on the old result. `message` is the response to `call`, if there is one.
pub(crate) async fn reprobe_after(
    gw: &GatewayServices,
    ctx: &RequestContext,
    status: StatusCode,
    message: Option<&ReceivedBody>,
    call: CallId,
) {
    if !matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
        return;
    }
    let depends_on_probe =
        ctx.generation() == ProtocolGeneration::Stateless || ctx.translation() != ProtocolTranslation::None;
    match ProtocolEvidence::of(message, call, &gw.settings.reply_limits) {
        ProtocolEvidence::UnsupportedRevision => Box::pin(reprobe(gw, ctx)).await,
        ProtocolEvidence::Inconclusive if depends_on_probe => Box::pin(reprobe(gw, ctx)).await,
        ProtocolEvidence::Inconclusive | ProtocolEvidence::RequestUnderstood => {}
    }
}

/// What a response shows about the protocol that the upstream understands.
enum ProtocolEvidence {
    /// The response contains the id of our request, so the server has read it.
    RequestUnderstood,
    /// The server has read the request and does not support its revision.
    UnsupportedRevision,
    Inconclusive,
}

impl ProtocolEvidence {
    fn of(message: Option<&ReceivedBody>, call: CallId, limits: &JsonLimits) -> Self {
        let Some(Ok(ServerMessage::Response(reply))) =
            message.map(|message| read_server_message(message.outline(), limits))
        else {
            return Self::Inconclusive;
        };
        if reply.id().is_none_or(|id| !is_id_of_call(id, call)) {
            return Self::Inconclusive;
        }
        let is_other = reply.error().is_some_and(|error| error.code == code::UNSUPPORTED_REVISION.to_string());
        if is_other { Self::UnsupportedRevision } else { Self::RequestUnderstood }
    }
}

async fn reprobe(gw: &GatewayServices, ctx: &RequestContext) {
    ctx.upstream.forget_stateless_support();
    let session = match (ctx.translation(), probe_is_stateless(gw, ctx).await) {
        (ProtocolTranslation::ToStateful | ProtocolTranslation::None, Ok(true)) => ctx.upstream_session(),
        (ProtocolTranslation::ToStateless, Ok(false)) => ctx.session(),
        _ => None,
    };
    if let Some(session) = session {
        gw.sessions.delete(session).await;
    }
}

/// Result of `server/discover`.
#[derive(Debug)]
pub(crate) enum DiscoverResult {
    /// The server's information.
    ServerInfo(Bytes),
    /// An error that only stateless servers send.
    Rejected,
    /// Not a response from a stateless server.
    NotStateless,
}

/// Sends `server/discover`. If the server rejects the gateway's revision but lists it as supported, the request is
/// repeated once.
pub(crate) async fn request_discover(
    gw: &GatewayServices,
    ctx: &RequestContext,
) -> Result<DiscoverResult, UpstreamSendError> {
    let timeout = gw.settings.connect_timeout * 2;
    let asking = tokio::time::timeout(timeout, request_discover_untimed(gw, ctx));
    asking.await.unwrap_or(Err(UpstreamSendError::HandshakeTimeout(timeout)))
}

async fn request_discover_untimed(
    gw: &GatewayServices,
    ctx: &RequestContext,
) -> Result<DiscoverResult, UpstreamSendError> {
    let (message, limits) = (send_discover(gw, ctx).await?, &gw.settings.reply_limits);
    match message.as_ref().and_then(|message| stateless_rejection(message, limits)) {
        Some(Some(supported)) if !supported.contains(&Revision::R2026_07_28) => {
            ctx.upstream.set_supported_revisions(supported);
            Ok(DiscoverResult::NotStateless)
        }
        Some(Some(_)) => Ok(parse_discover_result(ctx, send_discover(gw, ctx).await?, limits)),
        Some(None) => Ok(DiscoverResult::Rejected),
        None => Ok(parse_discover_result(ctx, message, limits)),
    }
}

async fn send_discover(gw: &GatewayServices, ctx: &RequestContext) -> Result<Option<Bytes>, UpstreamSendError> {
    let call = gw.new_call_id();
    let id = RequestId::string(call.as_str());
    let method = Method::Discover.name();
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{GATEWAY_META}}}}}"#);
    let mut outgoing = UpstreamRequest::request(text, call);
    outgoing.revision = Some(Revision::R2026_07_28);
    outgoing.stateless_headers = Some(StatelessHeaders { method: method.to_owned(), name: None });
    let permit = Permit::for_policy_exempt(method, outgoing)
        .ok_or_else(|| UpstreamSendError::NotSent("the method is subject to the policy".to_owned()))?;
    let mut exchange = gw.upstream_client.send(&ctx.upstream, permit).await?;
    if exchange.status.is_server_error() {
        return Err(UpstreamSendError::Status(exchange.status.as_u16()));
    }
    await_own_response(gw, &mut exchange, call).await
}

/// If the response is an error that exists only in the stateless protocol, returns the revisions that it lists
/// (possibly none); otherwise `None`.
fn stateless_rejection(message: &Bytes, limits: &JsonLimits) -> Option<Option<Vec<Revision>>> {
    let Ok(ServerMessage::Response(reply)) = read_server_message(message, limits) else { return None };
    let error = reply.error()?;
    match error.code.parse() {
        Ok(code::UNSUPPORTED_REVISION) => {
            let data = error.data.and_then(|data| read(data.as_bytes(), limits).ok());
            Some(data.and_then(|data| data.root().get("supported").map(|list| parse_revisions(Some(list)))))
        }
        Ok(code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY) => Some(None),
        _ => None,
    }
}

fn parse_discover_result(ctx: &RequestContext, message: Option<Bytes>, limits: &JsonLimits) -> DiscoverResult {
    let Some(message) = message else { return DiscoverResult::NotStateless };
    let Ok(Some(result)) = result_text(&message, limits) else {
        return if stateless_rejection(&message, limits).is_some() {
            DiscoverResult::Rejected
        } else {
            DiscoverResult::NotStateless
        };
    };
    let Ok(document) = read(&result, limits) else { return DiscoverResult::NotStateless };
    if str::from_utf8(&result).is_ok_and(|result| has_task_capability(result, ProtocolGeneration::Stateless)) {
        ctx.upstream.note_tasks();
    }
    let supported = parse_revisions(document.root().get("supportedVersions"));
    let is_stateless = supported.contains(&Revision::R2026_07_28);
    ctx.upstream.set_supported_revisions(supported);
    if is_stateless {
        DiscoverResult::ServerInfo(Bytes::copy_from_slice(&result))
    } else {
        DiscoverResult::NotStateless
    }
}

/// Returns the revisions from a JSON list, without those that the gateway does not know.
fn parse_revisions(list: Option<JsonValue<'_>>) -> Vec<Revision> {
    let list = list.filter(|list| list.kind() == JsonKind::Array);
    list.iter().flat_map(|list| list.elements()).filter_map(|own| own.as_str()?.parse().ok()).collect()
}
