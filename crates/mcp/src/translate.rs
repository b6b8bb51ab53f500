//! Translates messages between the stateful and the stateless protocol. Members that exist in both pass unchanged.

mod server_info;

use gatelodge_json::{JsonDocument, JsonKind, JsonLimits, JsonValue, quote_into, read, split_object};

use crate::created_task::TASKS_EXTENSION;
use crate::request_meta::{CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, PROTOCOL_VERSION_KEY};
use crate::revision::Revision;

pub use self::server_info::{to_discover_result, to_initialize_result};

/// `_meta` members that a stateless client sends with every request. A stateful client sends this information only once
/// per session.
const CLIENT_META_KEYS: [&str; 4] = [PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY];
/// Members that a stateless client adds when it repeats a request.
const RETRY_MEMBERS: [&str; 2] = ["inputResponses", "requestState"];

/// Information about the client that every stateless request carries, taken from a stateful client's handshake. All
/// values are JSON.
#[derive(Debug, Clone, Copy)]
pub struct ClientMeta<'a> {
    /// The client's capabilities.
    pub capabilities: &'a str,
    /// The client's name and version.
    pub info: Option<&'a str>,
    /// The minimum severity of log messages sent to the client.
    pub log_level: Option<&'a str>,
}

/// Members that are added to a request when it is repeated with the client's input. All values are JSON.
#[derive(Debug, Clone, Copy)]
pub struct ClientInputResponses<'a> {
    /// Responses to the server's input requests.
    pub input_responses: &'a str,
    /// State that the server asked the client to send back.
    pub request_state: Option<&'a str>,
}

/// Translates a stateless request to the stateful protocol. `None` if `text` is not a request.
///
/// ```
/// use gatelodge_mcp::translate::to_stateful;
///
/// let stateless = r#"{"id":1,"method":"tools/call","params":{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
/// let stateful = r#"{"id":1,"method":"tools/call","params":{"name":"add"}}"#;
/// assert_eq!(to_stateful(stateless).as_deref(), Some(stateful));
/// ```
pub fn to_stateful(text: &str) -> Option<String> {
    let document = read_request(text)?;
    let Some(params) = document.root().get("params") else { return Some(text.to_owned()) };
    let mut members = Vec::new();
    for (key, value) in params.members() {
        if RETRY_MEMBERS.iter().any(|own| key.is_str(own)) {
            continue;
        }
        if key.is_str("_meta") {
            let kept: Vec<String> = value
                .members()
                .filter(|(key, _)| !CLIENT_META_KEYS.iter().any(|own| key.is_str(own)))
                .map(|(key, value)| format!("{}:{}", key.raw(), value.raw()))
                .collect();
            // A stateful client would not send an empty `_meta`.
            if !kept.is_empty() {
                members.push(format!("{}:{{{}}}", key.raw(), kept.join(",")));
            }
            continue;
        }
        members.push(format!("{}:{}", key.raw(), value.raw()));
    }
    Some(replace_params(text, &document, &format!("{{{}}}", members.join(","))))
}

