//! Builds the tool list for `tools/list` results.

use serde_json::{Map, Value, json};

use crate::pharo_tools::{PharoParameter, PharoParameterType, PharoTool, ReturnedValueKind, TOOLS, ToolEffect};

/// Returns all tools as a JSON list.
pub(crate) fn tools_json(is_compat: bool) -> String {
    // In compatibility mode a failure is an ordinary result, and clients check every ordinary result against the
    // schema.
    let output =
        |tool: &PharoTool| if is_compat { json!({ "type": "object" }) } else { output_schema(tool.result_kind) };
    Value::from_iter(TOOLS.iter().map(|own| tool_json(own, output(own)))).to_string()
}

fn tool_json(tool: &PharoTool, output: Value) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": input_schema(tool.parameters),
        "outputSchema": output,
        "annotations": annotations(tool.effect),
    })
}

fn input_schema(parameters: &[PharoParameter]) -> Value {
    let properties: Map<String, Value> =
        parameters.iter().map(|parameter| (parameter.name.to_owned(), property_schema(parameter))).collect();
    let required: Vec<&str> =
        parameters.iter().filter(|parameter| is_required(parameter)).map(|own| own.name).collect();
    if required.is_empty() {
        return json!({ "type": "object", "properties": properties, "additionalProperties": false });
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false, "required": required })
}

fn is_required(parameter: &PharoParameter) -> bool {
    matches!(parameter.kind, PharoParameterType::Text | PharoParameterType::Object)
}

fn property_schema(parameter: &PharoParameter) -> Value {
    let description = parameter.description;
    match parameter.kind {
        PharoParameterType::Text => json!({ "type": "string", "description": description }),
        PharoParameterType::TextWithDefault(text) => {
            json!({ "type": "string", "default": text, "description": description })
        }
        PharoParameterType::OptionalText => {
            json!({ "type": ["string", "null"], "default": null, "description": description })
        }
        PharoParameterType::Flag(flag) => json!({ "type": "boolean", "default": flag, "description": description }),
        PharoParameterType::Object => json!({ "type": "object", "description": description }),
    }
}

/// Returns the schema of the image's response object. It describes the usual members but allows others, because the
/// image decides what it returns, and clients drop a whole result if one member has the wrong type.
fn output_schema(gives: ReturnedValueKind) -> Value {
    let usual = match gives {
        ReturnedValueKind::Anything => "The value of the code, if it has a form in JSON.",
        ReturnedValueKind::Text => "A text.",
        ReturnedValueKind::Names => "A list of names.",
        ReturnedValueKind::Methods => "A list of objects with `class`, `method` and `package`.",
        ReturnedValueKind::Object => "An object.",
    };
    json!({
        "type": "object",
        "properties": { "success": { "const": true }, "result": { "description": usual } },
        "required": ["success"],
    })
}

fn annotations(effect: ToolEffect) -> Value {
    use ToolEffect::{ChangesSettings, ReadsOnly, RunsCode, WritesFiles};
    json!({
        "readOnlyHint": effect == ReadsOnly,
        "destructiveHint": matches!(effect, WritesFiles | RunsCode | ChangesSettings),
        "idempotentHint": matches!(effect, ReadsOnly | ChangesSettings | WritesFiles),
        "openWorldHint": effect == RunsCode,
    })
}
