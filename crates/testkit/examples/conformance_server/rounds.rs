//! Calls that take more than one round: the result lists the missing input, and the client repeats the call with it.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CreateMessageRequest, CreateMessageRequestParams, ElicitRequest,
    InputRequest, InputRequiredResult, InputResponses, ListRootsRequest, SamplingMessage,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::asks;
use crate::fixture::Fixture;
use crate::tools::say;

/// Input requests of `test_input_required_result_multi_round`, and the member each asks for.
const STEPS: [(&str, &str); 2] = [("step1", "name"), ("step2", "color")];

pub fn call(
    fixture: &Fixture,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let responses = request.input_responses.as_ref();
    let state = request.request_state.as_deref();
    let text = |member: &str| {
        let value = request.arguments.as_ref().and_then(|arguments| arguments.get(member));
        value.and_then(Value::as_str).unwrap_or_default()
    };
    let response = match request.name.as_ref() {
        "test_sampling" => answered(responses, "The model said", model(text("prompt"))),
        "test_elicitation" => answered(responses, "The user said", form(text("message"), asks::contact())?),
        "test_elicitation_sep1034_defaults" => {
            answered(responses, "The user said", form("Who are you?", asks::defaults())?)
        }
        "test_elicitation_sep1330_enums" => answered(responses, "The user said", form("Choose.", asks::choices())?),
        "test_streaming_elicitation" => answered(responses, "The user said", user("A value?", "value")?),
        "test_input_required_result_elicitation" => match answer(responses, "user_name", "/content/name") {
            Some(name) => say(format!("Hello, {name}!")).into(),
            None => need(vec![("user_name", user("Your name?", "name")?)]).into(),
        },
        "test_input_required_result_sampling" => match answer(responses, "capital_question", "/content/text") {
            Some(text) => say(format!("The model said: {text}")).into(),
            None => need(vec![("capital_question", model("What is the capital of France?"))]).into(),
        },
        "test_input_required_result_list_roots" => match answer(responses, "client_roots", "/roots") {
            Some(roots) => say(format!("The roots: {roots}")).into(),
            None => need(vec![("client_roots", roots())]).into(),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => match state {
            Some(state) => {
                open(fixture, state)?;
                say("state-ok").into()
            }
            None => need_with(fixture, vec![("confirm", user("Is that so?", "ok")?)], &json!({}))?,
        },
        "test_input_required_result_multiple_inputs" => several(fixture, responses, state)?,
        "test_input_required_result_multi_round" => step(fixture, state)?,
        "test_input_required_result_capabilities" => able(responses, context)?,
        other => return Err(ErrorData::invalid_params(format!("Unknown tool: {other}"), None)),
    };
    Ok(response)
}

/// Returns the client's response to one input request, or the request itself.
fn answered(responses: Option<&InputResponses>, what: &str, question: InputRequest) -> CallToolResponse {
    match responses.and_then(|responses| responses.get("answer")) {
        Some(answer) => say(format!("{what}: {answer}")).into(),
        None => need(vec![("answer", question)]).into(),
    }
}

/// Returns a member of the client's response, or `None` if there is no valid one.
pub fn answer(responses: Option<&InputResponses>, question: &str, member: &str) -> Option<String> {
    let value = responses?.get(question)?.pointer(member)?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

pub fn user(message: &str, member: &str) -> Result<InputRequest, ErrorData> {
    let schema = json!({
        "type": "object",
        "properties": { member: { "type": if member == "ok" { "boolean" } else { "string" } } },
        "required": [member],
    });
    form(message, schema)
}

fn form(message: &str, schema: Value) -> Result<InputRequest, ErrorData> {
    Ok(InputRequest::Elicitation(ElicitRequest::new(asks::form(message, schema)?)))
}

pub fn need(questions: Vec<(&str, InputRequest)>) -> InputRequiredResult {
    let questions = questions.into_iter().map(|(name, question)| (name.to_owned(), question));
    InputRequiredResult::from_input_requests(questions.collect())
}

fn model(prompt: impl Into<String>) -> InputRequest {
    let question = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    InputRequest::CreateMessage(CreateMessageRequest::new(question))
}

fn roots() -> InputRequest {
    InputRequest::ListRoots(ListRootsRequest::default())
}

/// Asks for input, with a sealed state that the client must return.
fn need_with(
    fixture: &Fixture,
    questions: Vec<(&str, InputRequest)>,
    state: &Value,
) -> Result<CallToolResponse, ErrorData> {
    let sealed = fixture.state.seal_json(state).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let mut result = need(questions);
    result.request_state = Some(sealed);
    Ok(result.into())
}

/// Opens a returned state. The client may have sent anything.
fn open(fixture: &Fixture, state: &str) -> Result<Value, ErrorData> {
    fixture.state.open_json(state).map_err(|_| ErrorData::invalid_params("the state is not one of ours", None))
}

fn several(
    fixture: &Fixture,
    responses: Option<&InputResponses>,
    state: Option<&str>,
) -> Result<CallToolResponse, ErrorData> {
    let has = |question: &str| responses.is_some_and(|responses| responses.get(question).is_some_and(Value::is_object));
    if let Some(state) = state {
        open(fixture, state)?;
        if ["user_name", "greeting", "client_roots"].into_iter().all(has) {
            return Ok(say("All three are here.").into());
        }
    }
    let questions = vec![
        ("user_name", user("Your name?", "name")?),
        ("greeting", model("Write a greeting.")),
        ("client_roots", roots()),
    ];
    need_with(fixture, questions, &json!({}))
}

fn step(fixture: &Fixture, state: Option<&str>) -> Result<CallToolResponse, ErrorData> {
    let done = match state {
        None => 0,
        Some(state) => open(fixture, state)?.get("done").and_then(Value::as_u64).unwrap_or_default(),
    };
    let next = usize::try_from(done).ok().and_then(|done| STEPS.get(done));
    match next {
        Some((question, member)) => {
            let question = (*question, user(&format!("Your {member}?"), member)?);
            need_with(fixture, vec![question], &json!({ "done": done + 1 }))
        }
        None => Ok(say("Both steps are done.").into()),
    }
}

fn able(
    responses: Option<&InputResponses>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    if responses.is_some() {
        return Ok(say("Answered.").into());
    }
    let client = context.client_capabilities().unwrap_or_default();
    let mut questions = Vec::new();
    if client.elicitation.is_some() {
        questions.push(("user_name", user("Your name?", "name")?));
    }
    if client.sampling.is_some() {
        questions.push(("greeting", model("Write a greeting.")));
    }
    if client.roots.is_some() {
        questions.push(("client_roots", roots()));
    }
    Ok(if questions.is_empty() { say("The client can answer nothing.").into() } else { need(questions).into() })
}
