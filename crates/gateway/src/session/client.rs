//! What a client says of itself. No decision rests on its name.

use gatelodge_json::Value;

/// The most of a client's name that is kept.
const MAX_CLIENT_TEXT: usize = 128;

/// What a client says of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientInfo {
    pub name: Option<String>,
    pub version: Option<String>,
}

impl ClientInfo {
    /// Takes name and version from what a client declares, cut to a fair length and without control characters.
    pub fn of(info: Option<Value<'_>>) -> Self {
        let text = |member: &str| {
            let value = info?.get(member)?.as_str()?;
            Some(value.chars().filter(|character| !character.is_control()).take(MAX_CLIENT_TEXT).collect())
        };
        Self { name: text("name"), version: text("version") }
    }
}
