//! Requests of the server to the client during a call, and the schemas they ask with.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationSchema, InputRequest, InputRequiredResult, InputResponses,
    ProtocolVersion,
};
use rmcp::service::{Peer, RequestContext, ServiceError};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

type Asking<'a> = Pin<Box<dyn Future<Output = Result<Value, ServiceError>> + Send + 'a>>;

/// Sends all input requests of a result to the client at once. Returns `None` for stateless clients, for which the
/// result itself carries the requests.
pub async fn responses(
    needed: &InputRequiredResult,
    context: &RequestContext<RoleServer>,
) -> Result<Option<InputResponses>, ErrorData> {
    if context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28) {
        return Ok(None);
    }
    let wanted = needed.input_requests.clone().unwrap_or_default();
    let names: Vec<String> = wanted.keys().cloned().collect();
    let asking: Vec<Asking<'_>> = wanted
        .into_iter()
        .map(|(name, question)| Box::pin(ask(&context.peer, named(name, question))) as Asking<'_>)
        .collect();
    let mut responses = InputResponses::new();
    for (name, answer) in names.into_iter().zip(join_all(asking).await) {
        responses.insert(name, answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?);
    }
    Ok(Some(responses))
}

/// Adds the key of the request to its `_meta`: a session has no other place for it.
fn named(name: String, mut question: InputRequest) -> InputRequest {
    if let InputRequest::Elicitation(ElicitRequest { params, .. }) = &mut question
        && let ElicitRequestParams::FormElicitationParams { meta, .. } = params
    {
        meta.get_or_insert_default().insert("gatelodge/inputKey".to_owned(), name.into());
    }
    question
}

async fn ask(peer: &Peer<RoleServer>, question: InputRequest) -> Result<Value, ServiceError> {
    Ok(match question {
        InputRequest::CreateMessage(question) => json!(peer.create_message(question.params).await?),
        InputRequest::Elicitation(question) => json!(peer.create_elicitation(question.params).await?),
        InputRequest::ListRoots(_) => json!(peer.list_roots().await?),
        _ => return Err(ServiceError::UnexpectedResponse),
    })
}

/// Awaits all requests in this one task: the SDK finds the stream of a call by the task.
async fn join_all(mut asking: Vec<Asking<'_>>) -> Vec<Result<Value, ServiceError>> {
    let mut responses: Vec<Option<_>> = asking.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (asking, answer) in asking.iter_mut().zip(&mut responses).filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(ready) = asking.as_mut().poll(context) {
                *answer = Some(ready);
            }
        }
        if responses.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    responses.into_iter().flatten().collect()
}

/// Returns an elicitation form.
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

/// One member of each type, with the default that the suite expects.
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
