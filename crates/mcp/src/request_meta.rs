//! The members of `params._meta` that the protocol defines. Their types are checked when the message is parsed.

use std::borrow::Cow;

use gatelodge_json::{JsonDocumentText, JsonKind, JsonValue};

use crate::client_message::reject_confusable_members;
use crate::confusable_members::META_MEMBERS;
use crate::message_error::{MessageError, code};
use crate::request_id::RequestId;

pub(crate) const PROTOCOL_VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const CLIENT_CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";

/// Maximum size of `_meta` in bytes. Trace context and client capabilities take a few thousand bytes at most.
const MAX_META_BYTES: usize = 64 << 10;

/// The `_meta` of a message, which may be absent. Clients write it themselves, so no decision relies on what it says
/// about the client.
#[derive(Debug, Clone, Copy)]
pub struct RequestMeta<'d> {
    value: Option<JsonValue<'d>>,
    text: JsonDocumentText<'d>,
}

impl<'d> RequestMeta<'d> {
    pub(crate) fn new(value: Option<JsonValue<'d>>, text: JsonDocumentText<'d>) -> Self {
        Self { value, text }
    }

    /// The whole object; `None` if the message has no `_meta`.
    pub fn value(&self) -> Option<JsonValue<'d>> {
        self.value
    }

    /// The token for progress notifications to the client.
    pub fn progress_token(&self) -> Option<RequestId<'d>> {
        RequestId::of(self.get("progressToken")?, self.text)
    }

    /// The protocol revision that the client uses, as written.
    pub fn protocol_version(&self) -> Option<Cow<'d, str>> {
        self.get(PROTOCOL_VERSION_KEY)?.as_str()
    }

    /// Name and version of the client.
    pub fn client_info(&self) -> Option<JsonValue<'d>> {
        self.get(CLIENT_INFO_KEY)
    }

    /// The client's capabilities.
    pub fn client_capabilities(&self) -> Option<JsonValue<'d>> {
        self.get(CLIENT_CAPABILITIES_KEY)
    }

    /// The minimum severity of log messages sent to the client.
    pub fn log_level(&self) -> Option<Cow<'d, str>> {
        self.get(LOG_LEVEL_KEY)?.as_str()
    }

    pub(crate) fn get(&self, name: &str) -> Option<JsonValue<'d>> {
        self.value?.get(name)
    }
}

/// Refuses a `_meta` with confusable members or members of the wrong type.
pub(crate) fn check_meta_members(text: JsonDocumentText<'_>, meta: JsonValue<'_>) -> Result<(), MessageError> {
    let invalid = |value, what: &str| Err(MessageError::at_value(code::INVALID_PARAMS, text, value, what));
    if meta.kind() != JsonKind::Object {
        return invalid(meta, "`params._meta` must be an object");
    }
    if meta.raw().len() > MAX_META_BYTES {
        let what = format!("`params._meta` has more than {MAX_META_BYTES} bytes");
        return Err(MessageError::at_value(code::INVALID_REQUEST, text, meta, &what));
    }
    reject_confusable_members(text, meta, META_MEMBERS)?;
    for (key, value) in meta.members() {
        let kind = value.kind();
        match key.as_str().as_deref() {
            Some("progressToken") if RequestId::of(value, text).is_none() => {
                return invalid(value, "`params._meta.progressToken` must be a string or an integer");
            }
            Some(name @ (PROTOCOL_VERSION_KEY | LOG_LEVEL_KEY)) if kind != JsonKind::String => {
                return invalid(value, &format!("`{name}` in `params._meta` must be a string"));
            }
            Some(name @ (CLIENT_INFO_KEY | CLIENT_CAPABILITIES_KEY)) if kind != JsonKind::Object => {
                return invalid(value, &format!("`{name}` in `params._meta` must be an object"));
            }
            _ => {}
        }
    }
    Ok(())
}
