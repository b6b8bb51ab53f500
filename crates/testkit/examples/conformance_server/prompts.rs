//! The prompts, and completion of their arguments.

use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, ImageContent, Prompt, PromptArgument, PromptMessage, ResourceContents, Role,
};
use serde_json::Value;

use crate::rounds::{answer, need, user};
use crate::tools::PICTURE;

pub fn all() -> Vec<Prompt> {
    let needed = |name: &str| PromptArgument::new(name).with_required(true);
    let with = |names: &[&str]| Some(names.iter().map(|name| needed(name)).collect());
    vec![
        Prompt::new("test_simple_prompt", Some("A text"), None),
        Prompt::new("test_prompt_with_arguments", Some("A text from two arguments"), with(&["arg1", "arg2"])),
        Prompt::new("test_prompt_with_embedded_resource", Some("A resource and a text"), with(&["resourceUri"])),
        Prompt::new("test_prompt_with_image", Some("A picture and a text"), None),
        Prompt::new("test_input_required_result_prompt", Some("Needs an answer of the user"), None),
    ]
}

pub fn get(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let text = |member: &str| {
        let value = request.arguments.as_ref().and_then(|arguments| arguments.get(member));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let messages = match request.name.as_str() {
        "test_simple_prompt" => vec![say("A simple prompt.")],
        "test_prompt_with_arguments" => vec![say(format!("First {}, then {}.", text("arg1"), text("arg2")))],
        "test_prompt_with_embedded_resource" => vec![resource(text("resourceUri")), say("Read this.")],
        "test_prompt_with_image" => {
            let picture = ContentBlock::Image(ImageContent::new(PICTURE, "image/png"));
            vec![PromptMessage::new(Role::User, picture), say("Look at this.")]
        }
        "test_input_required_result_prompt" => {
            match answer(request.input_responses.as_ref(), "user_context", "/content/context") {
                Some(context) => vec![say(format!("Mind this: {context}"))],
                None => return Ok(need(vec![("user_context", user("What is it about?", "context")?)]).into()),
            }
        }
        other => return Err(ErrorData::invalid_params(format!("Unknown prompt: {other}"), None)),
    };
    Ok(GetPromptResult::new(messages).into())
}

/// Completes an argument with the names that start with it.
pub fn complete(request: &CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
    let prefix = &request.argument.value;
    let names = ["paris", "park", "party"].into_iter().filter(|name| name.starts_with(prefix.as_str()));
    let values = CompletionInfo::new(names.map(str::to_owned).collect());
    Ok(CompleteResult::new(values.map_err(|error| ErrorData::internal_error(error, None))?))
}

fn say(text: impl Into<String>) -> PromptMessage {
    PromptMessage::new_text(Role::User, text)
}

fn resource(uri: String) -> PromptMessage {
    let contents = ResourceContents::TextResourceContents {
        uri,
        mime_type: Some("text/plain".into()),
        text: "The text of a resource.".into(),
        meta: None,
    };
    PromptMessage::new(Role::User, ContentBlock::resource(contents))
}
