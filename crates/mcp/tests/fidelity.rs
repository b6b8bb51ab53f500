//! Messages pass unchanged in both directions, except for the values that are replaced.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_json::JsonLimits;
use gatelodge_mcp::{
    ClientMessage, ClientRequest, Method, ProtocolGeneration, RequestId, RequestRewrite, RequestRewriteError,
    ServerMessage, ServerResponse, ServerResponsePayload, TraceParent, code, error_response, read_client_message,
    read_server_message, result_response, to_single_line, tool_error_result,
};

fn request(text: &str) -> ClientRequest<'_> {
    match read_client_message(text.as_bytes(), &JsonLimits::REQUEST) {
        Ok(ClientMessage::Request(request)) => request,
        other => panic!("{text}: {other:?}"),
    }
}

fn reply(text: &str) -> ServerResponse<'_> {
    match read_server_message(text.as_bytes(), &JsonLimits::REPLY) {
        Ok(ServerMessage::Response(reply)) => reply,
        other => panic!("{text}: {other:?}"),
    }
}

/// A request with everything a typed model would lose: odd spacing, key order, number notation, unknown members at every
/// level.
const CALL: &str = "{ \"x-vendor\" : [1.10, 1e2, -0],\r\n \"params\":{\"task\":{\"ttl\":60000.0},\"zeta\":null,\
    \"name\":\"p\\u0061y\",\"arguments\":{\"z\":1,\"a\":2,\"big\":123456789012345678901234567890,\"f\":1.10,\"e\":1E+2,\
    \"deep\":[{\"é\":\"\\/\"}]},\"_meta\":{\"vendor/key\":{\"n\":0.10},\"progressToken\":7,\"tracestate\":\"v=1\"}},\n\
    \"method\":\"tools/call\",\t\"id\":\"c-1\", \"jsonrpc\":\"2.0\" }";

#[test]
fn a_request_with_another_id_differs_only_in_the_id() {
    let id = RequestId::number(42);
    let rewrite = RequestRewrite { id: &id, target: None, progress_token: None, trace: None };
    let sent = request(CALL).rewrite(&rewrite).expect("written");
    assert_eq!(sent, CALL.replace("\"c-1\"", "42"));
}

#[test]
fn name_and_progress_token_are_replaced_in_place() {
    let (id, token) = (RequestId::string("u\"1"), RequestId::string("t"));
    let rewrite = RequestRewrite { id: &id, target: Some("pay\"now"), progress_token: Some(&token), trace: None };
    let sent = request(CALL).rewrite(&rewrite).expect("written");
    let expected = CALL
        .replace("\"c-1\"", r#""u\"1""#)
        .replace("\"p\\u0061y\"", r#""pay\"now""#)
        .replace("\"progressToken\":7", "\"progressToken\":\"t\"");
    assert_eq!(sent, expected);
}

#[test]
fn nothing_is_added_that_the_client_did_not_send() {
    let (id, token) = (RequestId::number(1), RequestId::number(2));
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"x"}}"#;
    let named = RequestRewrite { id: &id, target: Some("y"), progress_token: None, trace: None };
    assert_eq!(request(text).rewrite(&named), Err(RequestRewriteError::NoTarget));
    let watched = RequestRewrite { id: &id, target: None, progress_token: Some(&token), trace: None };
    assert_eq!(request(text).rewrite(&watched), Err(RequestRewriteError::NoProgressToken));
}

const SPAN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa01c902b7-01";

/// The `_meta` of a call as forwarded, in our span or without one.
fn meta_sent(meta: &str, own: Option<&TraceParent>) -> String {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","_meta":{meta}}}}}"#);
    let id = RequestId::number(1);
    let rewrite = RequestRewrite { id: &id, target: None, progress_token: None, trace: own };
    let sent = request(&text).rewrite(&rewrite).expect("written");
    let paged = request(&text).page_request(&id, None, own);
    assert_eq!(sent, paged, "a list goes on in the same way");
    let (before, behind) = text.split_once(meta).expect("the meta");
    let sent = sent.strip_prefix(before).and_then(|sent| sent.strip_suffix(behind));
    sent.unwrap_or_else(|| panic!("{text}: more than the meta changed")).to_owned()
}

