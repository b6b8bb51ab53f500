//! HTTP status of a response. A stateless client uses it to tell its own errors from the server's, so the upstream's
//! status is passed on.

use gatelodge_json::JsonLimits;
use gatelodge_mcp::{ProtocolGeneration, RequestId, ServerMessage, code, read_server_message};
use gatelodge_store::CallId;
use http::StatusCode;

use crate::body::ReceivedBody;

/// Returns the status for an upstream response; `upstream_status` is the upstream's own status.
pub(crate) fn response_status(
    generation: ProtocolGeneration,
    message: &ReceivedBody,
    call: CallId,
    upstream_status: StatusCode,
    limits: &JsonLimits,
) -> StatusCode {
    if generation == ProtocolGeneration::Stateful {
        return StatusCode::OK;
    }
    let Ok(ServerMessage::Response(reply)) = read_server_message(message.outline(), limits) else {
        return StatusCode::OK;
    };
    let Some(error) = reply.error() else { return StatusCode::OK };
    let is_own = reply.id().is_some_and(|id| *id == RequestId::string(call.as_str()));
    // Authentication between gateway and upstream does not concern the client.
    let is_about_credentials = matches!(
        upstream_status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED
    );
    match error.code.parse() {
        _ if upstream_status.is_client_error() && is_own && !is_about_credentials => upstream_status,
        Ok(code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Ok(code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_REVISION) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stateless_clients_get_the_upstream_status() {
        let call = CallId::new(jiff::Timestamp::UNIX_EPOCH, [7; 10]);
        let status = |generation, id: &str, code: i64, upstream_status: u16| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"m"}}}}"#);
            let upstream_status = StatusCode::from_u16(upstream_status).expect("a status");
            response_status(generation, &text.into(), call, upstream_status, &JsonLimits::REPLY).as_u16()
        };
        let own = format!("\"{call}\"");
        for (code, upstream_status, want) in [
            (-32601, 200, 404),
            (-32020, 200, 400),
            (-32021, 200, 400),
            (-32022, 200, 400),
            (-32602, 200, 200),
            (-32602, 400, 400),
            (-32000, 429, 429),
            (-32603, 500, 200),
            (-32000, 401, 200),
            (-32000, 403, 200),
        ] {
            assert_eq!(
                status(ProtocolGeneration::Stateless, &own, code, upstream_status),
                want,
                "{code} with {upstream_status}"
            );
            assert_eq!(
                status(ProtocolGeneration::Stateful, &own, code, upstream_status),
                200,
                "{code} with {upstream_status}"
            );
        }
        assert_eq!(status(ProtocolGeneration::Stateless, "null", -32000, 400), 200, "the response has no id");
    }
}
