//! Rewrites a server's messages for clients of the aggregate endpoint: adds the server prefix to names, URIs and task
//! ids in the members that the protocol defines for them. The text and structured content of tool results stay
//! unchanged.

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};

use super::{prefix_name, prefix_uri};
use crate::message_rewrite::{TextEdit, splice};
use crate::method::Method;
use crate::translate::to_json_string;

/// The `_meta` key that names the task to which a message belongs.
pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Rewrites a server's response to a request with this method.
pub fn prefix_response(server: &str, method: &Method<'_>, text: &str, limits: &JsonLimits) -> String {
    // Most results are large and contain none of these members.
    let has_any = ["\"name\"", "\"uri\"", "\"uriTemplate\"", "\"taskId\""].iter().any(|key| text.contains(key));
    apply_edits(server, text, limits, has_any, |places, root| {
        if let Some(result) = root.get("result") {
            places.edit_result(method, result);
        } else if *method == Method::ResourcesRead {
            let error = root.get("error").and_then(|error| error.get("data"));
            places.edit_uri(error.and_then(|data| data.get("uri")));
        }
    })
}

/// Rewrites a server's notification or request.
pub fn prefix_message(server: &str, text: &str, limits: &JsonLimits) -> String {
    apply_edits(server, text, limits, true, |places, root| {
        let Some(method) = root.get("method").and_then(|method| method.as_str()) else { return };
        let Some(params) = root.get("params") else { return };
        let is_request = root.get("id").is_some();
        places.edit_message(&Method::of(method), params, is_request);
    })
}

fn apply_edits(
    server: &str,
    text: &str,
    limits: &JsonLimits,
    has_any: bool,
    find: impl FnOnce(&mut NameEdits<'_>, JsonValue<'_>),
) -> String {
    let Some(document) = has_any.then(|| read(text.as_bytes(), limits).ok()).flatten() else { return text.to_owned() };
    let mut places = NameEdits { server, edits: Vec::new() };
    find(&mut places, document.root());
    splice(text, places.edits)
}

/// Edits that add the server prefix to names, URIs and task ids.
struct NameEdits<'s> {
    server: &'s str,
    edits: Vec<TextEdit<'static>>,
}

