//! What a client says of itself. No decision rests on its name.

use std::sync::Arc;

use gatelodge_json::JsonValue;

/// The most of a client's name that is kept.
const MAX_CLIENT_INFO_CHARS: usize = 128;

/// What a client says of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientInfo {
    pub name: Option<String>,
    pub version: Option<String>,
    /// Both for the log; none without a name.
    pub display_name: Option<Arc<str>>,
}

impl ClientInfo {
    /// Takes name and version from what a client declares, cut to a fair length and without control characters.
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
