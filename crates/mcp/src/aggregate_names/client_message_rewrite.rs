//! Rewrites messages from clients of the aggregate endpoint for the server that is to receive them. Only the affected
//! values in the JSON text are replaced, and the caller parses the result again.

use gatelodge_json::JsonValue;

use super::server_message_rewrite::RELATED_TASK;
use super::{split_prefixed_name, split_prefixed_uri};
use crate::client_message::{ClientNotification, ClientRequest, ClientResponse, ClientResponsePayload};
use crate::message_rewrite::{TextEdit, splice};
use crate::method::Method;
use crate::request_id::RequestId;
use crate::translate::to_json_string;

/// A subscription target that belongs to none of the client's servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnroutableSubscriptionTarget {
    /// A resource, by its URI.
    Resource(String),
    /// A task, by its id.
    Task(String),
}

impl ClientRequest<'_> {
    /// Returns the server that the request is for, and the request with the server prefix removed from its target.
    /// `None` if the target has no server prefix.
    pub fn to_target_server(&self) -> Option<(String, String)> {
        let value = self.target_value()?;
        let target = value.as_str()?;
        let is_uri = match self.method() {
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => true,
            Method::Complete => self.params()?.get("ref")?.get("uri").is_some(),
            _ => false,
        };
        let (server, own) = if is_uri {
            split_prefixed_uri(&target).map(|(server, own)| (server, own.into_owned()))?
        } else {
            split_prefixed_name(&target).map(|(server, own)| (server, own.to_owned()))?
        };
        let edit = TextEdit { span: value.span(), replacement: to_json_string(&own).into() };
        Some((server.to_owned(), splice(self.text(), vec![edit])))
    }

    /// Returns the URIs and task ids in a `subscriptions/listen` request that have no server prefix or an unknown one.
    pub fn unknown_targets(&self, is_known: impl Fn(&str) -> bool) -> Vec<UnroutableSubscriptionTarget> {
        let is_of_any = |server: Option<&str>| server.is_some_and(&is_known);
        // A value that is not a string cannot name anything, so it is unknown.
        let text =
            |value: JsonValue<'_>| value.as_str().map_or_else(|| value.raw().to_owned(), |text| text.into_owned());
        let uris = self.listen_targets("resourceSubscriptions").map(text);
        let tasks = self.listen_targets("taskIds").map(text);
        let uris = uris.filter(|uri| !is_of_any(split_prefixed_uri(uri).map(|(server, _)| server)));
        let tasks = tasks.filter(|task| !is_of_any(split_prefixed_name(task).map(|(server, _)| server)));
        uris.map(UnroutableSubscriptionTarget::Resource).chain(tasks.map(UnroutableSubscriptionTarget::Task)).collect()
    }

    /// Rewrites a `subscriptions/listen` request so that it keeps only the allowed resources.
    pub fn with_allowed_resources(&self, is_allowed: impl Fn(&str) -> bool) -> String {
        let named = self.params().and_then(|params| params.get("notifications")?.get("resourceSubscriptions"));
        let Some(named) = named else { return self.text().to_owned() };
        let is_kept = |uri: &JsonValue<'_>| uri.as_str().is_some_and(|uri| is_allowed(&uri));
        let kept: Vec<&str> = named.elements().filter(is_kept).map(|uri| uri.raw()).collect();
        let edit = TextEdit { span: named.span(), replacement: format!("[{}]", kept.join(",")).into() };
        splice(self.text(), vec![edit])
    }

    /// Rewrites a `subscriptions/listen` request for one server: it keeps only that server's resources and tasks.
    pub fn listen_request_for(&self, server: &str) -> String {
        let own_uri = |uri: JsonValue<'_>| {
            let uri = uri.as_str()?;
            split_prefixed_uri(&uri).filter(|(own, _)| *own == server).map(|(_, uri)| to_json_string(&uri))
        };
        let own_task = |task: JsonValue<'_>| {
            let task = task.as_str()?;
            split_prefixed_name(&task).filter(|(own, _)| *own == server).map(|(_, task)| to_json_string(task))
        };
        let wanted = self.params().and_then(|params| params.get("notifications"));
        let list = |member: &str, own: &dyn Fn(JsonValue<'_>) -> Option<String>| {
            let list = wanted.and_then(|wanted| wanted.get(member))?;
            let own: Vec<String> = list.elements().filter_map(own).collect();
            Some(TextEdit { span: list.span(), replacement: format!("[{}]", own.join(",")).into() })
        };
        let edits = [list("resourceSubscriptions", &own_uri), list("taskIds", &own_task)];
        splice(self.text(), edits.into_iter().flatten().collect())
    }

    fn listen_targets(&self, member: &str) -> impl Iterator<Item = JsonValue<'_>> {
        let wanted = self.params().and_then(|params| params.get("notifications")?.get(member));
        wanted.into_iter().flat_map(|wanted| wanted.elements())
    }
}

