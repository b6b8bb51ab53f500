//! Typed views of the parameters that policies examine. The views copy nothing, so the order of keys and the notation
//! of numbers are preserved.

use std::borrow::Cow;

use gatelodge_json::{JsonKind, JsonValue};

use crate::client_message::{ClientNotification, ClientRequest};
use crate::message_error::{MessageError, code};
use crate::method::Method;
use crate::request_id::RequestId;
use crate::request_meta::RequestMeta;

/// Maximum length of a tool or prompt name in bytes. The protocol recommends 128.
pub const MAX_NAME_BYTES: usize = 256;

/// Parameters of `tools/call`.
#[derive(Debug, Clone)]
pub struct ToolCall<'d> {
    /// The name of the tool.
    pub name: Cow<'d, str>,
    /// The arguments, an object; `None` if absent or null.
    pub arguments: Option<JsonValue<'d>>,
    /// The `_meta` of the call.
    pub meta: RequestMeta<'d>,
}

/// Parameters of `prompts/get`.
#[derive(Debug, Clone)]
pub struct PromptRequest<'d> {
    /// The name of the prompt.
    pub name: Cow<'d, str>,
    /// The arguments, an object; `None` if absent or null.
    pub arguments: Option<JsonValue<'d>>,
}

/// Parameters of `completion/complete`.
#[derive(Debug, Clone)]
pub struct CompletionRequest<'d> {
    /// The prompt or resource whose argument is completed.
    pub reference: CompletionTarget<'d>,
    /// The argument to complete, an object.
    pub argument: JsonValue<'d>,
}

/// The prompt or resource that a completion refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionTarget<'d> {
    /// A prompt, by its name.
    Prompt(Cow<'d, str>),
    /// A resource or template, by its URI.
    Resource(Cow<'d, str>),
}

impl ClientRequest<'_> {
    /// Parses the parameters of a tool call.
    ///
    /// # Errors
    /// `name` is not a string or exceeds [`MAX_NAME_BYTES`], or `arguments` is neither an object nor null.
    pub fn tool_call(&self) -> Result<ToolCall<'_>, MessageError> {
        Ok(ToolCall { name: self.target_name()?, arguments: self.arguments()?, meta: self.meta() })
    }

    /// Parses the parameters of `prompts/get`.
    ///
    /// # Errors
    /// The same as for [`ClientRequest::tool_call`].
    pub fn prompt(&self) -> Result<PromptRequest<'_>, MessageError> {
        Ok(PromptRequest { name: self.target_name()?, arguments: self.arguments()? })
    }

    /// The URI of the resource to read, subscribe to or unsubscribe from.
    ///
    /// # Errors
    /// `uri` is not a string.
    pub fn resource_uri(&self) -> Result<Cow<'_, str>, MessageError> {
        self.required_string("uri")
    }

    /// The task id of a `tasks/…` request.
    ///
    /// # Errors
    /// `taskId` is not a string.
    pub fn task_id(&self) -> Result<Cow<'_, str>, MessageError> {
        self.required_string("taskId")
    }

    /// The cursor of a list request; `None` for the first page.
    ///
    /// # Errors
    /// `cursor` is neither a string nor null.
    pub fn cursor(&self) -> Result<Option<Cow<'_, str>>, MessageError> {
        match self.member("cursor") {
            None => Ok(None),
            Some(value) if value.kind() == JsonKind::Null => Ok(None),
            Some(_) => self.required_string("cursor").map(Some),
        }
    }

    /// Parses the parameters of a completion request.
    ///
    /// # Errors
    /// `ref` is neither a prompt nor a resource reference, or it mixes the two, or `argument` is not an object.
    pub fn completion(&self) -> Result<CompletionRequest<'_>, MessageError> {
        let argument = self.member("argument").filter(|value| value.kind() == JsonKind::Object);
        let argument = argument.ok_or_else(|| self.invalid("argument", "must be an object"))?;
        let error = || self.invalid("ref", "must be `ref/prompt` with a name or `ref/resource` with a URI");
        let reference = self.member("ref").ok_or_else(error)?;
        let string = |member: &str| reference.get(member).and_then(|value| value.as_str());
        let reference = match (string("type").as_deref(), reference.get("name"), reference.get("uri")) {
            (Some("ref/prompt"), Some(_), None) => string("name").map(CompletionTarget::Prompt),
            (Some("ref/resource"), None, Some(_)) => string("uri").map(CompletionTarget::Resource),
            _ => None,
        };
        Ok(CompletionRequest { reference: reference.ok_or_else(error)?, argument })
    }

    /// The value that names the target of the request: a name, a URI or a task id. `None` for methods without a target.
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

    /// Makes an error about a member of the parameters. If the member is missing, the error points to the parameters
    /// instead.
    fn invalid(&self, member: &str, what: &str) -> MessageError {
        let value = self.member(member).or(self.params()).unwrap_or(self.root());
        let what = format!("`params.{member}` {what}");
        MessageError::at_value(code::INVALID_PARAMS, self.source(), value, &what).with_id(Some(self.id().clone()))
    }
}

impl ClientNotification<'_> {
    /// The id of the cancelled request, or the progress token; `None` if absent.
    ///
    /// # Errors
    /// The id or token is neither a string nor an integer.
    pub fn reference(&self) -> Result<Option<RequestId<'_>>, MessageError> {
        let Some(value) = self.reference_value() else { return Ok(None) };
        let what = "the id or token must be a string or an integer";
        let error = || MessageError::at_value(code::INVALID_PARAMS, self.source(), value, what);
        RequestId::of(value, self.source()).map(Some).ok_or_else(error)
    }

    pub(crate) fn reference_value(&self) -> Option<JsonValue<'_>> {
        self.params()?.get(reference_member(self.method())?)
    }
}

/// The member of a notification's parameters that holds a request id or a progress token.
pub(crate) fn reference_member(method: &Method<'_>) -> Option<&'static str> {
    match method {
        Method::Cancelled => Some("requestId"),
        Method::Progress => Some("progressToken"),
        _ => None,
    }
}
