//! What `tools/list` says of the tools. Written once.

use serde_json::{Map, Value, json};

use crate::tools::{Effect, Gives, Kind, Parameter, TOOLS, Tool};

/// All tools, as a JSON list.
pub(crate) fn tools(is_compat: bool) -> String {
    // A failure is an ordinary result there, and clients hold every ordinary result against the schema.
    let output = |tool: &Tool| if is_compat { json!({ "type": "object" }) } else { output(tool.gives) };
    Value::from_iter(TOOLS.iter().map(|own| tool(own, output(own)))).to_string()
}

fn tool(tool: &Tool, output: Value) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": input(tool.parameters),
        "outputSchema": output,
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

/// The image's own object. Clients drop a whole answer for one member of another type, and the image decides what it
/// answers: so the usual form of a result is only said, and more members are allowed.
fn output(gives: Gives) -> Value {
    let usual = match gives {
        Gives::Anything => "The value of the code, if it has a form in JSON.",
        Gives::Text => "A text.",
        Gives::Names => "A list of names.",
        Gives::Methods => "A list of objects with `class`, `method` and `package`.",
        Gives::Object => "An object.",
    };
    json!({
        "type": "object",
        "properties": { "success": { "const": true }, "result": { "description": usual } },
        "required": ["success"],
    })
}

fn annotations(effect: Effect) -> Value {
    use Effect::{Exports, Reads, Runs, Sets};
    json!({
        "readOnlyHint": effect == Reads,
        "destructiveHint": matches!(effect, Exports | Runs | Sets),
        "idempotentHint": matches!(effect, Reads | Sets | Exports),
        "openWorldHint": effect == Runs,
    })
}
