//! Methods that do not exist in the client's protocol generation. They are reported as unknown, whatever their
//! parameters.

use gatelodge_mcp::{Method, ProtocolGeneration, RequestId, code, error_response, quote_excerpt};
use gatelodge_mutants::mutant;
use http::StatusCode;

use crate::call_recorder::CallRecorder;
use crate::responder::Responder;
use crate::services::GatewayServices;

/// Replies that the method is unknown. For stateful clients the status is 200, because 404 would mean that the session
/// has ended.
pub(crate) async fn reply_method_not_found(
    gw: &GatewayServices,
    generation: ProtocolGeneration,
    id: Option<&RequestId<'_>>,
    method: &Method<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    let status = if generation == ProtocolGeneration::Stateless || mutant!("unknown-method-ends-session") {
        StatusCode::NOT_FOUND
    } else {
        StatusCode::OK
    };
    let what = format!("unknown method {}", quote_excerpt(method.name()));
    let text = error_response(id, code::METHOD_NOT_FOUND, &what, None);
    responder.finish_with_status(status, text.into()).await;
    gw.metrics.count_refusal("rejected");
    recorder.set_method(method.name());
    gw.write_row(recorder.rejection_row(code::METHOD_NOT_FOUND, &what)).await;
}
