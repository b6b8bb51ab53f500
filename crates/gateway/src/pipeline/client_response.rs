//! Turns the response of an upstream into the one that the client gets: under the client's id, in its protocol
//! generation, without secrets.

use bytes::Bytes;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{
    RequestId, ServerMessage, ServerResponse, ServerResponseOffsets, read_segmented_result, read_server_message,
};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;

use super::ForwardContext;
use crate::body::json_word_finder::TASK_OR_INPUT_FINDER;
use crate::body::tool_result::{is_tool_error, may_be_tool_error};
use crate::body::{MessageBody, ReceivedBody};
use crate::request_context::RequestContext;
use crate::upstream_session::upstream_exchange::is_id_of_call;

/// Returns a response in the form that the client expects, and its outcome for the call log.
pub(crate) fn response_for_client(
    ctx: &RequestContext,
    message: &Bytes,
    id: &RequestId<'_>,
    limits: &JsonLimits,
) -> Option<(Bytes, CallOutcome)> {
    let Ok(ServerMessage::Response(reply)) = read_server_message(message, limits) else { return None };
    let (text, outcome) = contiguous_response_for_client(ctx, message, &reply.spans(), id)?;
    Some((text.into_bytes(), outcome))
}

/// Like [`response_for_client`], for a response that has already been parsed, so that a large one is not scanned again.
pub(crate) fn parsed_response_for_client(
    ctx: &RequestContext,
    message: &ReceivedBody,
    spans: &ServerResponseOffsets,
    id: &RequestId<'_>,
) -> Option<(MessageBody, CallOutcome)> {
    let segmented = match message {
        ReceivedBody::Whole(message) => return contiguous_response_for_client(ctx, message, spans, id),
        ReceivedBody::Segmented(segmented, _) => segmented,
    };
    let (before, after) = spans.with_id_segmented(segmented, id)?;
    let outcome = if is_tool_error(segmented.outer_span_text(spans.result()?)?) {
        CallOutcome::ToolError
    } else {
        CallOutcome::Ok
    };
    Some((MessageBody::from_segments(before, segmented.parts().1, after), outcome))
}

/// Returns whether a response may create a task or ask for input. Most responses do neither, and need no second look.
pub(crate) fn can_hold_task_or_input(message: &ReceivedBody, spans: &ServerResponseOffsets) -> bool {
    match message {
        ReceivedBody::Whole(text) => {
            spans.without_longest_string(text).iter().any(|part| TASK_OR_INPUT_FINDER.can_occur_in(part))
        }
        ReceivedBody::Segmented(..) => TASK_OR_INPUT_FINDER.can_occur_in(message.outline()),
    }
}

/// Returns the positions of the parts of a segmented response if it can be passed on unchanged; `None` otherwise.
pub(super) fn segmented_reply_spans(
    forward_ctx: &ForwardContext<'_>,
    message: &ReceivedBody,
) -> Option<ServerResponseOffsets> {
    let ReceivedBody::Segmented(segmented, _) = message else { return None };
    let ctx = forward_ctx.ctx;
    // A secret may span two segments, and a translated response is rewritten as a whole.
    let is_changed = ctx.is_translated() || !ctx.upstream.secret_redactor().is_empty();
    let (id, spans) = read_segmented_result(segmented, &forward_ctx.gw.settings.reply_limits)?;
    (!is_changed && forward_ctx.previous_response.is_none() && is_id_of_call(&id, forward_ctx.call)).then_some(spans)
}

fn contiguous_response_for_client(
    ctx: &RequestContext,
    message: &Bytes,
    spans: &ServerResponseOffsets,
    id: &RequestId<'_>,
) -> Option<(MessageBody, CallOutcome)> {
    let may_be_error = spans.without_longest_string(message).iter().any(|part| may_be_tool_error(part));
    let outcome = match spans.result() {
        None => CallOutcome::Error,
        Some(result) => {
            let is_error = may_be_error && is_tool_error(str::from_utf8(message.get(result)?).ok()?);
            if is_error { CallOutcome::ToolError } else { CallOutcome::Ok }
        }
    };
    let text = if ctx.is_translated() {
        ctx.translate_response(&ServerResponse::from_spans(message, spans)?, id)?.into()
    } else {
        let (head, rest) = spans.with_id_prefix(message, id)?;
        MessageBody::from_head_and_tail(head, message.slice(rest..))
    };
    // Redacting the two pieces separately is safe: a secret cannot span the id and the rest of the envelope.
    let redacted = |piece: Bytes| match piece.len() {
        1000.. if mutant!("long-answer-not-redacted") => piece,
        _ => ctx.upstream.secret_redactor().redact(piece),
    };
    Some((text.map_segments(redacted), outcome))
}
