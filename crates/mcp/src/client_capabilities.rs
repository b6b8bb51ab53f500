//! The capabilities that a client declares. A server must not send requests for which the client lacks the capability.

use gatelodge_json::{JsonKind, JsonValue};

use crate::created_task::TASKS_EXTENSION;

/// The kinds of server requests that a client declares it can answer, and whether the client supports tasks.
///
/// ```
/// use gatelodge_json::{JsonLimits, read};
/// use gatelodge_mcp::ClientCapabilities;
///
/// let declared = read(br#"{"sampling":{}}"#, &JsonLimits::REQUEST)?;
/// let client = ClientCapabilities::of(Some(declared.root()));
/// assert!(client.can_answer_server_requests());
/// assert_eq!(client.missing_capability("sampling/createMessage", None), None);
/// assert_eq!(client.missing_capability("roots/list", None), Some(r#"{"roots":{}}"#));
/// # Ok::<(), gatelodge_json::JsonError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    form_elicitation: bool,
    url_elicitation: bool,
    sampling: bool,
    sampling_with_tools: bool,
    roots: bool,
    tasks: bool,
}

impl ClientCapabilities {
    /// Reads a client's capabilities in the format of either protocol generation. A value that is not an object
    /// declares nothing.
    pub fn of(capabilities: Option<JsonValue<'_>>) -> Self {
        let own = |name: &str| capabilities.and_then(|own| object_member(own, name));
        let elicitation = own("elicitation");
        let has_mode = |mode: &str| elicitation.is_some_and(|elicitation| elicitation.get(mode).is_some());
        let sampling = own("sampling");
        Self {
            // Before the `url` mode was introduced, every elicitation was a form.
            form_elicitation: elicitation.is_some() && (has_mode("form") || !has_mode("url")),
            url_elicitation: has_mode("url"),
            sampling: sampling.is_some(),
            sampling_with_tools: sampling.is_some_and(|sampling| sampling.get("tools").is_some()),
            roots: own("roots").is_some(),
            tasks: own("extensions").is_some_and(|extensions| extensions.get(TASKS_EXTENSION).is_some()),
        }
    }

    /// Returns whether the client can answer at least one kind of server request.
    pub fn can_answer_server_requests(self) -> bool {
        self.form_elicitation || self.url_elicitation || self.sampling || self.roots
    }

    /// Returns whether the client supports the tasks extension of the stateless protocol.
    pub fn has_tasks(self) -> bool {
        self.tasks
    }

    /// Returns the capability, as JSON, that a server request requires but the client did not declare. `None` if the
    /// client declared it or the method requires none.
    pub fn missing_capability(self, method: &str, params: Option<JsonValue<'_>>) -> Option<&'static str> {
        let member = |name: &str| params.and_then(|params| params.get(name));
        let is_url_mode = member("mode").is_some_and(|mode| mode.is_str("url"));
        let has_tools = member("tools").is_some() || member("toolChoice").is_some();
        let (has, required) = match method {
            "elicitation/create" if is_url_mode => (self.url_elicitation, r#"{"elicitation":{"url":{}}}"#),
            "elicitation/create" => (self.form_elicitation, r#"{"elicitation":{"form":{}}}"#),
            "sampling/createMessage" if has_tools => (self.sampling_with_tools, r#"{"sampling":{"tools":{}}}"#),
            "sampling/createMessage" => (self.sampling, r#"{"sampling":{}}"#),
            "roots/list" => (self.roots, r#"{"roots":{}}"#),
            _ => return None,
        };
        (!has).then_some(required)
    }
}

fn object_member<'d>(value: JsonValue<'d>, name: &str) -> Option<JsonValue<'d>> {
    value.get(name).filter(|own| own.kind() == JsonKind::Object)
}

#[cfg(test)]
mod tests {
    use gatelodge_json::{JsonLimits, read};

    use super::*;

    fn missing(capabilities: &str, method: &str, params: &str) -> Option<&'static str> {
        let capabilities = read(capabilities.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
        let params = read(params.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
        ClientCapabilities::of(Some(capabilities.root())).missing_capability(method, Some(params.root()))
    }

    #[test]
    fn a_client_is_asked_only_for_declared_capabilities() {
        let (form, page, plain, tools) = ("{}", r#"{"mode":"url"}"#, "{}", r#"{"tools":[]}"#);
        let (elicit, sample, roots) = ("elicitation/create", "sampling/createMessage", "roots/list");
        for (capabilities, method, params, is_asked) in [
            ("{}", elicit, form, false),
            (r#"{"elicitation":{}}"#, elicit, form, true),
            (r#"{"elicitation":{}}"#, elicit, page, false),
            (r#"{"elicitation":{"url":{}}}"#, elicit, form, false),
            (r#"{"elicitation":{"url":{}}}"#, elicit, page, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, elicit, form, true),
            (r#"{"elicitation":null}"#, elicit, form, false),
            (r#"{"sampling":{}}"#, sample, plain, true),
            (r#"{"sampling":{}}"#, sample, tools, false),
            (r#"{"sampling":{"tools":{}}}"#, sample, tools, true),
            (r#"{"elicitation":{}}"#, sample, plain, false),
            (r#"{"roots":{"listChanged":true}}"#, roots, plain, true),
            ("{}", roots, plain, false),
            ("{}", "ping", plain, true),
            ("{}", "vendor/ask", plain, true),
        ] {
            assert_eq!(
                missing(capabilities, method, params).is_none(),
                is_asked,
                "{method} {params} of {capabilities}"
            );
        }
        assert_eq!(missing("{}", elicit, page), Some(r#"{"elicitation":{"url":{}}}"#));
    }

    #[test]
    fn tasks_are_declared_as_an_extension() {
        let has_tasks = |text: &str| {
            let capabilities = read(text.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
            ClientCapabilities::of(Some(capabilities.root())).has_tasks()
        };
        assert!(has_tasks(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#));
        assert!(!has_tasks(r#"{"tasks":{}}"#) && !has_tasks("{}") && !ClientCapabilities::of(None).has_tasks());
    }
}
