//! Rejects HTTP requests because of their headers or their size.

use gatelodge_mcp::code;
use http::{Response, StatusCode};

use crate::call_recorder::CallRecorder;
use crate::reply::{ReplyBody, http_response};
use crate::services::GatewayServices;

/// Rejects a request, and records the rejection under the HTTP method.
pub(crate) async fn reject_http(
    gw: &GatewayServices,
    mut recorder: CallRecorder,
    verb: &str,
    (status, what): (StatusCode, &str),
) -> Response<ReplyBody> {
    recorder.set_method(verb);
    gw.record_rejection(recorder, code::INVALID_REQUEST, what).await;
    http_response::http_error_response(status, what)
}
