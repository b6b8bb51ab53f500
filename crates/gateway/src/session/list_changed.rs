//! The lists (tools, prompts, resources) for which a client receives `list_changed` notifications.
//!
//! A client is never notified about a list unless `listChanged` was advertised to it.

use gatelodge_json::{JsonLimits, JsonValue, read};
use gatelodge_mcp::{Method, RequestId};
use gatelodge_mutants::mutant;

/// `_meta` key under which a notification names the request that created the subscription.
pub(crate) const SUBSCRIPTION_ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// A set of lists (tools, prompts, resources).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListChangedSet {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
}

impl ListChangedSet {
    pub const ALL: Self = Self { tools: true, prompts: true, resources: true };

    /// Returns the lists for which a server advertises `listChanged`, from its `initialize` or `server/discover`
    /// result.
    pub fn advertised(server_info: &[u8]) -> Self {
        let server_info = read(server_info, &JsonLimits::REPLY).ok();
        let capabilities = server_info.as_ref().and_then(|server_info| server_info.root().get("capabilities"));
        let is_advertised = |group: &str| {
            let group = capabilities.and_then(|own| own.get(group));
            is_true(group, "listChanged") || (mutant!("list-change-without-capability") && group.is_some())
        };
        Self { tools: is_advertised("tools"), prompts: is_advertised("prompts"), resources: is_advertised("resources") }
    }

    /// Returns the lists named in a `subscriptions/listen` request or in its acknowledgement.
    pub fn from_listen_request(notifications: Option<JsonValue<'_>>) -> Self {
        let is_named = |method: &Method<'_>| is_true(notifications, listen_member(method));
        Self {
            tools: is_named(&Method::ToolsListChanged),
            prompts: is_named(&Method::PromptsListChanged),
            resources: is_named(&Method::ResourcesListChanged),
        }
    }

    pub fn intersection(self, other: Self) -> Self {
        Self {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
        }
    }

    /// Returns whether the set contains the list whose changes `method` announces.
    pub fn contains(self, method: &Method<'_>) -> bool {
        self.methods().any(|own| own == *method)
    }

    /// Returns the notification method of each list in the set.
    pub fn methods(self) -> impl Iterator<Item = Method<'static>> {
        let all = [
            (Method::ToolsListChanged, self.tools),
            (Method::PromptsListChanged, self.prompts),
            (Method::ResourcesListChanged, self.resources),
        ];
        all.into_iter().filter(|(_, is_included)| *is_included).map(|(method, _)| method)
    }

    /// Returns the set as JSON object members, with the names that `subscriptions/listen` uses.
    pub fn to_json_members(self) -> Vec<String> {
        self.methods().map(|method| format!("\"{}\":true", listen_member(&method))).collect()
    }
}

/// Returns a `list_changed` notification.
pub(crate) fn list_changed_notification(method: &Method<'_>) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, method.name())
}

/// Returns a `list_changed` notification for a client that subscribed with the request `id`.
pub(crate) fn list_changed_notification_for(method: &Method<'_>, id: &RequestId<'_>) -> String {
    let params = format!(r#"{{"_meta":{{"{SUBSCRIPTION_ID_KEY}":{id}}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"{}","params":{params}}}"#, method.name())
}

/// Returns the member of `subscriptions/listen` that corresponds to a notification method.
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
    fn only_lists_advertised_with_true_are_included() {
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