/// Translates a stateful request to the stateless protocol. `None` if `text` is not a request.
///
/// ```
/// use gatelodge_mcp::translate::{ClientMeta, to_stateless};
///
/// let client = ClientMeta { capabilities: "{}", info: None, log_level: None };
/// let stateless = to_stateless(r#"{"id":1,"method":"tools/list"}"#, &client, None).expect("a request");
/// assert!(stateless.contains(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#));
/// assert!(stateless.contains(r#""io.modelcontextprotocol/clientCapabilities":{}"#));
/// ```
pub fn to_stateless(text: &str, client: &ClientMeta<'_>, retry: Option<&ClientInputResponses<'_>>) -> Option<String> {
    let document = read_request(text)?;
    let params = document.root().get("params");
    let meta = params.and_then(|params| params.get("_meta"));
    let mut members: Vec<String> = params
        .iter()
        .flat_map(|params| params.members())
        .filter(|(key, _)| !key.is_str("_meta") && !RETRY_MEMBERS.iter().any(|own| key.is_str(own)))
        .map(|(key, value)| format!("{}:{}", key.raw(), value.raw()))
        .collect();
    let mut kept: Vec<String> = meta
        .iter()
        .flat_map(|meta| meta.members())
        .filter(|(key, _)| !CLIENT_META_KEYS.iter().any(|own| key.is_str(own)))
        .map(|(key, value)| format!("{}:{}", key.raw(), value.raw()))
        .collect();
    kept.push(format!("\"{PROTOCOL_VERSION_KEY}\":\"{}\"", Revision::R2026_07_28));
    kept.push(format!("\"{CLIENT_CAPABILITIES_KEY}\":{}", client.capabilities));
    kept.extend(client.info.map(|info| format!("\"{CLIENT_INFO_KEY}\":{info}")));
    kept.extend(client.log_level.map(|level| format!("\"{LOG_LEVEL_KEY}\":{level}")));
    members.push(format!("\"_meta\":{{{}}}", kept.join(",")));
    if let Some(retry) = retry {
        members.push(format!("\"inputResponses\":{}", retry.input_responses));
        members.extend(retry.request_state.map(|state| format!("\"requestState\":{state}")));
    }
    Some(replace_params(text, &document, &format!("{{{}}}", members.join(","))))
}

/// Adds members to a result, except those that the result already has. The values of the members are JSON. A result
/// that is not an object stays unchanged.
///
/// ```
/// use gatelodge_mcp::translate::with_members;
///
/// assert_eq!(with_members(r#"{"a":1}"#, &[("ttlMs", "0"), ("a", "2")]), r#"{"ttlMs":0,"a":1}"#);
/// ```
pub fn with_members(result: &str, members: &[(&str, &str)]) -> String {
    let Ok(parts) = split_object(result.as_bytes(), &JsonLimits { max_bytes: result.len(), ..JsonLimits::REPLY })
    else {
        return result.to_owned();
    };
    let missing = members.iter().filter(|(name, _)| !parts.iter().any(|part| part.key == *name));
    let missing: Vec<String> = missing.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let Some(inside) = result.find('{').map(|at| at + 1).filter(|_| !missing.is_empty()) else {
        return result.to_owned();
    };
    let comma = if parts.is_empty() { "" } else { "," };
    format!("{{{}{comma}{}", missing.join(","), result.get(inside..).unwrap_or_default())
}

/// Returns an object without the named members.
pub fn without_members(object: JsonValue<'_>, names: &[&str]) -> String {
    let kept = object.members().filter(|(key, _)| !names.iter().any(|name| key.is_str(name)));
    let kept: Vec<String> = kept.map(|(key, value)| format!("{}:{}", key.raw(), value.raw())).collect();
    format!("{{{}}}", kept.join(","))
}

/// The capabilities that clients and servers of different protocol generations can share: all except tasks, which the
/// two generations define differently.
pub fn shared_capabilities(capabilities: JsonValue<'_>) -> String {
    let has_extension = capabilities.get("extensions").is_some_and(|own| own.get(TASKS_EXTENSION).is_some());
    if !has_extension && capabilities.get("tasks").is_none() {
        return capabilities.raw().to_owned();
    }
    let own = capabilities.members().filter(|(key, _)| !key.is_str("tasks"));
    let shared = own.filter_map(|(key, value)| {
        if !key.is_str("extensions") || value.get(TASKS_EXTENSION).is_none() {
            return Some(format!("{}:{}", key.raw(), value.raw()));
        }
        let others = without_members(value, &[TASKS_EXTENSION]);
        (others != "{}").then(|| format!("{}:{others}", key.raw()))
    });
    format!("{{{}}}", shared.collect::<Vec<_>>().join(","))
}

/// Returns `text` as a JSON string, quoted and escaped.
pub fn to_json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(text, &mut out);
    out
}

