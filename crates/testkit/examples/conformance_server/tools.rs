//! The tools with their schemas and results. Tools that request client input are in files of their own.

use std::time::Duration;

use rmcp::model::{
    AudioContent, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    JsonObject, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ResourceContents, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::{rounds, tasks};

/// A PNG of one pixel.
pub const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
/// A WAV file without samples.
const SOUND: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// Long enough to see the messages of a call arrive one by one.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(40);

const TABLE: &[(&str, &str)] = &[
    ("test_simple_text", "Gives a text"),
    ("test_image_content", "Gives a picture"),
    ("test_audio_content", "Gives a sound"),
    ("test_embedded_resource", "Gives a resource"),
    ("test_multiple_content_types", "Gives a text, a picture and a resource"),
    ("test_tool_with_logging", "Logs while it runs"),
    ("test_tool_with_progress", "Tells its progress"),
    ("test_error_handling", "Fails"),
    ("test_sampling", "Asks the client's model"),
    ("test_elicitation", "Asks the client's user"),
    ("test_elicitation_sep1034_defaults", "Asks the user for values with defaults"),
    ("test_elicitation_sep1330_enums", "Asks the user to choose"),
    ("json_schema_2020_12_tool", "Takes what only a recent schema can say"),
    ("test_reconnection", "Takes a while"),
    ("test_custom_header", "Takes a value that is also in a header"),
    ("test_trigger_tool_change", "Tells listeners that the tools changed"),
    ("test_trigger_prompt_change", "Tells listeners that the prompts changed"),
    ("test_missing_capability", "Works only for clients with a model"),
    ("test_streaming_elicitation", "Needs an answer of the user"),
    ("test_logging_tool", "Logs if the request asks for it"),
    ("test_input_required_result_elicitation", "Needs a name of the user"),
    ("test_input_required_result_sampling", "Needs an answer of the client's model"),
    ("test_input_required_result_list_roots", "Needs the client's roots"),
    ("test_input_required_result_request_state", "Hands out a state and wants it back"),
    ("test_input_required_result_tampered_state", "Hands out a state and refuses another"),
    ("test_input_required_result_multiple_inputs", "Needs three answers at once"),
    ("test_input_required_result_multi_round", "Needs two answers, one after the other"),
    ("test_input_required_result_capabilities", "Needs only what the client can answer"),
    ("greet", "Greets, and is never a task"),
    ("slow_compute", "Runs for the given seconds; as a task if the client allows it"),
    ("failing_job", "A task that ends with an error of the tool"),
    ("protocol_error_job", "A task that ends with an error of the protocol"),
    ("confirm_delete", "A task that waits for one answer"),
    ("multi_input", "A task that waits for two answers"),
    ("test_tool_with_task", "Needs an answer, then becomes a task"),
];

pub fn all() -> Vec<Tool> {
    TABLE.iter().map(|(name, what)| Tool::new(*name, *what, schema(name))).collect()
}

pub fn find(name: &str) -> Option<Tool> {
    all().into_iter().find(|tool| tool.name == name)
}

fn schema(name: &str) -> JsonObject {
    let (properties, required) = match name {
        "json_schema_2020_12_tool" => return recent_schema(),
        "test_sampling" => (json!({ "prompt": { "type": "string" } }), json!(["prompt"])),
        "test_elicitation" => (json!({ "message": { "type": "string" } }), json!(["message"])),
        "test_custom_header" => (json!({ "value": { "type": "string", "x-mcp-header": "Value" } }), json!(["value"])),
        "greet" => (json!({ "name": { "type": "string" } }), json!(["name"])),
        "slow_compute" => (json!({ "seconds": { "type": "number" }, "label": { "type": "string" } }), json!([])),
        "confirm_delete" => (json!({ "filename": { "type": "string" } }), json!([])),
        _ => (json!({}), json!([])),
    };
    object(json!({ "type": "object", "properties": properties, "required": required }))
}

fn recent_schema() -> JsonObject {
    object(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "place",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "phone": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["address"] }, { "required": ["phone"] }] }],
        "if": { "required": ["address"] },
        "then": { "required": ["name"] },
        "else": { "required": ["phone"] },
        "additionalProperties": false,
    }))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

