//! Tools of the demo server: at least one in each category.

use gatelodge_json::JsonValue;

use super::demo_notes::DemoNotes;

/// The tool definitions in the `tools/list` result.
pub const TOOL_DEFINITIONS: &str = r#"[
{"name":"list_notes","description":"Lists the names of all notes.","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"readOnlyHint":true}},
{"name":"read_note","description":"Reads a note.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false},"annotations":{"readOnlyHint":true}},
{"name":"search_notes","description":"Finds notes that hold a text.","inputSchema":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"],"additionalProperties":false},"annotations":{"readOnlyHint":true}},
{"name":"write_note","description":"Writes a note, in place of what was there.","inputSchema":{"type":"object","properties":{"name":{"type":"string"},"text":{"type":"string"}},"required":["name","text"],"additionalProperties":false},"annotations":{"destructiveHint":false,"idempotentHint":true}},
{"name":"run_query","description":"Runs a query on the notes.","inputSchema":{"type":"object","properties":{"sql":{"type":"string"}},"required":["sql"],"additionalProperties":false}},
{"name":"delete_note","description":"Deletes a note for good.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false},"annotations":{"destructiveHint":true}},
{"name":"send_payment","description":"Pays somebody.","inputSchema":{"type":"object","properties":{"to":{"type":"string"},"amount":{"type":"number"},"currency":{"type":"string"}},"required":["to","amount"],"additionalProperties":false},"annotations":{"destructiveHint":true,"openWorldHint":true}}
]"#;

/// Runs a tool. Returns `None` if there is no such tool. The inner error is the tool's own error message.
pub fn run_tool(notes: &DemoNotes, name: &str, arguments: Option<JsonValue<'_>>) -> Option<Result<String, String>> {
    let text = |key: &str| {
        let value = arguments.and_then(|arguments| arguments.get(key)).and_then(|value| value.as_str());
        value.map(|value| value.into_owned()).ok_or_else(|| format!("`{key}` is missing or not a string"))
    };
    Some(match name {
        "list_notes" => Ok(notes.list()),
        "read_note" => text("name").and_then(|name| notes.read(&name)),
        "search_notes" => text("query").map(|query| notes.search(&query)),
        "write_note" => text("name").and_then(|name| Ok(notes.write(&name, &text("text")?))),
        "run_query" => text("sql").map(|_| format!("name\n{}", notes.list())),
        "delete_note" => text("name").and_then(|name| notes.delete(&name)),
        "send_payment" => {
            let amount = arguments.and_then(|arguments| arguments.get("amount")).map(|amount| amount.raw().to_owned());
            text("to").and_then(|to| Ok(notes.pay(&to, &amount.ok_or("`amount` is missing")?)))
        }
        _ => return None,
    })
}
