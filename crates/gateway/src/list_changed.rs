//! Which lists a client is told of when they are others than before: never of one that it was not promised.

use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::{Method, RequestId};
use gatelodge_mutants::mutant;

/// Where a notification names the request that listens for it.
pub(crate) const SUBSCRIPTION_ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// The lists whose changes are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListChangedSet {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
}

impl ListChangedSet {
    pub const ALL: Self = Self { tools: true, prompts: true, resources: true };

    /// Those of which a server says that it tells: in the result of its handshake, or of `server/discover`.
    pub fn advertised(server_info: &[u8]) -> Self {
        let server_info = read(server_info, &JsonLimits::REPLY).ok();
        let capabilities = server_info.as_ref().and_then(|server_info| server_info.root().get("capabilities"));
        let tells = |group: &str| {
            let group = capabilities.and_then(|own| own.get(group));
            is_true(group, "listChanged") || (mutant!("list-change-without-capability") && group.is_some())
        };
        Self { tools: tells("tools"), prompts: tells("prompts"), resources: tells("resources") }
    }

    /// Those that a request to listen, or the answer to it, names.
    pub fn from_listen_request(notifications: Option<JsonValue<'_>>) -> Self {
        let is_named = |method: &Method<'_>| is_true(notifications, listen_member(method));
        Self {
            tools: is_named(&Method::ToolsListChanged),
            prompts: is_named(&Method::PromptsListChanged),
            resources: is_named(&Method::ResourcesListChanged),
        }
    }

    /// Those that are in both.
    pub fn intersection(self, other: Self) -> Self {
        Self {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
        }
    }

    /// Whether the client is told of this one.
    pub fn contains(self, method: &Method<'_>) -> bool {
        self.methods().any(|own| own == *method)
    }

    /// How the client is told of each.
    pub fn methods(self) -> impl Iterator<Item = Method<'static>> {
        let all = [
            (Method::ToolsListChanged, self.tools),
            (Method::PromptsListChanged, self.prompts),
            (Method::ResourcesListChanged, self.resources),
        ];
        all.into_iter().filter(|(_, is_told)| *is_told).map(|(method, _)| method)
    }

    /// As members of an object that names them.
    pub fn to_json_members(self) -> Vec<String> {
        self.methods().map(|method| format!("\"{}\":true", listen_member(&method))).collect()
    }
}

/// The notification that a list is another one now.
pub(crate) fn list_changed_notification(method: &Method<'_>) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, method.name())
}

/// The same for a client that listens by a request of this id.
pub(crate) fn list_changed_notification_for(method: &Method<'_>, id: &RequestId<'_>) -> String {
    let params = format!(r#"{{"_meta":{{"{SUBSCRIPTION_ID_KEY}":{id}}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"{}","params":{params}}}"#, method.name())
}

/// By which name a client asks to hear that a list is another one.
fn listen_member(method: &Method<'_>) -> &'static str {
    match method {
        Method::PromptsListChanged => "promptsListChanged",
        Method::ResourcesListChanged => "resourcesListChanged",
        _ => "toolsListChanged",
    }
}

fn is_true(object: Option<JsonValue<'_>>, name: &str) -> bool {
    object.and_then(|object| object.get(name)).is_some_and(|value| value.as_bool() == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_promised_in_so_many_words_is_told() {
        let server_info =
            br#"{"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":"true"}}}"#;
        assert_eq!(
            ListChangedSet::advertised(server_info),
            ListChangedSet { tools: true, ..ListChangedSet::default() }
        );
        for other in [&b""[..], b"[]", br#"{"capabilities":[]}"#, br#"{"tools":{"listChanged":true}}"#] {
            assert_eq!(ListChangedSet::advertised(other), ListChangedSet::default());
        }
        assert_eq!(
            ListChangedSet::ALL.intersection(ListChangedSet::advertised(server_info)).to_json_members(),
            [r#""toolsListChanged":true"#]
        );
    }
}
