//! What the client's protocol decides: which methods it has, the status of a response, and how the client cancels.
//!
//! The steps of a call ask the questions here and do not know the protocol of the client.

use gatelodge_json::JsonLimits;
use gatelodge_mcp::http_headers::error_status;
use gatelodge_mcp::{
    ClientCapabilities, ListCaching, MessageError, Method, ProtocolGeneration, RequestId, ServerMessage, code,
    read_server_message, tool_error_result,
};
use gatelodge_mutants::mutant;
use gatelodge_store::CallId;
use http::StatusCode;

use super::translation::is_change;
use super::{ClientProtocol, RequestContext};
use crate::body::ReceivedBody;

impl ClientProtocol {
    /// Returns the HTTP status for an unknown method. For a stateful client, 404 would mean that the session has ended.
    pub fn unknown_method_status(&self) -> StatusCode {
        match self.generation() {
            ProtocolGeneration::Stateful if !mutant!("unknown-method-ends-session") => StatusCode::OK,
            ProtocolGeneration::Stateful | ProtocolGeneration::Stateless => StatusCode::NOT_FOUND,
        }
    }

    /// Returns the HTTP status of the reply to a rejected message.
    pub fn rejection_status(&self, error: &MessageError) -> StatusCode {
        error_status(error, self.generation())
    }

    /// Returns the error code for a resource that does not exist or is hidden.
    pub fn unknown_resource_code(&self) -> i64 {
        match self.generation() {
            ProtocolGeneration::Stateful => code::RESOURCE_NOT_FOUND,
            ProtocolGeneration::Stateless => code::INVALID_PARAMS,
        }
    }

    /// Returns whether there is an error for a request that needs a capability which the client has not declared.
    pub fn has_missing_capability_error(&self) -> bool {
        self.generation() == ProtocolGeneration::Stateless
    }

    /// Builds the result of a tool call that failed, with `meta` as its `_meta`.
    pub fn tool_error_result(&self, text: &str, meta: &str) -> String {
        tool_error_result(text, Some(meta), self.generation())
    }
}

impl RequestContext {
    /// Returns whether the client's protocol has a method.
    pub fn has_method(&self, method: &Method<'_>) -> bool {
        !method.is_absent_in(self.generation())
    }

    pub fn client_capabilities(&self) -> ClientCapabilities {
        match &self.client_protocol {
            ClientProtocol::Stateful(session) => {
                session.as_ref().map(|session| session.negotiated.client_capabilities).unwrap_or_default()
            }
            ClientProtocol::Stateless(stateless) => stateless.client_capabilities,
        }
    }

    /// Returns whether the client cancels by disconnecting. A stateful client may reconnect to fetch the result of a
    /// call, and cancels with a notification.
    pub fn cancels_by_disconnecting(&self) -> bool {
        self.generation() == ProtocolGeneration::Stateless
    }

    /// Returns whether the client's own cancellation reaches the server.
    pub fn forwards_cancellation(&self) -> bool {
        self.session().is_some() && !self.is_translated()
    }

    /// Returns whether the client reads input requests in results; a stateful client receives them as requests.
    pub fn reads_input_requests_in_results(&self) -> bool {
        self.generation() == ProtocolGeneration::Stateless
    }

    /// Returns whether a notification belongs in the response stream of the client's request. In the stateless
    /// protocol, change and task notifications need a subscription, and log messages a log level in the request.
    pub fn belongs_on_response_stream(&self, method: &Method<'_>) -> bool {
        let ClientProtocol::Stateless(stateless) = &self.client_protocol else { return true };
        let is_misplaced = match method {
            Method::TaskStatus | Method::TaskChanged | Method::SubscriptionsAcknowledged => true,
            Method::LogMessage => !stateless.wants_log_messages,
            method => is_change(method) && !mutant!("list-change-sent-on-call-stream"),
        };
        !is_misplaced || self.is_translated()
    }

    /// Returns what a list says about caching.
    pub fn list_caching(&self) -> ListCaching {
        match self.generation() {
            ProtocolGeneration::Stateful => ListCaching::Unspecified,
            ProtocolGeneration::Stateless => ListCaching::Private,
        }
    }

    /// Returns the HTTP status for a response of the server, whose own status was `upstream_status`. A stateless client
    /// uses it to tell its own errors from the server's, so the server's status is passed on.
    pub fn response_status(
        &self,
        message: &ReceivedBody,
        call: CallId,
        upstream_status: StatusCode,
        limits: &JsonLimits,
    ) -> StatusCode {
        match self.generation() {
            ProtocolGeneration::Stateful => StatusCode::OK,
            ProtocolGeneration::Stateless => stateless_response_status(message, call, upstream_status, limits),
        }
    }
}

fn stateless_response_status(
    message: &ReceivedBody,
    call: CallId,
    upstream_status: StatusCode,
    limits: &JsonLimits,
) -> StatusCode {
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
    fn stateless_clients_get_the_upstream_status_for_their_own_errors() {
        let call = CallId::new(jiff::Timestamp::UNIX_EPOCH, [7; 10]);
        let status = |id: &str, code: i64, upstream_status: u16| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"m"}}}}"#);
            let upstream_status = StatusCode::from_u16(upstream_status).expect("a status");
            stateless_response_status(&text.into(), call, upstream_status, &JsonLimits::REPLY).as_u16()
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
            assert_eq!(status(&own, code, upstream_status), want, "{code} with {upstream_status}");
        }
        assert_eq!(status("null", -32000, 400), 200, "the response has no id");
    }
}