/// Returns a result with one text.
pub fn say(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

pub async fn call(
    fixture: &Fixture,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let name = request.name.to_string();
    let arguments = request.arguments.clone().unwrap_or_default();
    let text = |member: &str| arguments.get(member).and_then(Value::as_str).unwrap_or_default();
    let result = match name.as_str() {
        "test_simple_text" => say("A simple text."),
        "test_image_content" => CallToolResult::success(vec![picture()]),
        "test_audio_content" => {
            CallToolResult::success(vec![ContentBlock::Audio(AudioContent::new(SOUND, "audio/wav"))])
        }
        "test_embedded_resource" => CallToolResult::success(vec![resource("test://embedded-resource")]),
        "test_multiple_content_types" => CallToolResult::success(vec![
            ContentBlock::text("Several kinds at once."),
            picture(),
            resource("test://mixed-content-resource"),
        ]),
        "test_tool_with_logging" => logged(context).await,
        "test_tool_with_progress" => progressed(context).await,
        "test_error_handling" => CallToolResult::error(vec![ContentBlock::text("This tool always fails.")]),
        "json_schema_2020_12_tool" => say("Taken."),
        "test_reconnection" => {
            tokio::time::sleep(MESSAGE_INTERVAL).await;
            say("Still here.")
        }
        "test_custom_header" => say(text("value")),
        "test_trigger_tool_change" => {
            for listener in fixture.listeners() {
                // A listener that has disconnected is ignored.
                let _ = listener.notify_tool_list_changed().await;
            }
            let _ = context.peer.notify_tool_list_changed().await;
            say("The tools changed.")
        }
        "test_trigger_prompt_change" => {
            for listener in fixture.listeners() {
                let _ = listener.notify_prompt_list_changed().await;
            }
            let _ = context.peer.notify_prompt_list_changed().await;
            say("The prompts changed.")
        }
        "test_missing_capability" => with_model(context)?,
        "test_logging_tool" => logged_if_asked(context).await,
        name if tasks::is_one(name) => return tasks::call(fixture, &request, context).await,
        _ => return rounds::call(fixture, &request, context),
    };
    Ok(result.into())
}

fn picture() -> ContentBlock {
    ContentBlock::image(PICTURE, "image/png")
}

fn resource(uri: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::TextResourceContents {
        uri: uri.into(),
        mime_type: Some("text/plain".into()),
        text: "The text of a resource.".into(),
        meta: None,
    })
}

async fn logged(context: &RequestContext<RoleServer>) -> CallToolResult {
    for step in ["started", "running", "done"] {
        let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(step));
        // A client that has disconnected is ignored.
        let _ = context.peer.notify_logging_message(message).await;
        tokio::time::sleep(MESSAGE_INTERVAL).await;
    }
    say("Logged.")
}

async fn logged_if_asked(context: &RequestContext<RoleServer>) -> CallToolResult {
    if let Some(level) = context.meta.log_level() {
        let message = LoggingMessageNotificationParam::new(level, json!("as asked"));
        let _ = context.peer.notify_logging_message(message).await;
    }
    say("Done.")
}

async fn progressed(context: &RequestContext<RoleServer>) -> CallToolResult {
    for step in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, step).with_total(100.0).with_message("on its way");
            let _ = context.peer.notify_progress(progress).await;
        }
        tokio::time::sleep(MESSAGE_INTERVAL).await;
    }
    say("Arrived.")
}

fn with_model(context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    let has_model = context.client_capabilities().is_some_and(|client| client.sampling.is_some());
    if has_model {
        return Ok(say("The client has a model."));
    }
    let needed = ClientCapabilities::builder().enable_sampling().build();
    Err(ErrorData::missing_required_client_capability(needed))
}
