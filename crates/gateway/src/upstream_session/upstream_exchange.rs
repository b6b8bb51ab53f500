//! Exchanges with a server on the gateway's own account: its own messages, and the responses to them.

use bytes::Bytes;
use gatelodge_json::{JsonLimits, read};
use gatelodge_mcp::{RequestId, ServerMessage, ServerResponsePayload, read_server_message};
use gatelodge_store::CallId;

use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::upstream::{Permit, UpstreamResponse, UpstreamSendError};

/// Waits for the response to one of the gateway's own requests and drops all messages that precede it.
pub(crate) async fn await_own_response(
    gw: &GatewayServices,
    exchange: &mut UpstreamResponse,
    call: CallId,
) -> Result<Option<Bytes>, UpstreamSendError> {
    while let Some(message) = exchange.next_message().await? {
        let is_stream = exchange.is_stream();
        match read_server_message(&message, &gw.settings.reply_limits) {
            Ok(ServerMessage::Response(reply)) if reply.id().is_none_or(|id| is_id_of_call(id, call)) => {
                return Ok(Some(message.clone()));
            }
            _ if is_stream => gw.metrics.count_dropped_message(),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Returns the result of a response after a complete syntax check, or `None` if the response is an error.
///
/// # Errors
/// The response cannot be read. It is not passed on, because its content could not be checked.
pub(crate) fn result_text(message: &Bytes, limits: &JsonLimits) -> Result<Option<Bytes>, UpstreamSendError> {
    let unreadable = || UpstreamSendError::InvalidResponse("the server's response cannot be read".to_owned());
    let Ok(ServerMessage::Response(reply)) = read_server_message(message, limits) else { return Err(unreadable()) };
    let ServerResponsePayload::Result(result) = reply.payload() else { return Ok(None) };
    read(result.as_bytes(), limits).map_err(|_| unreadable())?;
    Ok(Some(message.slice_ref(result.as_bytes())))
}

/// Returns whether an id is the one under which the gateway sent a call.
pub(crate) fn is_id_of_call(id: &RequestId<'_>, call: CallId) -> bool {
    id.as_str() == Some(call.as_str())
}

/// Sends a notification or response, and returns the HTTP status.
pub(crate) async fn send_one_way(
    gw: &GatewayServices,
    ctx: &RequestContext,
    permit: Permit,
) -> Result<u16, UpstreamSendError> {
    let sending = gw.upstream_client.send(&ctx.upstream, permit);
    let sent = tokio::time::timeout(gw.settings.connect_timeout * 2, sending).await;
    let mut exchange = sent.unwrap_or(Err(UpstreamSendError::Timeout))?;
    let status = exchange.status;
    // Reading the response to its end frees the connection.
    let _ = tokio::time::timeout(gw.settings.connect_timeout, exchange.next_message()).await;
    if status.is_success() { Ok(status.as_u16()) } else { Err(UpstreamSendError::Status(status.as_u16())) }
}
