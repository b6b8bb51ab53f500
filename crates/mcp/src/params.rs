//! Typed views of the parameters that are judged. They copy nothing: key order and number spelling stay.

use std::borrow::Cow;

use gatelodge_json::{JsonKind, JsonValue};

use crate::client_message::{ClientNotification, ClientRequest};
use crate::message_error::{MessageError, code};
use crate::method::Method;
use crate::request_id::RequestId;
use crate::request_meta::RequestMeta;

/// The most bytes of the name of a tool or prompt. The protocol advises 128.
pub const MAX_NAME_BYTES: usize = 256;

/// What `tools/call` asks for.
#[derive(Debug, Clone)]
pub struct ToolCall<'d> {
    /// The name of the tool.
    pub name: Cow<'d, str>,
    /// The arguments, an object; none if they are absent or null.
    pub arguments: Option<JsonValue<'d>>,
    /// The `_meta` of the call.
    pub meta: RequestMeta<'d>,
}

/// What `prompts/get` asks for.
#[derive(Debug, Clone)]
pub struct PromptRequest<'d> {
    /// The name of the prompt.
    pub name: Cow<'d, str>,
    /// The arguments, an object; none if they are absent or null.
    pub arguments: Option<JsonValue<'d>>,
}

/// What `completion/complete` asks for.
#[derive(Debug, Clone)]
pub struct CompletionRequest<'d> {
    /// What is completed.
    pub reference: CompletionTarget<'d>,
    /// The argument that is completed, an object.
    pub argument: JsonValue<'d>,
}

/// What a completion refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionTarget<'d> {
    /// A prompt, by its name.
    Prompt(Cow<'d, str>),
    /// A resource or template, by its URI.
    Resource(Cow<'d, str>),
}

impl ClientRequest<'_> {
    /// The tool call.
    ///
    /// # Errors
    /// `name` is not a string of a fair length, or `arguments` is something other than an object or null.
    pub fn tool_call(&self) -> Result<ToolCall<'_>, MessageError> {
        Ok(ToolCall { name: self.target_name()?, arguments: self.arguments()?, meta: self.meta() })
    }

    /// The prompt that is asked for.
    ///
    /// # Errors
    /// As for [`ClientRequest::tool_call`].
    pub fn prompt(&self) -> Result<PromptRequest<'_>, MessageError> {
        Ok(PromptRequest { name: self.target_name()?, arguments: self.arguments()? })
    }

    /// The URI of the resource that is read, subscribed to or unsubscribed from.
    ///
    /// # Errors
    /// `uri` is not a string.
    pub fn resource_uri(&self) -> Result<Cow<'_, str>, MessageError> {
        self.required_string("uri")
    }

    /// The task that is asked about.
    ///
    /// # Errors
    /// `taskId` is not a string.
    pub fn task_id(&self) -> Result<Cow<'_, str>, MessageError> {
        self.required_string("taskId")
    }

    /// Where a list goes on; none for its beginning.
    ///
    /// # Errors
    /// `cursor` is something other than a string or null.
    pub fn cursor(&self) -> Result<Option<Cow<'_, str>>, MessageError> {
        match self.member("cursor") {
            None => Ok(None),
            Some(value) if value.kind() == JsonKind::Null => Ok(None),
            Some(_) => self.required_string("cursor").map(Some),
        }
    }

    /// The completion that is asked for.
    ///
    /// # Errors
    /// `ref` is neither of the two forms, or both at once; `argument` is not an object.
    pub fn completion(&self) -> Result<CompletionRequest<'_>, MessageError> {
        let argument = self.member("argument").filter(|value| value.kind() == JsonKind::Object);
        let argument = argument.ok_or_else(|| self.invalid("argument", "must be an object"))?;
        let fault = || self.invalid("ref", "must be `ref/prompt` with a name or `ref/resource` with a URI");
        let reference = self.member("ref").ok_or_else(fault)?;
        let string = |member: &str| reference.get(member).and_then(|value| value.as_str());
        let reference = match (string("type").as_deref(), reference.get("name"), reference.get("uri")) {
            (Some("ref/prompt"), Some(_), None) => string("name").map(CompletionTarget::Prompt),
            (Some("ref/resource"), None, Some(_)) => string("uri").map(CompletionTarget::Resource),
            _ => None,
        };
        Ok(CompletionRequest { reference: reference.ok_or_else(fault)?, argument })
    }

    /// The one value that says what the method is about: a name, a URI or a task; none for other methods.
    pub(crate) fn target_value(&self) -> Option<JsonValue<'_>> {
        match self.method() {
            Method::ToolsCall | Method::PromptsGet => self.member("name"),
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => self.member("uri"),
            Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => self.member("taskId"),
            Method::Complete => {
                let reference = self.member("ref")?;
                reference.get("name").or(reference.get("uri"))
            }
            _ => None,
        }
    }

    fn member(&self, name: &str) -> Option<JsonValue<'_>> {
        self.params()?.get(name)
    }

    fn target_name(&self) -> Result<Cow<'_, str>, MessageError> {
        let name = self.required_string("name")?;
        if name.len() > MAX_NAME_BYTES {
            return Err(self.invalid("name", &format!("has more than {MAX_NAME_BYTES} bytes")));
        }
        Ok(name)
    }

    fn arguments(&self) -> Result<Option<JsonValue<'_>>, MessageError> {
        match self.member("arguments") {
            None => Ok(None),
            Some(value) => match value.kind() {
                JsonKind::Object => Ok(Some(value)),
                JsonKind::Null => Ok(None),
                kind => Err(self.invalid("arguments", &format!("must be an object, not {}", kind.with_article()))),
            },
        }
    }

    fn required_string(&self, name: &str) -> Result<Cow<'_, str>, MessageError> {
        match self.member(name) {
            None => Err(self.invalid(name, "is missing")),
            Some(value) => value.as_str().ok_or_else(|| self.invalid(name, "must be a string")),
        }
    }

    /// Refuses the parameters for one of their members, which may be missing.
    fn invalid(&self, member: &str, what: &str) -> MessageError {
        let place = self.member(member).or(self.params()).unwrap_or(self.root());
        let what = format!("`params.{member}` {what}");
        MessageError::at_value(code::INVALID_PARAMS, self.source(), place, &what).with_id(Some(self.id().clone()))
    }
}

impl ClientNotification<'_> {
    /// The request that is cancelled, or the token whose progress is told; none if it is absent.
    ///
    /// # Errors
    /// It is neither a string nor an integer.
    pub fn reference(&self) -> Result<Option<RequestId<'_>>, MessageError> {
        let Some(value) = self.reference_value() else { return Ok(None) };
        let what = "the id or token must be a string or an integer";
        let fault = || MessageError::at_value(code::INVALID_PARAMS, self.source(), value, what);
        RequestId::of(value, self.source()).map(Some).ok_or_else(fault)
    }

    pub(crate) fn reference_value(&self) -> Option<JsonValue<'_>> {
        self.params()?.get(reference_member(self.method())?)
    }
}

/// The member of a notification's parameters that names a request or a token of either side.
pub(crate) fn reference_member(method: &Method<'_>) -> Option<&'static str> {
    match method {
        Method::Cancelled => Some("requestId"),
        Method::Progress => Some("progressToken"),
        _ => None,
    }
}
