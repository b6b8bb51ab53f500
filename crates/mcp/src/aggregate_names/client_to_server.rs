//! What a client of many servers says, as one of them gets it. The text is edited where names stand, and read anew.

use gatelodge_json::JsonValue;

use super::server_to_client::RELATED_TASK;
use super::{split_prefixed_name, split_prefixed_uri};
use crate::client_message::{ClientNotification, ClientRequest, ClientResponse, ClientResponsePayload};
use crate::message_rewrite::{TextEdit, splice};
use crate::method::Method;
use crate::request_id::RequestId;
use crate::translate::to_json_string;

/// What a client wants to hear of that no server of it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownTarget {
    /// A resource, by its URI.
    Resource(String),
    /// A task, by its id.
    Task(String),
}

impl ClientRequest<'_> {
    /// The server that the request is for, and the request as that server gets it. None if it names nothing of one.
    pub fn to_target_server(&self) -> Option<(String, String)> {
        let place = self.target_value()?;
        let target = place.as_str()?;
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
        let edit = TextEdit { span: place.span(), replacement: to_json_string(&own).into() };
        Some((server.to_owned(), splice(self.text(), vec![edit])))
    }

    /// What a request to listen names that is of no server, or of one that is not among these: URIs and tasks.
    pub fn unknown_targets(&self, is_known: impl Fn(&str) -> bool) -> Vec<UnknownTarget> {
        let is_of_any = |server: Option<&str>| server.is_some_and(&is_known);
        // What is no text names nothing.
        let text =
            |value: JsonValue<'_>| value.as_str().map_or_else(|| value.raw().to_owned(), |text| text.into_owned());
        let uris = self.listen_targets("resourceSubscriptions").map(text);
        let tasks = self.listen_targets("taskIds").map(text);
        let uris = uris.filter(|uri| !is_of_any(split_prefixed_uri(uri).map(|(server, _)| server)));
        let tasks = tasks.filter(|task| !is_of_any(split_prefixed_name(task).map(|(server, _)| server)));
        uris.map(UnknownTarget::Resource).chain(tasks.map(UnknownTarget::Task)).collect()
    }

    /// A request to listen with just those of the resources it names that may be heard of.
    pub fn with_allowed_resources(&self, may_hear: impl Fn(&str) -> bool) -> String {
        let named = self.params().and_then(|params| params.get("notifications")?.get("resourceSubscriptions"));
        let Some(named) = named else { return self.text().to_owned() };
        let is_heard = |uri: &JsonValue<'_>| uri.as_str().is_some_and(|uri| may_hear(&uri));
        let heard: Vec<&str> = named.elements().filter(is_heard).map(|uri| uri.raw()).collect();
        let edit = TextEdit { span: named.span(), replacement: format!("[{}]", heard.join(",")).into() };
        splice(self.text(), vec![edit])
    }

    /// A request to listen as one server gets it: with what is its own of what the client names.
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
    /// The server whose question it tells the progress of, and the text as that server gets it.
    pub fn progress_to_target_server(&self) -> Option<(String, String)> {
        let token = self.reference().ok()??;
        let (server, own) = split_prefixed_name(token.as_str()?)?;
        let text = self.with_reference(&RequestId::read(own)?).ok()?;
        Some((server.to_owned(), text))
    }
}

impl ClientResponse<'_> {
    /// The answer as the server gets it that asked: what it says of a task of the server has the server's own id.
    pub fn for_server(&self, server: &str) -> String {
        let result = match self.payload() {
            ClientResponsePayload::Result(result) => result,
            ClientResponsePayload::Error(_) => return self.text().to_owned(),
        };
        let task = result.get("_meta").and_then(|meta| meta.get(RELATED_TASK)?.get("taskId"));
        let own = task.and_then(|task| task.as_str()).and_then(|task| {
            // A task of the client's own may be called anything.
            split_prefixed_name(&task).filter(|(asked_by, _)| *asked_by == server).map(|(_, own)| to_json_string(own))
        });
        let edits = task.zip(own).map(|(task, own)| TextEdit { span: task.span(), replacement: own.into() });
        splice(self.text(), edits.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use gatelodge_json::JsonLimits;

    use super::UnknownTarget;
    use crate::client_message::{ClientMessage, ClientRequest, read_client_message};

    fn with_request<T>(method: &str, params: &str, look: impl Fn(&ClientRequest<'_>) -> T) -> T {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let Ok(ClientMessage::Request(request)) = read_client_message(text.as_bytes(), &JsonLimits::REQUEST) else {
            panic!("a request")
        };
        look(&request)
    }

    #[test]
    fn only_what_names_the_target_changes() {
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
    fn each_server_is_listened_to_for_its_own() {
        let params = r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x-a+f:1","x-b+f:2"],"taskIds":["b__3"]}}"#;
        with_request("subscriptions/listen", params, |request| {
            let own = r#"{"toolsListChanged":true,"resourceSubscriptions":["f:2"],"taskIds":["3"]}"#;
            assert!(request.listen_request_for("b").contains(own));
            assert_eq!(
                request.unknown_targets(|server| server == "b"),
                [UnknownTarget::Resource("x-a+f:1".to_owned())]
            );
            let of_b = [UnknownTarget::Resource("x-b+f:2".to_owned()), UnknownTarget::Task("b__3".to_owned())];
            assert_eq!(request.unknown_targets(|server| server == "a"), of_b);
            assert_eq!(request.unknown_targets(|_| true), []);
            let heard = request.with_allowed_resources(|uri| uri == "x-b+f:2");
            assert!(heard.contains(r#""resourceSubscriptions":["x-b+f:2"],"taskIds":["b__3"]"#), "{heard}");
        });
        let past = |ids: &str| {
            let params = format!(r#"{{"notifications":{{"taskIds":{ids}}}}}"#);
            with_request("subscriptions/listen", &params, |request| request.unknown_targets(|server| server == "a"))
        };
        assert_eq!(past(r#"["a__1","b__3"]"#), [UnknownTarget::Task("b__3".to_owned())]);
        assert_eq!(past("[7]"), [UnknownTarget::Task("7".to_owned())], "what is no text names nothing");
    }
}
