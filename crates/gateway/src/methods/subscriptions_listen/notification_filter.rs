//! What a listener hears of: what it asked for, the policy lets it hear, and the server says it tells of.

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{ClientRequest, Method, RequestId, ServerNotification};

use crate::Gateway;
use crate::list_changed::{ListChangedSet, SUBSCRIPTION_ID_KEY};
use crate::methods::unsolicited_messages::{AllowedResource, filter_standalone_notification};
use crate::request_context::RequestContext;

/// What a request to listen names that we know.
const KNOWN_NOTIFICATION_KEYS: [&str; 5] =
    ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds"];

/// What a listener gets. Everything else is nobody's.
#[derive(Debug, Default)]
pub(crate) struct NotificationFilter {
    pub lists: ListChangedSet,
    pub uris: Vec<String>,
    tasks: Vec<String>,
    /// By names that nobody here knows, of extensions. What is told of them has names of their own.
    extension_keys: Vec<String>,
    wants_log: bool,
}

impl NotificationFilter {
    /// Of lists and resources alone, and of log messages where they are wanted.
    pub fn of(lists: ListChangedSet, uris: Vec<String>, wants_log: bool) -> Self {
        Self { lists, uris, wants_log, ..Self::default() }
    }

    /// What a client asks for, as far as the grant may hear of it.
    pub fn from_request(request: &ClientRequest<'_>, allowed: &[AllowedResource]) -> Self {
        let named = request.params().and_then(|params| params.get("notifications"));
        let uris = allowed.iter().map(|allowed| allowed.uri().to_owned()).collect();
        Self { uris, wants_log: request.meta().log_level().is_some(), ..Self::from_notifications(named) }
    }

    /// What a request, or the answer to it, names.
    fn from_notifications(named: Option<JsonValue<'_>>) -> Self {
        let members = named.iter().flat_map(|named| named.members());
        let others =
            members.filter_map(|(key, _)| key.as_str()).filter(|key| !KNOWN_NOTIFICATION_KEYS.contains(&&**key));
        Self {
            lists: ListChangedSet::from_listen_request(named),
            uris: string_list(named, "resourceSubscriptions"),
            tasks: string_list(named, "taskIds"),
            extension_keys: others.map(|key| key.into_owned()).collect(),
            wants_log: false,
        }
    }

    /// Of that, what a server says that it tells of.
    pub fn restrict_to_acknowledged(self, params: &str) -> Self {
        let document = read(params.as_bytes(), &JsonLimits::REPLY).ok();
        let said =
            Self::from_notifications(document.as_ref().and_then(|document| document.root().get("notifications")));
        let both = |asked: Vec<String>, said: &[String]| asked.into_iter().filter(|own| said.contains(own)).collect();
        Self {
            lists: self.lists.intersection(said.lists),
            uris: both(self.uris, &said.uris),
            tasks: both(self.tasks, &said.tasks),
            extension_keys: both(self.extension_keys, &said.extension_keys),
            wants_log: self.wants_log,
        }
    }

    /// Whether a notification is for this listener.
    pub fn matches(&self, said: &ServerNotification<'_>) -> bool {
        let is_of = |member: &str, fits: &dyn Fn(&str) -> bool| {
            let document = said.params().and_then(|params| read(params.as_bytes(), &JsonLimits::REPLY).ok());
            let value = document.as_ref().and_then(|document| document.root().get(member)?.as_str());
            value.is_some_and(|value| fits(&value))
        };
        match said.method() {
            Method::ResourceUpdated => is_of("uri", &|uri| self.uris.iter().any(|own| is_within(uri, own))),
            Method::TaskChanged => is_of("taskId", &|task| self.tasks.iter().any(|own| own == task)),
            Method::LogMessage => self.wants_log,
            Method::Other(_) => !self.extension_keys.is_empty(),
            method => self.lists.contains(method),
        }
    }

    /// What of a notification goes to this listener. It is judged first, whoever asked for it: what changed at the server
    /// is noted then, too.
    pub async fn filter_notification(
        &self,
        gw: &Gateway,
        ctx: &RequestContext,
        said: &ServerNotification<'_>,
    ) -> Option<String> {
        let text = filter_standalone_notification(gw, ctx, said).await.filter(|_| self.matches(said));
        if text.is_none() {
            gw.metrics.count_dropped_message();
        }
        text
    }

    /// As the client is told what it will hear of.
    pub fn acknowledgement(&self, id: &RequestId<'_>) -> String {
        let mut members = self.lists.to_json_members();
        if !self.uris.is_empty() {
            let uris: Vec<String> = self.uris.iter().map(|uri| to_json_string(uri)).collect();
            members.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{{"notifications":{{{}}},"_meta":{{"{SUBSCRIPTION_ID_KEY}":{id}}}}}}}"#,
            Method::SubscriptionsAcknowledged.name(),
            members.join(",")
        )
    }

    /// What a server says that it tells of, without what was not asked for. None if it cannot be read.
    pub fn restrict_acknowledgement(&self, text: &str) -> Option<String> {
        let document = read(text.as_bytes(), &JsonLimits::REPLY).ok()?;
        let named = document.root().get("params")?.get("notifications").filter(|own| own.kind() == JsonKind::Object)?;
        let members = named.members().filter_map(|(key, value)| {
            let own = match key.as_str()?.as_ref() {
                "resourceSubscriptions" => requested_elements(value, &self.uris),
                "taskIds" => requested_elements(value, &self.tasks),
                name if KNOWN_NOTIFICATION_KEYS.contains(&name) => {
                    let is_asked = self.lists.to_json_members().iter().any(|own| own.contains(&to_json_string(name)));
                    is_asked.then(|| value.raw().to_owned())?
                }
                name => self.extension_keys.iter().any(|own| own == name).then(|| value.raw().to_owned())?,
            };
            Some(format!("{}:{own}", key.raw()))
        });
        let (start, end) = named.span();
        let members = members.collect::<Vec<_>>().join(",");
        Some(format!("{}{{{members}}}{}", text.get(..start)?, text.get(end..)?))
    }
}

fn string_list(named: Option<JsonValue<'_>>, member: &str) -> Vec<String> {
    let list = named.and_then(|named| named.get(member));
    list.iter().flat_map(|list| list.elements()).filter_map(|own| Some(own.as_str()?.into_owned())).collect()
}

/// The elements of a list that were asked for, as they are written.
fn requested_elements(list: JsonValue<'_>, asked: &[String]) -> String {
    let is_asked = |own: &JsonValue<'_>| own.as_str().is_some_and(|own| asked.iter().any(|asked| *asked == own));
    let own: Vec<&str> = list.elements().filter(is_asked).map(|own| own.raw()).collect();
    format!("[{}]", own.join(","))
}

/// Whether a resource is the one that was asked for, or in it: a server may tell of what is in a resource.
fn is_within(uri: &str, asked: &str) -> bool {
    let rest = uri.strip_prefix(asked);
    rest.is_some_and(|rest| rest.is_empty() || asked.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_resource_is_told_from_what_only_begins_alike() {
        for (uri, is_in) in [
            ("file:///a", true),
            ("file:///a/b", true),
            ("file:///a#b", true),
            ("file:///a?b", true),
            ("file:///ab", false),
            ("file:///", false),
        ] {
            assert_eq!(is_within(uri, "file:///a"), is_in, "{uri}");
        }
        assert!(is_within("file:///a/b", "file:///a/") && !is_within("file:///a", "file:///a/"));
    }
}
