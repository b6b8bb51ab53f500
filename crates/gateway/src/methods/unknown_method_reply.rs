//! Methods that do not exist in the client's protocol generation. They are reported as unknown, whatever their
//! parameters.

use gatelodge_mcp::{Method, RequestId, code, error_response, quote_excerpt};
use http::StatusCode;

use crate::call_recorder::CallRecorder;
use crate::responder::Responder;
use crate::services::GatewayServices;

/// Replies that the method is unknown, with the status that the client's protocol has for that.
pub(crate) async fn reply_method_not_found(
    gw: &GatewayServices,
    status: StatusCode,
    id: Option<&RequestId<'_>>,
    method: &Method<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    let what = format!("unknown method {}", quote_excerpt(method.name()));
    let text = error_response(id, code::METHOD_NOT_FOUND, &what, None);
    responder.finish_with_status(status, text.into()).await;
    gw.metrics.count_refusal("rejected");
    recorder.set_method(method.name());
    gw.write_row(recorder.rejection_row(code::METHOD_NOT_FOUND, &what)).await;
}
