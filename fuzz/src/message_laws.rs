//! Invariants of messages: an accepted message has one meaning, and is forwarded with the meaning that was evaluated.

use gatelodge_json::JsonLimits;
use gatelodge_mcp::{
    ClientMessage, ClientNotification, ClientRequest, ClientResponse, MessageError, RequestId, RequestRewrite,
    ServerMessage, ServerNotification, ServerResponse, ServerResponsePayload, code, quote_excerpt, read_client_message,
    read_server_message, to_single_line,
};

use crate::value_tree::{TreeLeaf, is_same_as_serde, value_leaves};

/// Which readers accepted an input, for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageAcceptance {
    /// Whether it is a valid client message.
    pub is_client_message: bool,
    /// Whether it is a valid upstream message.
    pub is_upstream_message: bool,
}

/// Reads the bytes as a message of either side and checks the invariants.
pub fn check_message_bytes(bytes: &[u8]) -> MessageAcceptance {
    let caller = read_client_message(bytes, &JsonLimits::REQUEST);
    let upstream = read_server_message(bytes, &JsonLimits::REPLY);
    for error in [caller.as_ref().err(), upstream.as_ref().err()].into_iter().flatten() {
        check_error(bytes, error);
    }
    if let Ok(message) = &caller {
        check_message(bytes, message);
        check_agreement(message, upstream.as_ref().expect("a valid client message can be split"));
    }
    if let Ok(message) = &upstream {
        check_upstream(bytes, message);
    }
    MessageAcceptance { is_client_message: caller.is_ok(), is_upstream_message: upstream.is_ok() }
}

fn check_error(bytes: &[u8], error: &MessageError) {
    let (start, end) = error.span;
    assert!(start <= end && end <= bytes.len(), "the location of {error} is outside the text");
    assert!(error.message.len() < 1200 && !error.message.contains(char::is_control), "{error}");
    let codes = [code::PARSE_ERROR, code::INVALID_REQUEST, code::INVALID_PARAMS, code::METHOD_NOT_FOUND];
    assert!(codes.contains(&error.code) && [400, 413].contains(&error.status), "{error:?}");
    if let Some(id) = &error.id {
        assert_eq!(RequestId::read(id.raw()).as_ref(), Some(id));
    }
}

fn check_message(bytes: &[u8], message: &ClientMessage<'_>) {
    let text = str::from_utf8(bytes).expect("UTF-8");
    assert!(is_same_as_serde(text), "serde_json reads something else in {text:?}");
    check_line(text);
    match message {
        ClientMessage::Request(request) => check_request(text, request),
        ClientMessage::Notification(notification) => check_notification(text, notification),
        ClientMessage::Response(response) => check_response(text, response),
    }
}

/// Checks that the single-line form is one line with the same meaning.
fn check_line(text: &str) {
    let line = to_single_line(text);
    let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
    assert!(!line.contains(breaks), "{line:?}");
    assert!(value_leaves(&line) == value_leaves(text), "the single-line form of {text:?} has another meaning");
}

fn check_request(text: &str, request: &ClientRequest<'_>) {
    assert_eq!(request.text(), text);
    check_views(text, request);
    let token = request.meta().progress_token();
    let id = RequestId::string("g-\u{1}\"1");
    let there = RequestRewrite { id: &id, target: None, progress_token: token.as_ref().map(|_| &id), trace: None };
    let sent = request.rewrite(&there).expect("all rewritten members exist");
    let Ok(ClientMessage::Request(again)) = read_client_message(sent.as_bytes(), &JsonLimits::REPLY) else {
        panic!("cannot read the forwarded message: {sent:?}")
    };
    assert_eq!(again.id(), &id);
    let meta = request.meta().value();
    // Trace members may be removed; then the text differs.
    if ["traceparent", "tracestate", "baggage"].iter().any(|name| meta.is_some_and(|meta| meta.get(name).is_some())) {
        return;
    }
    let replaced = ["/\"id\"", "/\"params\"/\"_meta\"/\"progressToken\""];
    assert!(
        without_paths(value_leaves(text), &replaced) == without_paths(value_leaves(&sent), &replaced),
        "{sent:?} is not {text:?}"
    );
    let back = RequestRewrite { id: request.id(), target: None, progress_token: token.as_ref(), trace: None };
    assert_eq!(again.rewrite(&back).as_deref(), Ok(text));
    check_renaming(text, request, &id);
}

/// Checks that renaming replaces only the name that was evaluated.
fn check_renaming(text: &str, request: &ClientRequest<'_>, id: &RequestId<'_>) {
    let name = "other\"\u{2028}name";
    let Ok(sent) = request.rewrite(&RequestRewrite { id, target: Some(name), progress_token: None, trace: None })
    else {
        return;
    };
    let (before, after) = (value_leaves(text), value_leaves(&sent));
    // The target may have been an object, whose content is then gone.
    let changed: Vec<_> = after.iter().filter(|leaf| !before.contains(leaf)).collect();
    assert!(changed.len() <= 2, "{changed:?}");
    for (path, says) in changed {
        assert!(path == "/\"id\"" || says == &format!("{name:?}"), "{path} says {says}");
    }
}

fn check_views(text: &str, request: &ClientRequest<'_>) {
    let errors = [
        request.tool_call().err(),
        request.prompt().err(),
        request.completion().err(),
        request.resource_uri().err(),
        request.task_id().err(),
        request.cursor().err(),
    ];
    for error in errors.into_iter().flatten() {
        check_error(text.as_bytes(), &error);
        assert_eq!((error.code, error.id.as_ref()), (code::INVALID_PARAMS, Some(request.id())));
    }
    if let Ok(call) = request.tool_call() {
        assert!(call.arguments.is_none_or(|arguments| text.contains(arguments.raw())));
        assert!(quote_excerpt(&call.name).len() < 1200);
    }
}