/// Parses a request again. INVARIANT: it has been parsed before, so it cannot exceed any of the usual limits except the
/// one on size.
fn read_request(text: &str) -> Option<JsonDocument<'_>> {
    let limits = JsonLimits { max_bytes: text.len(), ..JsonLimits::REQUEST };
    read(text.as_bytes(), &limits).ok().filter(|document| document.root().kind() == JsonKind::Object)
}

fn replace_params(text: &str, document: &JsonDocument<'_>, params: &str) -> String {
    let (start, end, member) = match document.root().get("params") {
        Some(old) => (old.span().0, old.span().1, ""),
        None => {
            let end = document.root().span().1 - 1;
            (end, end, ",\"params\":")
        }
    };
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    format!("{}{member}{params}{}", part(0, start), part(end, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT_META: ClientMeta<'_> =
        ClientMeta { capabilities: r#"{"roots":{}}"#, info: Some(r#"{"name":"c"}"#), log_level: None };

    #[test]
    fn tasks_of_either_generation_are_removed_from_shared_capabilities() {
        for (own, shared) in [
            ("{}", "{}"),
            (r#"{"tasks":{"list":{}},"tools":{"n":1.0}}"#, r#"{"tools":{"n":1.0}}"#),
            (r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"roots":{}}"#, r#"{"roots":{}}"#),
            (r#"{"extensions":{"a/b":{ },"io.modelcontextprotocol/t\u0061sks":{}}}"#, r#"{"extensions":{"a/b":{ }}}"#),
            (r#"{"extensions":{ }}"#, r#"{"extensions":{ }}"#),
            (r#"{ "roots" : {} }"#, r#"{ "roots" : {} }"#),
            (r#"{"extensions":7}"#, r#"{"extensions":7}"#),
        ] {
            let document = read(own.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
            assert_eq!(shared_capabilities(document.root()), shared, "{own}");
        }
    }

    #[test]
    fn translation_to_stateful_removes_only_members_of_stateless_requests() {
        let text = r#"{"jsonrpc":"2.0", "id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":1.10, "b":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","v/x":1e2,"io.modelcontextprotocol/clientCapabilities":{}},"requestState":"s","inputResponses":{}}}"#;
        assert_eq!(
            to_stateful(text).as_deref(),
            Some(
                r#"{"jsonrpc":"2.0", "id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":1.10, "b":1},"_meta":{"v/x":1e2}}}"#
            )
        );
        let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}}"#;
        assert_eq!(to_stateful(bare).as_deref(), Some(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#));
    }

    #[test]
    fn translation_to_stateless_adds_the_clients_handshake_to_meta() {
        let want = r#""_meta":{"v":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c"}}"#;
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"v":1,"io.modelcontextprotocol/protocolVersion":"1"},"a":1.10}}"#;
        assert_eq!(
            to_stateless(text, &CLIENT_META, None),
            Some(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":1.10,{want}}}}}"#))
        );
        let retry = ClientInputResponses { input_responses: r#"{"k":{}}"#, request_state: Some("\"s\"") };
        let bare =
            to_stateless(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#, &CLIENT_META, Some(&retry)).expect("a request");
        assert!(bare.starts_with(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io."#), "{bare}");
        assert!(bare.ends_with(r#","inputResponses":{"k":{}},"requestState":"s"}}"#), "{bare}");
    }

    #[test]
    fn members_are_added_only_if_missing() {
        let members = [("resultType", "\"complete\""), ("ttlMs", "0")];
        assert_eq!(with_members(r#" {"a":1}"#, &members), r#"{"resultType":"complete","ttlMs":0,"a":1}"#);
        assert_eq!(with_members(r#"{"ttlMs":5}"#, &members), r#"{"resultType":"complete","ttlMs":5}"#);
        assert_eq!(with_members("{}", &members), r#"{"resultType":"complete","ttlMs":0}"#);
        assert_eq!(with_members("[1]", &members), "[1]");
    }
}
