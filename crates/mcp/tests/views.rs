//! Typed views of a message: ids, revisions, methods, parameters.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashSet;

use gatelodge_json::JsonLimits;
use gatelodge_mcp::{
    ClientMessage, ClientRequest, ClientResponsePayload, CompletionTarget, Method, MethodDirection, MethodKind,
    ProtocolGeneration, RequestId, Revision, read_client_message,
};

fn request(text: &str) -> ClientRequest<'_> {
    match read_client_message(text.as_bytes(), &JsonLimits::REQUEST) {
        Ok(ClientMessage::Request(request)) => request,
        other => panic!("{text}: {other:?}"),
    }
}

fn with_params(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

#[test]
fn ids_are_equal_by_type_and_value() {
    let id = |raw| RequestId::read(raw).unwrap_or_else(|| panic!("{raw}"));
    assert_ne!(id("1"), id("\"1\""));
    assert_eq!(id(r#""\u0031""#), id("\"1\""));
    assert_eq!(id("-0"), id("0"));
    assert_ne!(id("9007199254740993"), id("9007199254740992"));
    assert_eq!(id(r#""\u0031""#).raw(), r#""\u0031""#, "the notation stays");
    let set: HashSet<RequestId<'static>> =
        [r#""a""#, r#""\u0061""#, "1", "\"1\""].map(|raw| id(raw).into_owned()).into();
    assert_eq!(set.len(), 3);
    for raw in ["null", "1.0", "1e0", "true", "{}", "[]", "", "01", "1 2", "\"\\ud800\""] {
        assert!(RequestId::read(raw).is_none(), "{raw}");
    }
    assert_eq!(RequestId::string("a\"b"), id(r#""a\"b""#));
}

#[test]
fn revisions_are_ordered_and_have_two_generations() {
    assert!(Revision::ALL.is_sorted());
    let stateless: Vec<_> =
        Revision::ALL.into_iter().filter(|revision| revision.generation() == ProtocolGeneration::Stateless).collect();
    assert_eq!(stateless, [Revision::R2026_07_28]);
    for revision in Revision::ALL {
        assert_eq!(revision.as_str().parse(), Ok(revision));
    }
    let error = "2025-06-18 ".parse::<Revision>().expect_err("refused");
    assert_eq!(error.to_string(), "unknown protocol revision `2025-06-18 `");
}

#[test]
fn every_known_method_is_found_by_its_exact_name_only() {
    for method in Method::KNOWN {
        assert_eq!(&Method::of(method.name().into()), method);
        let (form, _) = method.kind_and_direction().expect("known");
        assert_eq!(form == MethodKind::Notification, method.name().starts_with("notifications/"), "{method}");
        assert!(matches!(Method::of(format!("{method} ").into()), Method::Other(_)));
        let shouted = method.name().to_uppercase();
        assert!(matches!(Method::of(shouted.as_str().into()), Method::Other(_)));
    }
    assert_eq!(Method::Ping.kind_and_direction(), Some((MethodKind::Request, MethodDirection::Both)));
    assert_eq!(Method::Elicit.kind_and_direction(), Some((MethodKind::Request, MethodDirection::ToClient)));
}

#[test]
fn a_tool_call_keeps_the_order_and_notation_of_its_arguments() {
    let arguments = r#"{"z":1.10,"a":1e2,"big":123456789012345678901234567890,"n":null}"#;
    let text = with_params(
        "tools/call",
        &format!(
            r#"{{"_meta":{{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientInfo":{{"name":"c"}},"io.modelcontextprotocol/clientCapabilities":{{}},
            "io.modelcontextprotocol/logLevel":"debug"}},"arguments":{arguments},"name":"p\u0061y"}}"#
        ),
    );
    let request = request(&text);
    let call = request.tool_call().expect("a call");
    assert_eq!(call.name, "pay");
    assert_eq!(call.arguments.expect("arguments").raw(), arguments);
    assert_eq!(call.meta.progress_token(), Some(RequestId::string("t")));
    assert_eq!(call.meta.protocol_version().as_deref(), Some("2026-07-28"));
    assert_eq!(call.meta.client_info().map(|info| info.raw()), Some(r#"{"name":"c"}"#));
    assert_eq!(call.meta.client_capabilities().map(|value| value.raw()), Some("{}"));
    assert_eq!(call.meta.log_level().as_deref(), Some("debug"));
}

#[test]
fn a_call_without_a_name_is_refused_with_its_location() {
    let error = |params| request(&with_params("tools/call", params)).tool_call().expect_err("refused").to_string();
    assert_eq!(error("{}"), "`params.name` is missing, at line 1, column 56");
    assert_eq!(error(r#"{"name":1}"#), "`params.name` must be a string, at line 1, column 64");
    let long = format!(r#"{{"name":"{}"}}"#, "n".repeat(257));
    assert_eq!(error(&long), "`params.name` has more than 256 bytes, at line 1, column 64");
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;
    assert_eq!(
        request(bare).tool_call().expect_err("refused").message,
        "`params.name` is missing, at line 1, column 1"
    );
}

#[test]
fn resources_prompts_tasks_and_cursors_are_parsed() {
    let text = with_params("resources/read", r#"{"uri":"file:///\u0061"}"#);
    assert_eq!(request(&text).resource_uri().expect("a uri"), "file:///a");
    let text = with_params("prompts/get", r#"{"name":"p","arguments":{"b":"1"}}"#);
    let request_ = request(&text);
    let prompt = request_.prompt().expect("a prompt");
    assert_eq!((prompt.name.as_ref(), prompt.arguments.map(|value| value.raw())), ("p", Some(r#"{"b":"1"}"#)));
    let text = with_params("tasks/get", r#"{"taskId":"t1"}"#);
    assert_eq!(request(&text).task_id().expect("a task"), "t1");
    let cursor = |params| request(&with_params("tools/list", params)).cursor().map(|cursor| cursor.map(String::from));
    assert_eq!(cursor("{}"), Ok(None));
    assert_eq!(cursor(r#"{"cursor":null}"#), Ok(None));
    assert_eq!(cursor(r#"{"cursor":"c"}"#), Ok(Some("c".into())));
    assert!(cursor(r#"{"cursor":1}"#).is_err());
}

#[test]
fn a_completion_refers_to_exactly_one_target() {
    let reference = |reference: &str| {
        let text = with_params("completion/complete", &format!(r#"{{"ref":{reference},"argument":{{}}}}"#));
        request(&text).completion().ok().map(|completion| match completion.reference {
            CompletionTarget::Prompt(name) => format!("prompt {name}"),
            CompletionTarget::Resource(uri) => format!("resource {uri}"),
        })
    };
    assert_eq!(reference(r#"{"type":"ref/prompt","name":"p","title":"P"}"#).as_deref(), Some("prompt p"));
    assert_eq!(reference(r#"{"type":"ref/resource","uri":"u"}"#).as_deref(), Some("resource u"));
    for bad in [
        r#"{"type":"ref/prompt","uri":"u"}"#,
        r#"{"type":"ref/prompt","name":"p","uri":"u"}"#,
        r#"{"type":"ref/tool","name":"p"}"#,
        r#"{"name":"p"}"#,
        r#"{"type":"ref/prompt","name":1}"#,
        "1",
    ] {
        assert_eq!(reference(bad), None, "{bad}");
    }
}

#[test]
fn notifications_and_responses_have_their_references() {
    let read = |text: &'static str| read_client_message(text.as_bytes(), &JsonLimits::REQUEST).expect("taken");
    let ClientMessage::Notification(cancelled) =
        read(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7","reason":"x"}}"#)
    else {
        panic!("a notification")
    };
    assert_eq!(cancelled.reference(), Ok(Some(RequestId::string("7"))));
    let ClientMessage::Notification(bad) =
        read(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}"#)
    else {
        panic!("a notification")
    };
    assert!(bad.reference().is_err());
    let ClientMessage::Response(answer) = read(r#"{"jsonrpc":"2.0","id":"s-1","result":{"action":"accept"}}"#) else {
        panic!("an answer")
    };
    assert_eq!(answer.id(), &RequestId::string("s-1"));
    assert!(
        matches!(answer.payload(), ClientResponsePayload::Result(result) if result.raw() == r#"{"action":"accept"}"#)
    );
    let ClientMessage::Response(answer) = read(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#) else {
        panic!("an answer")
    };
    assert!(matches!(answer.payload(), ClientResponsePayload::Error(error) if error.get("code").is_some()));
}
