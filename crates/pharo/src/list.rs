//! What `tools/list` says of the tools. Written once.

use serde_json::{Map, Value, json};

use crate::tools::{Effect, Gives, Kind, Parameter, TOOLS, Tool};

/// All tools, as a JSON list.
pub(crate) fn tools() -> String {
    Value::from_iter(TOOLS.iter().map(tool)).to_string()
}

fn tool(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": input(tool.parameters),
        "outputSchema": output(tool.gives),
        "annotations": annotations(tool.effect),
    })
}

fn input(parameters: &[Parameter]) -> Value {
    let properties: Map<String, Value> =
        parameters.iter().map(|parameter| (parameter.name.to_owned(), property(parameter))).collect();
    let required: Vec<&str> =
        parameters.iter().filter(|parameter| is_required(parameter)).map(|own| own.name).collect();
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn is_required(parameter: &Parameter) -> bool {
    matches!(parameter.kind, Kind::Text | Kind::Object)
}

fn property(parameter: &Parameter) -> Value {
    let mut property = match parameter.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::TextOr(text) => json!({ "type": "string", "default": text }),
        Kind::MaybeText => json!({ "type": ["string", "null"], "default": null }),
        Kind::Flag(flag) => json!({ "type": "boolean", "default": flag }),
        Kind::Object => json!({ "type": "object" }),
    };
    property["description"] = json!(parameter.description);
    property
}

/// The image's own object. What else it says is passed on, so more members are allowed.
fn output(gives: Gives) -> Value {
    let method = json!({
        "type": "object",
        "properties": { "class": { "type": "string" }, "method": { "type": "string" }, "package": { "type": "string" } },
    });
    let result = match gives {
        Gives::Anything => json!({}),
        Gives::Text => json!({ "type": "string" }),
        Gives::Names => json!({ "type": "array", "items": { "type": "string" } }),
        Gives::Methods => json!({ "type": "array", "items": method }),
        Gives::Object => json!({ "type": "object" }),
    };
    // A value without a form in JSON comes without a result.
    let required = if gives == Gives::Anything { json!(["success"]) } else { json!(["success", "result"]) };
    json!({
        "type": "object",
        "properties": { "success": { "const": true }, "result": result },
        "required": required,
    })
}

fn annotations(effect: Effect) -> Value {
    let hints = |reads: bool, destroys: bool, repeats: bool, open: bool| json!({ "readOnlyHint": reads, "destructiveHint": destroys, "idempotentHint": repeats, "openWorldHint": open });
    match effect {
        Effect::Reads => hints(true, false, true, false),
        Effect::Captures => hints(false, false, false, false),
        Effect::Sets => hints(false, false, true, false),
        Effect::Exports => hints(false, true, true, false),
        Effect::Runs => hints(false, true, false, true),
    }
}