impl ClientNotification<'_> {
    /// Returns the server that this progress notification is for, and the notification with that server's own token.
    pub fn progress_to_target_server(&self) -> Option<(String, String)> {
        let token = self.reference().ok()??;
        let (server, own) = split_prefixed_name(token.as_str()?)?;
        let text = self.with_reference(&RequestId::read(own)?).ok()?;
        Some((server.to_owned(), text))
    }
}

impl ClientResponse<'_> {
    /// Returns the response in the form that the server expects: the server prefix is removed from the id of a related
    /// task.
    pub fn for_server(&self, server: &str) -> String {
        let result = match self.payload() {
            ClientResponsePayload::Result(result) => result,
            ClientResponsePayload::Error(_) => return self.text().to_owned(),
        };
        let task = result.get("_meta").and_then(|meta| meta.get(RELATED_TASK)?.get("taskId"));
        let own = task.and_then(|task| task.as_str()).and_then(|task| {
            // The client may name its own tasks freely, so only this server's prefix is removed.
            split_prefixed_name(&task).filter(|(asked_by, _)| *asked_by == server).map(|(_, own)| to_json_string(own))
        });
        let edits = task.zip(own).map(|(task, own)| TextEdit { span: task.span(), replacement: own.into() });
        splice(self.text(), edits.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use gatelodge_json::JsonLimits;

    use super::UnroutableSubscriptionTarget;
    use crate::client_message::{ClientMessage, ClientRequest, read_client_message};

    fn with_request<T>(method: &str, params: &str, look: impl Fn(&ClientRequest<'_>) -> T) -> T {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let Ok(ClientMessage::Request(request)) = read_client_message(text.as_bytes(), &JsonLimits::REQUEST) else {
            panic!("a request")
        };
        look(&request)
    }

    #[test]
    fn only_the_target_of_a_request_is_rewritten() {
        let one = |method: &str, params: &str| with_request(method, params, |request| request.to_target_server());
        let (server, text) =
            one("tools/call", r#"{ "name":"a-b__c__d", "arguments":{"name":"a-b__x", "n":1.10}}"#).expect("one");
        assert_eq!(server, "a-b");
        assert!(text.contains(r#"{ "name":"c__d", "arguments":{"name":"a-b__x", "n":1.10}}"#), "{text}");
        let (_, text) = one("resources/read", r#"{"uri":"x-a+file:///e"}"#).expect("one");
        assert!(text.contains(r#"{"uri":"file:///e"}"#), "{text}");
        let reference = r#"{"ref":{"type":"ref/resource","uri":"x-a+f:{b}"},"argument":{"name":"a__b"}}"#;
        let (_, text) = one("completion/complete", reference).expect("one");
        assert!(text.contains(r#""uri":"f:{b}"},"argument":{"name":"a__b"}"#), "{text}");
        let (_, text) = one("tasks/get", r#"{"taskId":"a__7"}"#).expect("one");
        assert!(text.contains(r#"{"taskId":"7"}"#), "{text}");
        for (method, params) in
            [("tools/call", r#"{"name":"read"}"#), ("resources/read", r#"{"uri":"a__b"}"#), ("ping", "{}")]
        {
            assert_eq!(one(method, params), None, "{method}");
        }
    }

    #[test]
    fn each_server_gets_only_its_own_subscriptions() {
        let params = r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x-a+f:1","x-b+f:2"],"taskIds":["b__3"]}}"#;
        with_request("subscriptions/listen", params, |request| {
            let own = r#"{"toolsListChanged":true,"resourceSubscriptions":["f:2"],"taskIds":["3"]}"#;
            assert!(request.listen_request_for("b").contains(own));
            assert_eq!(
                request.unknown_targets(|server| server == "b"),
                [UnroutableSubscriptionTarget::Resource("x-a+f:1".to_owned())]
            );
            let of_b = [
                UnroutableSubscriptionTarget::Resource("x-b+f:2".to_owned()),
                UnroutableSubscriptionTarget::Task("b__3".to_owned()),
            ];
            assert_eq!(request.unknown_targets(|server| server == "a"), of_b);
            assert_eq!(request.unknown_targets(|_| true), []);
            let allowed = request.with_allowed_resources(|uri| uri == "x-b+f:2");
            assert!(allowed.contains(r#""resourceSubscriptions":["x-b+f:2"],"taskIds":["b__3"]"#), "{allowed}");
        });
        let unknown = |ids: &str| {
            let params = format!(r#"{{"notifications":{{"taskIds":{ids}}}}}"#);
            with_request("subscriptions/listen", &params, |request| request.unknown_targets(|server| server == "a"))
        };
        assert_eq!(unknown(r#"["a__1","b__3"]"#), [UnroutableSubscriptionTarget::Task("b__3".to_owned())]);
        assert_eq!(unknown("[7]"), [UnroutableSubscriptionTarget::Task("7".to_owned())], "a number names nothing");
    }
}
