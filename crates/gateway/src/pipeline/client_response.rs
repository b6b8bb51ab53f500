//! Turns the response of an upstream into the one that the client gets: under the client's id, in its protocol
//! generation, without secrets.

use bytes::Bytes;
use gatelodge_json::{JsonLimits, split_object_str};
use gatelodge_mcp::translate::with_members;
use gatelodge_mcp::{
    RequestId, ServerMessage, ServerResponse, ServerResponseOffsets, ServerResponsePayload, code,
    read_segmented_result, read_server_message,
};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use memchr::memmem;

use super::ForwardContext;
use crate::body::tool_result::{IS_ERROR_FINDER, is_tool_error};
use crate::body::{MessageBody, ReceivedBody};
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::upstream_session::own_request::is_id_of_call;

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

/// Returns the positions of the parts of a segmented response if it can be passed on unchanged; `None` otherwise.
pub(super) fn segmented_reply_spans(
    forward_ctx: &ForwardContext<'_>,
    message: &ReceivedBody,
) -> Option<ServerResponseOffsets> {
    let ReceivedBody::Segmented(segmented, _) = message else { return None };
    let ctx = forward_ctx.ctx;
    // A secret may span two segments, and a translated response is rewritten as a whole.
    let is_changed = ctx.translation() != ProtocolTranslation::None || !ctx.upstream.secret_redactor().is_empty();
    let (id, spans) = read_segmented_result(segmented, &forward_ctx.gw.settings.reply_limits)?;
    (!is_changed && forward_ctx.previous_response.is_none() && is_id_of_call(&id, forward_ctx.call)).then_some(spans)
}

fn contiguous_response_for_client(
    ctx: &RequestContext,
    message: &Bytes,
    spans: &ServerResponseOffsets,
    id: &RequestId<'_>,
) -> Option<(MessageBody, CallOutcome)> {
    let may_be_error = spans.without_longest_string(message).iter().any(|part| IS_ERROR_FINDER.find(part).is_some());
    let outcome = match spans.result() {
        None => CallOutcome::Error,
        Some(result) => {
            let is_error = may_be_error && is_tool_error(str::from_utf8(message.get(result)?).ok()?);
            if is_error { CallOutcome::ToolError } else { CallOutcome::Ok }
        }
    };
    let text = match ctx.translation() {
        ProtocolTranslation::ToStateful => {
            to_stateless_response(&ServerResponse::from_spans(message, spans)?, id).into()
        }
        ProtocolTranslation::ToStateless => {
            to_stateful_response(&ServerResponse::from_spans(message, spans)?, id).into()
        }
        ProtocolTranslation::None => {
            let (head, rest) = spans.with_id_prefix(message, id)?;
            MessageBody::from_head_and_tail(head, message.slice(rest..))
        }
    };
    // Redacting the two pieces separately is safe: a secret cannot span the id and the rest of the envelope.
    let redacted = |piece: Bytes| match piece.len() {
        1000.. if mutant!("long-answer-not-redacted") => piece,
        _ => ctx.upstream.secret_redactor().redact(piece),
    };
    Some((text.map_segments(redacted), outcome))
}

/// Turns the response of a stateful upstream into one for a stateless client.
fn to_stateless_response(reply: &ServerResponse<'_>, id: &RequestId<'_>) -> String {
    match reply.payload() {
        ServerResponsePayload::Result(result) if is_resource_read_result(result) => {
            let members = [RESULT_TYPE_COMPLETE, ("ttlMs", "0"), ("cacheScope", "\"private\"")];
            reply.with_payload(id, &with_members(result, &members))
        }
        ServerResponsePayload::Result(result) => reply.with_payload(id, &with_members(result, &[RESULT_TYPE_COMPLETE])),
        ServerResponsePayload::Error(_) => match reply.error() {
            // The stateless protocol uses another code for an unknown resource.
            Some(error) if error.code == code::RESOURCE_NOT_FOUND.to_string() => {
                reply.with_code(id, code::INVALID_PARAMS)
            }
            _ => reply.with_id(id),
        },
    }
}

/// Turns the response of a stateless upstream into one for a stateful client.
fn to_stateful_response(reply: &ServerResponse<'_>, id: &RequestId<'_>) -> String {
    match reply.payload() {
        ServerResponsePayload::Result(result) if let Some(plain) = without_result_type(result) => {
            reply.with_payload(id, &plain)
        }
        _ => reply.with_id(id),
    }
}

/// Removes `"resultType":"complete"`, which the stateful protocol does not have. Returns `None` if the result does not
/// contain it. Other values of `resultType` are kept, because they carry information.
pub(crate) fn without_result_type(result: &str) -> Option<String> {
    memmem::find(result.as_bytes(), b"resultType")?;
    let limits = JsonLimits { max_bytes: result.len(), ..JsonLimits::REPLY };
    let parts = split_object_str(result, &limits).ok()?;
    let own = parts.iter().find(|part| part.key == "resultType" && part.value == "\"complete\"")?;
    let (before, after) = (result.get(..own.start)?, result.get(own.start + own.value.len()..)?);
    let before = before.get(..before.rfind('"').and_then(|end| before.get(..end)?.rfind('"'))?)?;
    // Remove the comma after the member or, for the last member, the one in front of it.
    Some(match after.trim_start().strip_prefix(',') {
        Some(after) => format!("{before}{after}"),
        None => format!("{}{after}", before.trim_end().trim_end_matches(',')),
    })
}

/// Member that every complete result has in the stateless protocol.
pub(crate) const RESULT_TYPE_COMPLETE: (&str, &str) = ("resultType", "\"complete\"");

/// Returns whether a result comes from `resources/read`, which has caching members in the stateless protocol.
fn is_resource_read_result(result: &str) -> bool {
    let parts = split_object_str(result, &JsonLimits::REPLY).unwrap_or_default();
    parts.iter().any(|part| part.key == "contents")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_type_is_removed_and_nothing_else_changes() {
        for (result, plain) in [
            (r#"{"resultType":"complete"}"#, Some("{}")),
            (r#"{"resultType":"complete","a":1.10}"#, Some(r#"{"a":1.10}"#)),
            (r#"{ "a" : [1 ,2] , "resultType" : "complete" }"#, Some(r#"{ "a" : [1 ,2]  }"#)),
            (
                r#"{"a":{"resultType":"complete"},"resultType":"complete","b":2}"#,
                Some(r#"{"a":{"resultType":"complete"},"b":2}"#),
            ),
            (r#"{"a":{"resultType":"complete"}}"#, None),
            (r#"{"resultType":"vendor/odd"}"#, None),
            ("{}", None),
        ] {
            assert_eq!(without_result_type(result).as_deref(), plain, "{result}");
        }
    }
}
