//! What translation between a client and a server of different protocol generations changes in a call.
//!
//! The steps of a call ask the questions here and do not know which generation is on which side. `gatelodge_mcp` has the
//! rewriting of requests.

use gatelodge_json::{JsonLimits, JsonValue, read, split_object_str};
use gatelodge_mcp::translate::{to_json_string, with_members, without_members};
use gatelodge_mcp::{
    Method, RequestId, ServerMessage, ServerResponse, ServerResponsePayload, code, read_server_message,
};
use memchr::memmem;

use super::{ClientProtocol, RequestContext};
use crate::session::list_changed::SUBSCRIPTION_ID_KEY;

/// Translation between the client's and the upstream's protocol generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolTranslation {
    /// Client and upstream use the same generation.
    None,
    /// The client is stateless, the upstream stateful.
    ToStateful,
    /// The client is stateful, the upstream stateless.
    ToStateless,
}

impl RequestContext {
    pub fn translation(&self) -> ProtocolTranslation {
        match &self.client_protocol {
            ClientProtocol::Stateful(Some(session)) if session.negotiated.is_local() => {
                ProtocolTranslation::ToStateless
            }
            ClientProtocol::Stateless(stateless) if stateless.upstream_session.is_some() => {
                ProtocolTranslation::ToStateful
            }
            ClientProtocol::Stateful(_) | ClientProtocol::Stateless(_) => ProtocolTranslation::None,
        }
    }

    /// Returns whether messages are translated, so that they cannot be passed on byte by byte.
    pub fn is_translated(&self) -> bool {
        self.translation() != ProtocolTranslation::None
    }

    /// Returns whether tasks of the server are tasks for the client. They are not translated.
    pub fn can_use_tasks(&self) -> bool {
        !self.is_translated()
    }

    /// Returns whether all clients that listen to the server share the event stream of one session with it.
    pub fn shares_upstream_stream(&self) -> bool {
        self.translation() == ProtocolTranslation::ToStateful
    }

    /// Returns whether requests of the server are passed to the client in the response to its own request, which the
    /// client then repeats with the input.
    pub fn passes_server_requests_in_response(&self) -> bool {
        self.translation() == ProtocolTranslation::ToStateful
    }

    /// Returns whether the gateway asks the client for the input that a result of the server requires, and repeats the
    /// request with it.
    pub fn repeats_request_with_input(&self) -> bool {
        self.translation() == ProtocolTranslation::ToStateless
    }

    /// Returns whether the client sends its answers to input requests with its next request, which goes to the server as
    /// it is.
    pub fn forwards_input_responses(&self) -> bool {
        self.reads_input_requests_in_results() && !self.is_translated()
    }

    /// Returns whether somebody would act on input requests in a result: the client, or the gateway for it.
    pub fn uses_input_requests_in_results(&self) -> bool {
        self.reads_input_requests_in_results() || self.is_translated()
    }

    /// Returns whether a request of the server concerns the gateway's own session, not the client.
    pub fn is_own_ping(&self, method: &Method<'_>) -> bool {
        *method == Method::Ping && self.translation() == ProtocolTranslation::ToStateful
    }

    /// Returns whether the client's protocol has a counterpart of a notification.
    pub fn can_translate_notification(&self, method: &Method<'_>) -> bool {
        match self.translation() {
            ProtocolTranslation::None => true,
            // The second one acknowledges the gateway's own request.
            ProtocolTranslation::ToStateless => {
                !matches!(method, Method::TaskChanged | Method::SubscriptionsAcknowledged)
            }
            // No stateful server has the last two.
            ProtocolTranslation::ToStateful => !matches!(
                method,
                Method::ElicitationComplete
                    | Method::TaskStatus
                    | Method::TaskChanged
                    | Method::SubscriptionsAcknowledged
            ),
        }
    }

    /// Returns whether a notification goes to those who listen for changes rather than to the client of a call.
    pub fn is_for_listeners(&self, method: &Method<'_>) -> bool {
        self.translation() == ProtocolTranslation::ToStateful && is_change(method)
    }

    /// Translates a notification of the server.
    pub fn translate_notification(&self, text: String, limits: &JsonLimits) -> String {
        match self.translation() {
            ProtocolTranslation::ToStateless => without_subscription_id(&text, limits).unwrap_or(text),
            ProtocolTranslation::None | ProtocolTranslation::ToStateful => text,
        }
    }

    /// Translates a response of the server, and gives it the client's id. Returns `None` if it needs no translation.
    pub fn translate_response(&self, reply: &ServerResponse<'_>, id: &RequestId<'_>) -> Option<String> {
        match self.translation() {
            ProtocolTranslation::ToStateful => Some(to_stateless_response(reply, id)),
            ProtocolTranslation::ToStateless => Some(to_stateful_response(reply, id)),
            ProtocolTranslation::None => None,
        }
    }

    /// Translates a stateful server's error "URL elicitation required" to a result that asks a stateless client to open
    /// the URLs. Returns `None` for any other response, or if the client is stateful.
    pub fn translate_url_elicitations(&self, message: &[u8], limits: &JsonLimits) -> Option<String> {
        if !self.passes_server_requests_in_response() {
            return None;
        }
        let Ok(ServerMessage::Response(reply)) = read_server_message(message, limits) else { return None };
        let error = reply.error().filter(|error| error.code == code::URL_ELICITATION_REQUIRED.to_string())?;
        let document = read(error.data?.as_bytes(), limits).ok()?;
        let pages = document.root().get("elicitations")?;
        let pages: Vec<String> = pages
            .elements()
            .enumerate()
            .map(|(at, page)| {
                let params = without_members(page, &["elicitationId"]);
                format!(r#""page-{}":{{"method":"{}","params":{params}}}"#, at + 1, Method::Elicit.name())
            })
            .collect();
        let result = format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, pages.join(","));
        (!pages.is_empty()).then_some(result)
    }

    /// Translates a list result.
    pub fn translate_list(&self, list: String) -> String {
        match self.translation() {
            ProtocolTranslation::ToStateful => with_members(&list, &[RESULT_TYPE_COMPLETE]),
            ProtocolTranslation::ToStateless => without_result_type(&list).unwrap_or(list),
            ProtocolTranslation::None => list,
        }
    }
}

/// Translates the parameters of an input request for a stateful client, whose protocol gives a URL elicitation an id.
pub(crate) fn input_params_for_client(params: JsonValue<'_>, id: &str) -> String {
    let is_page = params.get("mode").is_some_and(|mode| mode.is_str("url"));
    if is_page {
        with_members(params.raw(), &[("elicitationId", &to_json_string(id))])
    } else {
        params.raw().to_owned()
    }
}

/// Returns whether a notification reports a change of a list or a resource.
pub(super) fn is_change(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged | Method::ResourceUpdated
    )
}

/// Removes the subscription id from a stateless server's message, because the listen request was the gateway's own.
fn without_subscription_id(text: &str, limits: &JsonLimits) -> Option<String> {
    let document = read(text.as_bytes(), limits).ok()?;
    let meta = document.root().get("params")?.get("_meta")?;
    meta.get(SUBSCRIPTION_ID_KEY)?;
    let (start, end) = meta.span();
    Some(format!("{}{}{}", text.get(..start)?, without_members(meta, &[SUBSCRIPTION_ID_KEY]), text.get(end..)?))
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
fn without_result_type(result: &str) -> Option<String> {
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
const RESULT_TYPE_COMPLETE: (&str, &str) = ("resultType", "\"complete\"");

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
