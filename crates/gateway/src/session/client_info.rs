//! Name and version of a client, as it declares them. No decision depends on them.

use std::sync::Arc;

use gatelodge_json::JsonValue;

/// Names and versions longer than this are truncated.
const MAX_CLIENT_INFO_CHARS: usize = 128;

/// Declared name and version of a client.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientInfo {
    pub name: Option<String>,
    pub version: Option<String>,
    /// Name and version for the log; `None` if the client declares no name.
    pub display_name: Option<Arc<str>>,
}

impl ClientInfo {
    /// Reads name and version from `clientInfo`, truncated and without control characters.
    pub fn of(info: Option<JsonValue<'_>>) -> Self {
        let text = |member: &str| {
            let value = info?.get(member)?.as_str()?;
            Some(value.chars().filter(|character| !character.is_control()).take(MAX_CLIENT_INFO_CHARS).collect())
        };
        Self::new(text("name"), text("version"))
    }

    pub fn new(name: Option<String>, version: Option<String>) -> Self {
        let display_name = match (&name, &version) {
            (Some(name), Some(version)) => Some(format!("{name} {version}").into()),
            (name, _) => name.as_deref().map(Into::into),
        };
        Self { name, version, display_name }
    }
}