#[test]
fn our_span_replaces_the_clients_and_the_rest_stays() {
    let own = TraceParent::read(SPAN).expect("a span").with_span(0xabc);
    let meta = format!(r#"{{ "a":1.10, "traceparent" : "{SPAN}" ,"tracestate":"v=1\u0021", "baggage":"k=v"}}"#);
    let want = meta.replace("00f067aa01c902b7", "0000000000000abc");
    assert_eq!(meta_sent(&meta, Some(&own)), want);
    for absent in ["{}", r#"{"tracestate":"v=1"}"#, r#"{"baggage":"k=v","x":[]}"#] {
        assert_eq!(meta_sent(absent, Some(&own)), absent, "nothing is added");
    }
}

#[test]
fn invalid_trace_context_is_not_forwarded() {
    let own = TraceParent::read(SPAN).expect("a span");
    for (meta, want) in [
        (r#"{"traceparent":"00-1"}"#, "{}"),
        (r#"{"traceparent":7,"x":1}"#, r#"{"x":1}"#),
        (r#"{"x":1, "traceparent":null}"#, r#"{"x":1}"#),
        (r#"{"traceparent":"00-1","tracestate":"v=1","x":1}"#, r#"{"x":1}"#),
        (r#"{"tracestate":"v=1","x":1,"traceparent":"00-1","baggage":"k=v"}"#, r#"{"x":1,"baggage":"k=v"}"#),
        (r#"{"tracestate":"v=1","traceparent":"00-1"}"#, "{}"),
        (r#"{"tracestate":["v=1"],"baggage":"\n"}"#, "{}"),
        (r#"{"y":2 , "tracestate":"" , "x":1}"#, r#"{"y":2 , "x":1}"#),
    ] {
        assert_eq!(meta_sent(meta, Some(&own)), want, "{meta}");
    }
    let long = format!(r#"{{"traceparent":"{SPAN}","tracestate":"{}"}}"#, "v".repeat(513));
    assert_eq!(meta_sent(&long, Some(&own)), format!(r#"{{"traceparent":"{SPAN}"}}"#));
    // Without our span, no trace context is forwarded.
    assert_eq!(meta_sent(&format!(r#"{{"traceparent":"{SPAN}","x":1}}"#), None), r#"{"x":1}"#);
}

#[test]
fn each_method_has_its_own_target_member() {
    let id = RequestId::number(2);
    let rewrite = RequestRewrite { id: &id, target: Some("NEW"), progress_token: None, trace: None };
    for (method, params) in [
        ("prompts/get", r#"{"name":"OLD"}"#),
        ("resources/read", r#"{"name":"x","uri":"OLD"}"#),
        ("resources/subscribe", r#"{"uri":"OLD"}"#),
        ("tasks/cancel", r#"{"taskId":"OLD"}"#),
        ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"OLD"},"argument":{"name":"n"}}"#),
        ("completion/complete", r#"{"ref":{"type":"ref/resource","uri":"OLD"},"argument":{}}"#),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let sent = request(&text).rewrite(&rewrite).expect("written");
        assert_eq!(sent, text.replace("OLD", "NEW").replace("\"id\":1", "\"id\":2"), "{method}");
    }
}

#[test]
fn absent_stays_absent_and_null_stays_null() {
    let id = RequestId::number(2);
    let rewrite = RequestRewrite { id: &id, target: None, progress_token: None, trace: None };
    for params in [r#"{"name":"a"}"#, r#"{"name":"a","arguments":null}"#, r#"{"name":"a","_meta":{}}"#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        assert!(request(&text).rewrite(&rewrite).expect("written").ends_with(&format!("{params}}}")));
    }
}

#[test]
fn the_single_line_form_has_no_line_break_and_the_same_values() {
    let text =
        "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\n\"method\":\"ping\",\"params\":{\"a\":\"\\n\u{2028}\u{85}\u{2029}b\"}}";
    let line = to_single_line(text);
    assert_eq!(
        line,
        "{\"jsonrpc\":\"2.0\",  \"id\":1, \"method\":\"ping\",\"params\":{\"a\":\"\\n\\u2028\\u0085\\u2029b\"}}"
    );
    let value = |text: &str| request(text).params().and_then(|params| params.get("a")?.as_str().map(String::from));
    assert_eq!(value(&line), value(text));
    assert!(matches!(to_single_line("{}"), std::borrow::Cow::Borrowed("{}")));
}

#[test]
fn cancellations_and_responses_are_forwarded_with_another_id() {
    let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"x":1.0,"requestId":"7"}}"#;
    let Ok(ClientMessage::Notification(cancelled)) = read_client_message(text.as_bytes(), &JsonLimits::REQUEST) else {
        panic!("a notification")
    };
    assert_eq!(cancelled.with_reference(&RequestId::number(9)), Ok(text.replace("\"7\"", "9")));
    let text = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let Ok(ClientMessage::Notification(bare)) = read_client_message(text.as_bytes(), &JsonLimits::REQUEST) else {
        panic!("a notification")
    };
    assert_eq!(bare.with_reference(&RequestId::number(9)), Err(RequestRewriteError::NoReference));
    let text = r#"{"result":{"roots":[1e2]},"id":3,"jsonrpc":"2.0"}"#;
    let Ok(ClientMessage::Response(answer)) = read_client_message(text.as_bytes(), &JsonLimits::REQUEST) else {
        panic!("an answer")
    };
    assert_eq!(answer.with_id(&RequestId::string("s")), text.replace(":3", ":\"s\""));
}

#[test]
fn a_response_returns_with_the_clients_id_and_is_otherwise_unchanged() {
    // Repeated keys, huge numbers and lone surrogates in a payload are left to the client.
    let text = "{\"result\": {\"structuredContent\":{\"b\":1.10,\"a\":1e999,\"a\":\"\\ud800\"},\"resultType\":\"x\",\n\
        \"content\":[{\"type\":\"unknown\",\"v\":12345678901234567890123}]}, \"id\" : 42,\"vendor\":true,\"jsonrpc\":\"2.0\"}";
    let reply = reply(text);
    assert_eq!(reply.id(), Some(&RequestId::number(42)));
    assert!(matches!(reply.payload(), ServerResponsePayload::Result(raw) if raw.starts_with("{\"structuredContent\"")));
    assert_eq!(reply.with_id(&RequestId::string("1")), text.replace("42", "\"1\""));
    assert!(reply.error().is_none());
}

#[test]
fn an_id_keeps_its_type() {
    let string = reply(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#);
    let number = reply(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_ne!(string.id(), number.id());
}

#[test]
fn an_error_keeps_code_message_and_data() {
    let text =
        r#"{"jsonrpc":"2.0","id":1,"error":{"data":{"x":1.10},"code":-3204200000000000000000,"message":"a\u0062"}}"#;
    let error = reply(text).error().expect("an error");
    assert_eq!((error.code, error.message.as_str()), ("-3204200000000000000000", "ab"));
    assert_eq!(error.data, Some(r#"{"x":1.10}"#));
    for odd in ["{}", "1", r#"{"code":"1","message":"x"}"#, r#"{"code":1.5,"message":"x"}"#, r#"{"code":1}"#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{odd}}}"#);
        assert_eq!(reply(&text).error(), None, "{odd}");
        assert_eq!(reply(&text).payload(), ServerResponsePayload::Error(odd), "and yet it can be passed on");
    }
}

#[test]
fn an_error_without_an_id_is_accepted_and_can_get_one() {
    let bare = r#" {"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#;
    assert_eq!(reply(bare).id(), None);
    assert_eq!(
        reply(bare).with_id(&RequestId::number(5)),
        r#" {"id":5,"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#
    );
    let null = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#;
    assert_eq!(reply(null).id(), None);
    assert_eq!(reply(null).with_id(&RequestId::number(5)), null.replace("null", "5"));
}

#[test]
fn requests_and_notifications_from_an_upstream_keep_their_raw_params() {
    let text = r#"{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"a":1.0}}"#;
    let Ok(ServerMessage::Request(asked)) = read_server_message(text.as_bytes(), &JsonLimits::REPLY) else {
        panic!("a request")
    };
    assert_eq!((asked.method(), asked.params()), (&Method::Elicit, Some(r#"{"a":1.0}"#)));
    assert_eq!(asked.with_id(&RequestId::string("g")), text.replace(":0,", ":\"g\","));
    let text =
        r#"{"jsonrpc":"2.0","method":"notifications/progress", "params" : {"progress":1,"progressToken":"u-1"}}"#;
    let Ok(ServerMessage::Notification(notification)) = read_server_message(text.as_bytes(), &JsonLimits::REPLY) else {
        panic!("a notification")
    };
    assert_eq!(notification.reference(), Some(RequestId::string("u-1")));
    assert_eq!(
        notification.with_reference(&RequestId::number(7)).as_deref(),
        Some(text.replace("\"u-1\"", "7").as_str())
    );
    let text = r#"{"jsonrpc":"2.0","method":"notifications/vendor"}"#;
    let Ok(ServerMessage::Notification(notification)) = read_server_message(text.as_bytes(), &JsonLimits::REPLY) else {
        panic!("a notification")
    };
    assert_eq!(
        (notification.method().name(), notification.params(), notification.reference()),
        ("notifications/vendor", None, None)
    );
}

#[test]
fn an_ambiguous_upstream_message_is_refused() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":[1],"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"ID":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"Error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
        r#"{"id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{]}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}} {"#,
        "",
    ] {
        assert!(read_server_message(text.as_bytes(), &JsonLimits::REPLY).is_err(), "{text}");
    }
}

#[test]
fn responses_of_the_gateway_are_valid_json_with_minimal_members() {
    let id = RequestId::string("c\u{1}");
    assert_eq!(
        error_response(Some(&id), code::INVALID_PARAMS, "unknown tool `a\"b`", Some("{\"x\":1.10}")),
        r#"{"jsonrpc":"2.0","id":"c\u0001","error":{"code":-32602,"message":"unknown tool `a\"b`","data":{"x":1.10}}}"#
    );
    assert_eq!(
        error_response(None, code::PARSE_ERROR, "no", None),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#
    );
    let refused = tool_error_result("[POLICY DENIED] no", Some("{\"code\":\"limit\"}"), ProtocolGeneration::Stateful);
    assert_eq!(
        refused,
        r#"{"content":[{"type":"text","text":"[POLICY DENIED] no"}],"isError":true,"_meta":{"code":"limit"}}"#
    );
    let modern = tool_error_result("x\n", None, ProtocolGeneration::Stateless);
    assert_eq!(modern, r#"{"content":[{"type":"text","text":"x\n"}],"isError":true,"resultType":"complete"}"#);
    for text in [result_response(&id, &refused), result_response(&id, &modern)] {
        assert_eq!(reply(&text).id(), Some(&id));
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
    }
}

#[test]
fn replacing_the_error_code_or_the_params_keeps_everything_else() {
    let text = r#"{"x":1.10, "error":{"message":"no \u00e9" ,"code": -32002,"y":{"code":1}},"jsonrpc":"2.0"}"#;
    let Ok(ServerMessage::Response(reply)) = read_server_message(text.as_bytes(), &JsonLimits::REPLY) else {
        panic!("a reply")
    };
    let wanted = text.replace("-32002", "-32602").replacen('{', r#"{"id":7,"#, 1);
    assert_eq!(reply.with_code(&RequestId::number(7), -32602), wanted);
    for (text, wanted) in [
        (
            r#"{"x":1.10,"method":"m", "params" : {"a":1} ,"y":1e2}"#,
            r#"{"x":1.10,"method":"m", "params" : {} ,"y":1e2}"#,
        ),
        (r#"{"method":"m","x":{} } "#, r#"{"method":"m","x":{} ,"params":{}} "#),
    ] {
        let text = text.replacen('{', r#"{"jsonrpc":"2.0","#, 1);
        let Ok(ServerMessage::Notification(notification)) = read_server_message(text.as_bytes(), &JsonLimits::REPLY)
        else {
            panic!("{text}")
        };
        assert_eq!(notification.with_params("{}"), wanted.replacen('{', r#"{"jsonrpc":"2.0","#, 1));
    }
}

#[test]
fn a_response_is_restored_from_its_spans_and_only_in_its_own_text() {
    for text in [
        r#"{"jsonrpc":"2.0","id":"a","result":{"x":1}}"#,
        r#"{ "error" : {"code":-1,"message":"m"} , "id" : 7 , "jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}"#,
    ] {
        let own = reply(text);
        let again = ServerResponse::from_spans(text.as_bytes(), &own.spans()).expect("the same reply");
        assert_eq!((again.id(), again.payload()), (own.id(), own.payload()));
        let other = RequestId::string("b");
        assert_eq!(again.with_id(&other), own.with_id(&other));
        assert!(ServerResponse::from_spans(b"{}", &own.spans()).is_none());
        assert!(ServerResponse::from_spans(&[0xff; 100], &own.spans()).is_none());
    }
}

#[test]
fn a_long_text_is_rewritten_up_to_the_last_change_only() {
    let long = "é".repeat(20_000);
    let (id, token) = (RequestId::string("ours"), RequestId::string("t"));
    let meta = r#""_meta":{"progressToken":7}"#;
    for text in [
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a",{meta},"b":"{long}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"b":"{long}","name":"a",{meta}}},"id":1}}"#),
        format!(r#"{{"params":{{"name":"a","b":"{long}",{meta}}},"id":1,"jsonrpc":"2.0","method":"tools/call"}}"#),
    ] {
        let request = request(&text);
        for progress_token in [None, Some(&token)] {
            let rewrite = RequestRewrite { id: &id, target: None, progress_token, trace: None };
            let (head, rest) = request.rewrite_prefix(&rewrite).expect("written");
            let whole = request.rewrite(&rewrite).expect("written");
            assert_eq!(head + text.get(rest..).expect("a place"), whole);
        }
    }
    for text in [
        format!(r#"{{"jsonrpc":"2.0","id":"c-1","result":{{"a":"{long}"}}}}"#),
        format!(r#"{{"result":{{"a":"{long}"}},"id":"c-1","jsonrpc":"2.0"}}"#),
        format!(r#" {{"error":{{"code":1,"message":"{long}"}},"jsonrpc":"2.0"}}"#),
        r#"{"jsonrpc":"2.0","id":"c-1","result":{}}"#.to_owned(),
    ] {
        let reply = reply(&text);
        let (head, rest) = reply.spans().with_id_prefix(text.as_bytes(), &id).expect("its places");
        assert_eq!(head + text.get(rest..).expect("a place"), reply.with_id(&id));
    }
    let early = format!(r#"{{"jsonrpc":"2.0","id":"c-1","result":{{"a":"{long}"}}}}"#);
    let (head, rest) = reply(&early).spans().with_id_prefix(early.as_bytes(), &id).expect("its places");
    assert_eq!((head.as_str(), rest), (r#"{"jsonrpc":"2.0","id":"ours""#, r#"{"jsonrpc":"2.0","id":"c-1""#.len()));
}

#[test]
fn the_longest_string_is_skipped_when_searching_for_names() {
    let long = "taskId".repeat(2_000);
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"isError":true,"a":["{long}"],"taskId":"t"}}}}"#);
    let [before, behind] = reply(&text).spans().without_longest_string(text.as_bytes());
    assert_eq!(before, br#"{"jsonrpc":"2.0","id":1,"result":{"isError":true,"a":["#);
    assert_eq!(behind, br#"],"taskId":"t"}}"#);
    let short = r#"{"jsonrpc":"2.0","id":1,"result":{"a":["taskId"]}}"#;
    assert_eq!(reply(short).spans().without_longest_string(short.as_bytes()), [short.as_bytes(), b""]);
}

#[test]
fn equal_responses_with_different_ids_have_the_same_spans() {
    let text = |id: &str, word: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"a":"{word}"}}}}"#);
    let first = text(r#""c-1""#, "x");
    let places = reply(&first).spans();
    let same = |other: &str| places.is_same_except_id(first.as_bytes(), other.as_bytes());
    assert!(same(&text(r#""c-2""#, "x")));
    assert!(!same(&text(r#""c-2""#, "y")), "another word");
    assert!(!same(&text(r#""c-22""#, "x")), "a longer id");
    assert!(!same(&text(r#""c-2""#, "x").replace("2.0", "2.1")), "another word before the id");
    assert_eq!(places.id_bytes(text(r#""c-2""#, "x").as_bytes()), Some(&br#""c-2""#[..]));
    let (before, behind) = reply(&first).template_around_id("[]").expect("an id");
    assert_eq!((before.as_str(), behind.as_str()), (r#"{"jsonrpc":"2.0","id":"#, r#","result":[]}"#));
    let last = r#"{"result":{"a":1},"id":"c-1","jsonrpc":"2.0"}"#;
    let (before, behind) = reply(last).template_around_id("[]").expect("an id");
    assert_eq!((before.as_str(), behind.as_str()), (r#"{"result":[],"id":"#, r#","jsonrpc":"2.0"}"#));
}
