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
    if required.is_empty() {
        return json!({ "type": "object", "properties": properties, "additionalProperties": false });
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false, "required": required })
}

fn is_required(parameter: &Parameter) -> bool {
    matches!(parameter.kind, Kind::Text | Kind::Object)
}

fn property(parameter: &Parameter) -> Value {
    let description = parameter.description;
    match parameter.kind {
        Kind::Text => json!({ "type": "string", "description": description }),
        Kind::TextOr(text) => json!({ "type": "string", "default": text, "description": description }),
        Kind::MaybeText => json!({ "type": ["string", "null"], "default": null, "description": description }),
        Kind::Flag(flag) => json!({ "type": "boolean", "default": flag, "description": description }),
        Kind::Object => json!({ "type": "object", "description": description }),
    }
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
