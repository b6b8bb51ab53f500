//! A listener's notification filter, which passes only what the listener requested, the policy allows and the server
//! acknowledged.

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{ClientRequest, Method, RequestId, ServerNotification};

use crate::pipeline::server_message_filter::filter_standalone_notification;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::session::list_changed::{ListChangedSet, SUBSCRIPTION_ID_KEY};
use crate::upstream_session::resource_subscription::AllowedResource;

/// The members of a listen request that the gateway knows.
const KNOWN_NOTIFICATION_KEYS: [&str; 5] =
    ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds"];

/// Selects the notifications for a listener; all others are dropped.
#[derive(Debug, Default)]
pub(crate) struct NotificationFilter {
    pub lists: ListChangedSet,
    pub uris: Vec<String>,
    tasks: Vec<String>,
    /// Members of a listen request that are defined by extensions and not known to the gateway. The methods of their
    /// notifications are not known to it either.
    extension_keys: Vec<String>,
    wants_log: bool,
}

impl NotificationFilter {
    /// Creates a filter for list changes and resource updates, and optionally for log messages.
    pub fn of(lists: ListChangedSet, uris: Vec<String>, wants_log: bool) -> Self {
        Self { lists, uris, wants_log, ..Self::default() }
    }

    /// Creates a filter from a listen request and the resources that the grant may watch.
    pub fn from_request(request: &ClientRequest<'_>, allowed: &[AllowedResource]) -> Self {
        let named = request.params().and_then(|params| params.get("notifications"));
        let uris = allowed.iter().map(|allowed| allowed.uri().to_owned()).collect();
        Self { uris, wants_log: request.meta().log_level().is_some(), ..Self::from_notifications(named) }
    }

    /// Creates a filter from the notifications named in a listen request or an acknowledgement.
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

    /// Restricts the filter to what the server acknowledged.
    pub fn restrict_to_acknowledged(self, params: &str) -> Self {
        let document = read(params.as_bytes(), &JsonLimits::REPLY).ok();
        let acknowledged =
            Self::from_notifications(document.as_ref().and_then(|document| document.root().get("notifications")));
        let both = |requested: Vec<String>, acknowledged: &[String]| {
            requested.into_iter().filter(|own| acknowledged.contains(own)).collect()
        };
        Self {
            lists: self.lists.intersection(acknowledged.lists),
            uris: both(self.uris, &acknowledged.uris),
            tasks: both(self.tasks, &acknowledged.tasks),
            extension_keys: both(self.extension_keys, &acknowledged.extension_keys),
            wants_log: self.wants_log,
        }
    }

    /// Returns whether a notification is for this listener.
    pub fn matches(&self, notification: &ServerNotification<'_>) -> bool {
        let is_of = |member: &str, fits: &dyn Fn(&str) -> bool| {
            let document = notification.params().and_then(|params| read(params.as_bytes(), &JsonLimits::REPLY).ok());
            let value = document.as_ref().and_then(|document| document.root().get(member)?.as_str());
            value.is_some_and(|value| fits(&value))
        };
        match notification.method() {
            Method::ResourceUpdated => is_of("uri", &|uri| self.uris.iter().any(|own| is_within(uri, own))),
            Method::TaskChanged => is_of("taskId", &|task| self.tasks.iter().any(|own| own == task)),
            Method::LogMessage => self.wants_log,
            Method::Other(_) => !self.extension_keys.is_empty(),
            method => self.lists.contains(method),
        }
    }

    /// Returns the part of a notification that this listener may receive. The notification is always processed first,
    /// because it may invalidate the tool listing.
    pub async fn filter_notification(
        &self,
        gw: &GatewayServices,
        ctx: &RequestContext,
        notification: &ServerNotification<'_>,
    ) -> Option<String> {
        let text = filter_standalone_notification(gw, ctx, notification).await.filter(|_| self.matches(notification));
        if text.is_none() {
            gw.metrics.count_dropped_message();
        }
        text
    }

    /// Builds the acknowledgement for the client.
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

    /// Removes everything that was not requested from a server's acknowledgement. Returns `None` if the acknowledgement
    /// cannot be read.
    pub fn restrict_acknowledgement(&self, text: &str) -> Option<String> {
        let document = read(text.as_bytes(), &JsonLimits::REPLY).ok()?;
        let named = document.root().get("params")?.get("notifications").filter(|own| own.kind() == JsonKind::Object)?;
        let members = named.members().filter_map(|(key, value)| {
            let own = match key.as_str()?.as_ref() {
                "resourceSubscriptions" => requested_elements(value, &self.uris),
                "taskIds" => requested_elements(value, &self.tasks),
                name if KNOWN_NOTIFICATION_KEYS.contains(&name) => {
                    let is_requested =
                        self.lists.to_json_members().iter().any(|own| own.contains(&to_json_string(name)));
                    is_requested.then(|| value.raw().to_owned())?
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

/// Returns the requested elements of a list, unchanged.
fn requested_elements(list: JsonValue<'_>, requested: &[String]) -> String {
    let is_requested =
        |own: &JsonValue<'_>| own.as_str().is_some_and(|own| requested.iter().any(|requested| *requested == own));
    let own: Vec<&str> = list.elements().filter(is_requested).map(|own| own.raw()).collect();
    format!("[{}]", own.join(","))
}

/// Returns whether a resource is the requested one or is contained in it: a server may send notifications for
/// sub-resources.
fn is_within(uri: &str, requested: &str) -> bool {
    let rest = uri.strip_prefix(requested);
    rest.is_some_and(|rest| rest.is_empty() || requested.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contained_resources_are_distinguished_from_those_with_a_common_prefix() {
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
