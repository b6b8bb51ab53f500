//! What the server asks of the client while a call runs, in revisions that have that.

use rmcp::model::{
    CallToolResult, ContentBlock, CreateMessageRequestParams, ElicitRequestParams, ElicitationSchema, SamplingMessage,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::tools::say;

/// Asks the client's model.
pub async fn sample(context: &RequestContext<RoleServer>, prompt: &str) -> CallToolResult {
    let question = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    match context.peer.create_message(question).await {
        Ok(answer) => {
            let text = answer.message.content.first().and_then(|part| part.as_text()).map(|part| part.text.clone());
            say(format!("The model said: {}", text.unwrap_or_default()))
        }
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
    }
}

/// Asks the client's user.
pub async fn elicit(
    context: &RequestContext<RoleServer>,
    message: &str,
    schema: Value,
) -> Result<CallToolResult, ErrorData> {
    let form = form(message, schema)?;
    Ok(match context.peer.create_elicitation(form).await {
        Ok(answer) => say(format!("The user said: {}", json!(answer))),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
    })
}

/// A question to the user.
pub fn form(message: &str, schema: Value) -> Result<ElicitRequestParams, ErrorData> {
    let schema: ElicitationSchema =
        serde_json::from_value(schema).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message: message.into(), requested_schema: schema })
}

pub fn contact() -> Value {
    json!({
        "type": "object",
        "properties": { "username": { "type": "string" }, "email": { "type": "string" } },
        "required": ["username", "email"],
    })
}

/// One member of each kind, each with the default that the suite expects.
pub fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
            "verified": { "type": "boolean", "default": true },
        },
    })
}

/// One member for each way to write a choice.
pub fn choices() -> Value {
    let plain = json!(["red", "green", "blue"]);
    let titled = json!([
        { "const": "s", "title": "Small" },
        { "const": "m", "title": "Medium" },
        { "const": "l", "title": "Large" },
    ]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled },
            "legacyEnum": { "type": "string", "enum": plain, "enumNames": ["Red", "Green", "Blue"] },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled } },
        },
    })
}