impl NameEdits<'_> {
    fn edit_result(&mut self, method: &Method<'_>, result: JsonValue<'_>) {
        let list = |member: &str| result.get(member).into_iter().flat_map(|list| list.elements());
        self.edit_related_task(result);
        match method {
            Method::ToolsList => list("tools").for_each(|tool| self.edit_tool(tool)),
            Method::PromptsList => list("prompts").for_each(|prompt| self.edit_name(prompt.get("name"))),
            Method::ResourcesList => list("resources").for_each(|resource| self.edit_uri(resource.get("uri"))),
            Method::ResourceTemplatesList => {
                list("resourceTemplates").for_each(|template| self.edit_uri(template.get("uriTemplate")));
            }
            Method::TasksList => list("tasks").for_each(|task| self.edit_name(task.get("taskId"))),
            Method::ToolsCall | Method::TasksResult => self.edit_tool_result(result),
            Method::TasksGet | Method::TasksCancel | Method::TasksUpdate => self.edit_task(result),
            Method::PromptsGet => {
                list("messages")
                    .filter_map(|message| message.get("content"))
                    .for_each(|content| self.edit_content(content));
            }
            Method::ResourcesRead => list("contents").for_each(|contents| self.edit_uri(contents.get("uri"))),
            _ => {}
        }
    }

    fn edit_message(&mut self, method: &Method<'_>, params: JsonValue<'_>, is_request: bool) {
        self.edit_related_task(params);
        match method {
            Method::ResourceUpdated => self.edit_uri(params.get("uri")),
            Method::TaskStatus | Method::TaskChanged => self.edit_task(params),
            Method::SubscriptionsAcknowledged => {
                let accepted = params.get("notifications");
                let list = |member: &str| {
                    accepted.and_then(|accepted| accepted.get(member)).into_iter().flat_map(|list| list.elements())
                };
                list("resourceSubscriptions").for_each(|uri| self.edit_uri(Some(uri)));
                list("taskIds").for_each(|task| self.edit_name(Some(task)));
            }
            _ if is_request => self.edit_progress_token(params.get("_meta").and_then(|meta| meta.get("progressToken"))),
            _ => {}
        }
    }

    /// Adds the prefix to a tool's name and to the URI of its UI resource.
    fn edit_tool(&mut self, tool: JsonValue<'_>) {
        self.edit_name(tool.get("name"));
        let meta = tool.get("_meta");
        self.edit_uri(meta.and_then(|meta| meta.get("ui")?.get("resourceUri")));
        self.edit_uri(meta.and_then(|meta| meta.get("ui/resourceUri")));
    }

    fn edit_tool_result(&mut self, result: JsonValue<'_>) {
        if let Some(content) = result.get("content") {
            self.edit_content(content);
        }
        self.edit_name(result.get("task").and_then(|task| task.get("taskId")));
        if result.get("resultType").is_some_and(|kind| kind.is_str("task")) {
            self.edit_name(result.get("taskId"));
        }
    }

    /// Adds the prefix to a task's id, and to names and URIs in its result if it has one.
    fn edit_task(&mut self, task: JsonValue<'_>) {
        self.edit_name(task.get("taskId"));
        if let Some(result) = task.get("result") {
            self.edit_related_task(result);
            self.edit_tool_result(result);
        }
    }

    fn edit_content(&mut self, content: JsonValue<'_>) {
        if content.kind() == JsonKind::Array {
            return content.elements().for_each(|content| self.edit_content(content));
        }
        match content.get("type").and_then(|kind| kind.as_str()).as_deref() {
            Some("resource_link") => self.edit_uri(content.get("uri")),
            Some("resource") => self.edit_uri(content.get("resource").and_then(|resource| resource.get("uri"))),
            _ => {}
        }
    }

    fn edit_related_task(&mut self, of: JsonValue<'_>) {
        self.edit_name(of.get("_meta").and_then(|meta| meta.get(RELATED_TASK)?.get("taskId")));
    }

    fn edit_name(&mut self, value: Option<JsonValue<'_>>) {
        self.push_edit(value, prefix_name);
    }

    fn edit_uri(&mut self, value: Option<JsonValue<'_>>) {
        self.push_edit(value, prefix_uri);
    }

    /// Adds the prefix to a progress token. The token may be a number, so the prefix is put in front of its JSON
    /// notation.
    fn edit_progress_token(&mut self, value: Option<JsonValue<'_>>) {
        let Some(token) = value else { return };
        self.edits.push(TextEdit {
            span: token.span(),
            replacement: to_json_string(&prefix_name(self.server, token.raw())).into(),
        });
    }

    fn push_edit(&mut self, value: Option<JsonValue<'_>>, make: fn(&str, &str) -> String) {
        let Some((value, own)) = value.and_then(|value| Some((value, value.as_str()?))) else { return };
        self.edits.push(TextEdit { span: value.span(), replacement: to_json_string(&make(self.server, &own)).into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: Method<'_>, result: &str) -> String {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let mapped = prefix_response("a", &method, &text, &JsonLimits::REPLY);
        mapped
            .strip_prefix(r#"{"jsonrpc":"2.0","id":1,"result":"#)
            .and_then(|rest| rest.strip_suffix('}'))
            .map_or_else(|| panic!("{mapped}"), str::to_owned)
    }

    #[test]
    fn only_links_and_tasks_of_a_tool_result_are_rewritten() {
        let given = r#"{"content":[{"type":"text","text":"f:1","uri":"f:1"},{"type":"resource_link","uri":"f:1","name":"n"},{"type":"resource","resource":{"uri":"f:2","name":"n"}},{"type":"odd","uri":"f:3"}], "structuredContent":{"uri":"f:1","taskId":"7","content":[{"type":"resource_link","uri":"f:1"}]},"n":1.10}"#;
        let want = given
            .replace(r#"k","uri":"f:1","name""#, r#"k","uri":"x-a+f:1","name""#)
            .replace(r#"{"uri":"f:2""#, r#"{"uri":"x-a+f:2""#);
        assert_eq!(answer(Method::ToolsCall, given), want);
        assert_eq!(answer(Method::ToolsCall, r#"{"task":{"taskId":"7"}}"#), r#"{"task":{"taskId":"a__7"}}"#);
        let task = r#"{"resultType":"task","taskId":"7"}"#;
        assert_eq!(answer(Method::ToolsCall, task), r#"{"resultType":"task","taskId":"a__7"}"#);
        assert_eq!(answer(Method::ToolsCall, r#"{"taskId":"7"}"#), r#"{"taskId":"7"}"#);
    }

    #[test]
    fn names_and_uris_are_rewritten_in_every_kind_of_response() {
        for (method, given, want) in [
            (
                Method::ToolsList,
                r#"{"tools":[{"name":"t","title":"t"}]}"#,
                r#"{"tools":[{"name":"a__t","title":"t"}]}"#,
            ),
            (
                Method::ToolsList,
                r#"{"tools":[{"name":"t","_meta":{"ui":{"resourceUri":"ui://v"}}}]}"#,
                r#"{"tools":[{"name":"a__t","_meta":{"ui":{"resourceUri":"ui://x-a+v"}}}]}"#,
            ),
            (
                Method::ResourceTemplatesList,
                r#"{"resourceTemplates":[{"uriTemplate":"f:{x}"}]}"#,
                r#"{"resourceTemplates":[{"uriTemplate":"x-a+f:{x}"}]}"#,
            ),
            (
                Method::PromptsGet,
                r#"{"messages":[{"content":{"type":"resource","resource":{"uri":"f:1"}}}]}"#,
                r#"{"messages":[{"content":{"type":"resource","resource":{"uri":"x-a+f:1"}}}]}"#,
            ),
            (
                Method::ResourcesRead,
                r#"{"contents":[{"uri":"f:1","text":"f:1"}]}"#,
                r#"{"contents":[{"uri":"x-a+f:1","text":"f:1"}]}"#,
            ),
            (
                Method::TasksGet,
                r#"{"taskId":"7","result":{"content":[{"type":"resource_link","uri":"f:1"}]}}"#,
                r#"{"taskId":"a__7","result":{"content":[{"type":"resource_link","uri":"x-a+f:1"}]}}"#,
            ),
            (
                Method::TasksResult,
                r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7"}}}"#,
                r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a__7"}}}"#,
            ),
            (
                Method::Complete,
                r#"{"completion":{"values":["f:1"]},"name":"n"}"#,
                r#"{"completion":{"values":["f:1"]},"name":"n"}"#,
            ),
        ] {
            assert_eq!(answer(method, given), want);
        }
    }

    #[test]
    fn names_and_uris_are_rewritten_in_notifications_and_requests() {
        for (given, want) in [
            (
                r#"{"method":"notifications/resources/updated","params":{"uri":"f:1"}}"#,
                r#"{"method":"notifications/resources/updated","params":{"uri":"x-a+f:1"}}"#,
            ),
            (
                r#"{"method":"notifications/tasks/status","params":{"taskId":"7"}}"#,
                r#"{"method":"notifications/tasks/status","params":{"taskId":"a__7"}}"#,
            ),
            (
                r#"{"id":1,"method":"elicitation/create","params":{"uri":"f:1","_meta":{"progressToken":7}}}"#,
                r#"{"id":1,"method":"elicitation/create","params":{"uri":"f:1","_meta":{"progressToken":"a__7"}}}"#,
            ),
            (
                r#"{"method":"notifications/progress","params":{"progressToken":7}}"#,
                r#"{"method":"notifications/progress","params":{"progressToken":7}}"#,
            ),
            ("not json", "not json"),
        ] {
            assert_eq!(prefix_message("a", given, &JsonLimits::REPLY), want);
        }
    }
}
