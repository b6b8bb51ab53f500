//! Replies to clients: refusals in the form that each kind of request needs.

pub(crate) mod http_response;
mod reply_body;

use bytes::Bytes;
use gatelodge_json::quote_into;
use gatelodge_mcp::{MessageError, RequestId, code, error_response, quote_excerpt, result_response};
use gatelodge_store::CallId;
use http::StatusCode;

use crate::active_policy::ActivePolicy;
use crate::refusal::Refusal;
use crate::request_context::{ClientProtocol, RequestContext, RequestSubject};
use crate::upstream::UpstreamSendError;

pub(crate) use self::reply_body::ReplyBody;

/// Builds the reply to a message that cannot be parsed.
pub(crate) fn wire_error_reply(cause: &MessageError) -> String {
    error_response(cause.id.as_ref(), cause.code, &cause.message, None)
}

/// Builds the reply to a failed request that is not subject to the policy.
pub(crate) fn internal_error_reply(id: &RequestId<'_>, call: CallId, refusal: &Refusal) -> Bytes {
    if let Refusal::Protocol(protocol_error) = refusal {
        return error_response(Some(id), protocol_error.code, &protocol_error.message, protocol_error.data.as_deref())
            .into();
    }
    error_response(Some(id), code::INTERNAL_ERROR, &refusal.client_text(call.as_str()), None).into()
}

/// Builds the reply to a refused request. `client_subject` is its subject under the name that the client uses.
pub(crate) fn refusal_reply(
    ctx: &RequestContext,
    subject: &RequestSubject<'_>,
    client_subject: &RequestSubject<'_>,
    (id, call): (&RequestId<'_>, CallId),
    refusal: &Refusal,
) -> (StatusCode, String) {
    let protocol = &ctx.client_protocol;
    let policy = ctx.server_access.policy.as_deref();
    let meta = || refusal_details(refusal, call, policy);
    let refused = |message: &str| error_response(Some(id), code::REFUSED_BY_POLICY, message, Some(&meta()));
    if let Refusal::Protocol(protocol_error) = refusal {
        return (
            protocol_error.status,
            error_response(Some(id), protocol_error.code, &protocol_error.message, protocol_error.data.as_deref()),
        );
    }
    if let Refusal::Upstream(UpstreamSendError::MissingCapability { required_capability: required, .. }) = refusal
        && protocol.has_missing_capability_error()
    {
        let data = format!(r#"{{"requiredCapabilities":{required}}}"#);
        let text =
            error_response(Some(id), code::MISSING_CLIENT_CAPABILITY, &refusal.client_text(call.as_str()), Some(&data));
        return (StatusCode::BAD_REQUEST, text);
    }
    let text = match subject {
        RequestSubject::Tool { .. } | RequestSubject::Task { .. } if refusal.is_invisible() => {
            not_found_reply(protocol, client_subject, id)
        }
        RequestSubject::Tool { .. } => {
            let meta = format!("{{\"gatelodge/refusal\":{}}}", meta());
            result_response(id, &protocol.tool_error_result(&refusal.client_text(call.as_str()), &meta))
        }
        RequestSubject::Resource { uri }
            if !is_listed_by_policy(policy, |policy| policy.policy.is_resource_visible(uri)) =>
        {
            not_found_reply(protocol, client_subject, id)
        }
        RequestSubject::Prompt { name, .. }
            if !is_listed_by_policy(policy, |policy| policy.policy.is_prompt_visible(name)) =>
        {
            not_found_reply(protocol, client_subject, id)
        }
        RequestSubject::Completion { .. } if refusal.is_invisible() => not_found_reply(protocol, client_subject, id),
        RequestSubject::Method { .. } if matches!(refusal, Refusal::Denied(_)) => {
            return (protocol.unknown_method_status(), not_found_reply(protocol, client_subject, id));
        }
        RequestSubject::Task { .. }
        | RequestSubject::Resource { .. }
        | RequestSubject::Prompt { .. }
        | RequestSubject::Completion { .. }
        | RequestSubject::Method { .. } => refused(&refusal.client_text(call.as_str())),
    };
    (StatusCode::OK, text)
}

/// Builds the reply to a request whose target does not exist or is hidden from this client. The reply uses the name
/// that the client used.
pub(crate) fn not_found_reply(protocol: &ClientProtocol, subject: &RequestSubject<'_>, id: &RequestId<'_>) -> String {
    let (code, what) = match subject {
        RequestSubject::Tool { name, .. } => (code::INVALID_PARAMS, unknown_tool_message(name)),
        RequestSubject::Task { id: task, .. } => return unknown_task_reply(id, task),
        RequestSubject::Resource { uri } => {
            (protocol.unknown_resource_code(), format!("Resource not found: {}", quote_excerpt(uri)))
        }
        RequestSubject::Prompt { name, .. } => {
            (code::INVALID_PARAMS, format!("Unknown prompt: {}", quote_excerpt(name)))
        }
        RequestSubject::Completion { .. } => {
            (code::INVALID_PARAMS, "the completion refers to an unknown prompt or resource".to_owned())
        }
        RequestSubject::Method { name } => (code::METHOD_NOT_FOUND, format!("unknown method {}", quote_excerpt(name))),
    };
    error_response(Some(id), code, &what, None)
}

/// Returns the message for an unknown tool. It does not reveal whether the policy hides the tool, or the server does
/// not list it.
fn unknown_tool_message(name: &str) -> String {
    format!("Unknown tool: {name} (not available to this grant)")
}

/// Builds the reply for an unknown task. It does not reveal whether the task does not exist, belongs to another grant,
/// or was created by a hidden tool.
pub(crate) fn unknown_task_reply(id: &RequestId<'_>, task: &str) -> String {
    error_response(Some(id), code::INVALID_PARAMS, &format!("Unknown task: {}", quote_excerpt(task)), None)
}

fn is_listed_by_policy(policy: Option<&ActivePolicy>, lists: impl Fn(&ActivePolicy) -> bool) -> bool {
    policy.is_some_and(lists)
}

/// Returns the machine-readable details of a refusal, as JSON.
fn refusal_details(refusal: &Refusal, call: CallId, policy: Option<&ActivePolicy>) -> String {
    let mut out = format!("{{\"code\":\"{}\",\"call\":\"{call}\"", refusal.code());
    let mut push_member = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            out.push_str(",\"");
            out.push_str(name);
            out.push_str("\":");
            quote_into(value, &mut out);
        }
    };
    push_member("rule", refusal.rule());
    push_member("counter", refusal.counter());
    push_member("policy", policy.map(|policy| policy.name.as_str()));
    if let Some(policy) = policy {
        out.push_str(&format!(",\"policy_version\":{}", policy.version));
    }
    if let Some(seconds) = refusal.retry_after_seconds() {
        out.push_str(&format!(",\"retry_after_seconds\":{seconds}"));
    }
    out.push('}');
    out
}