fn check_notification(text: &str, notification: &ClientNotification<'_>) {
    assert_eq!(notification.text(), text);
    let Ok(Some(own)) = notification.reference() else { return };
    let other = RequestId::number(42);
    let sent = notification.with_reference(&other).expect("it refers to something");
    let Ok(ClientMessage::Notification(again)) = read_client_message(sent.as_bytes(), &JsonLimits::REPLY) else {
        panic!("cannot read the forwarded message: {sent:?}")
    };
    assert_eq!(again.reference(), Ok(Some(other)));
    assert_eq!(again.with_reference(&own).as_deref(), Ok(text));
}

fn check_response(text: &str, response: &ClientResponse<'_>) {
    let other = RequestId::number(42);
    let sent = response.with_id(&other);
    let Ok(ClientMessage::Response(again)) = read_client_message(sent.as_bytes(), &JsonLimits::REPLY) else {
        panic!("cannot read the forwarded message: {sent:?}")
    };
    assert_eq!(again.id(), &other);
    assert!(without_paths(value_leaves(text), &["/\"id\""]) == without_paths(value_leaves(&sent), &["/\"id\""]));
    assert_eq!(again.with_id(response.id()), text);
}

fn without_paths(leaves: Vec<TreeLeaf>, paths: &[&str]) -> Vec<TreeLeaf> {
    leaves.into_iter().filter(|(path, _)| !paths.contains(&path.as_str())).collect()
}

/// Checks that the scanning reader and the splitting reader find the same message.
fn check_agreement(message: &ClientMessage<'_>, split: &ServerMessage<'_>) {
    match (message, split) {
        (ClientMessage::Request(ours), ServerMessage::Request(split)) => {
            assert_eq!((ours.id(), ours.method().name()), (split.id(), split.method().name()));
            assert_eq!(ours.params().map(|params| params.raw()), split.params());
        }
        (ClientMessage::Notification(ours), ServerMessage::Notification(split)) => {
            assert_eq!(ours.method().name(), split.method().name());
            assert_eq!(ours.params().map(|params| params.raw()), split.params());
        }
        (ClientMessage::Response(ours), ServerMessage::Response(split)) => assert_eq!(Some(ours.id()), split.id()),
        other => panic!("the two readers differ: {other:?}"),
    }
}

fn check_upstream(bytes: &[u8], message: &ServerMessage<'_>) {
    let text = str::from_utf8(bytes).expect("UTF-8");
    let line = to_single_line(text);
    assert!(
        read_server_message(line.as_bytes(), &JsonLimits::REPLY).is_ok(),
        "cannot split the single-line form: {line:?}"
    );
    match message {
        ServerMessage::Response(reply) => check_reply(text, reply),
        ServerMessage::Request(request) => {
            check_part(text, request.params());
            let sent = request.with_id(&RequestId::number(42));
            let Ok(ServerMessage::Request(again)) = read_server_message(sent.as_bytes(), &JsonLimits::REPLY) else {
                panic!("cannot read the forwarded message: {sent:?}")
            };
            assert_eq!((again.params(), again.method().name()), (request.params(), request.method().name()));
            assert_eq!(again.with_id(request.id()), text);
        }
        ServerMessage::Notification(notification) => check_server_notification(text, notification),
    }
}

fn check_reply(text: &str, reply: &ServerResponse<'_>) {
    let (ServerResponsePayload::Result(payload) | ServerResponsePayload::Error(payload)) = reply.payload();
    check_part(text, Some(payload));
    let other = RequestId::string("c");
    let sent = reply.with_id(&other);
    let Ok(ServerMessage::Response(again)) = read_server_message(sent.as_bytes(), &JsonLimits::REPLY) else {
        panic!("cannot read the forwarded message: {sent:?}")
    };
    assert_eq!((again.id(), again.payload()), (Some(&other), reply.payload()));
    if let Some(id) = reply.id() {
        assert_eq!(again.with_id(id), text);
    }
    if let Some(error) = reply.error() {
        check_part(text, Some(error.code));
        check_part(text, error.data);
    }
}

fn check_server_notification(text: &str, notification: &ServerNotification<'_>) {
    check_part(text, notification.params());
    let Some(own) = notification.reference() else { return };
    let other = RequestId::number(42);
    let sent = notification.with_reference(&other).expect("it refers to something");
    let Ok(ServerMessage::Notification(again)) = read_server_message(sent.as_bytes(), &JsonLimits::REPLY) else {
        panic!("cannot read the forwarded message: {sent:?}")
    };
    assert_eq!(again.reference(), Some(other));
    assert_eq!(again.with_reference(&own).as_deref(), Some(text));
}

/// Checks that a part of a split message lies inside it and is valid in another envelope.
fn check_part(text: &str, part: Option<&str>) {
    let Some(part) = part else { return };
    assert!(text.as_bytes().as_ptr_range().contains(&part.as_ptr()), "a part is outside the text");
    assert!(is_balanced(part), "a part is not balanced: {part:?}");
}

/// Whether brackets and strings are closed in order, without a line break in a string.
fn is_balanced(part: &str) -> bool {
    let mut open = Vec::new();
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' if open.pop() != Some(byte) => return false,
            b'"' if !ends_string(&mut bytes) => return false,
            _ => {}
        }
    }
    open.is_empty()
}

fn ends_string(bytes: &mut impl Iterator<Item = u8>) -> bool {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return true,
            b'\\' if bytes.next().is_none_or(|escaped| escaped < 0x20) => return false,
            0..0x20 => return false,
            _ => {}
        }
    }
    false
}
