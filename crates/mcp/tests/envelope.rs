//! Valid and refused messages of clients: one test for each class of parser differential.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_json::JsonLimits;
use gatelodge_mcp::{ClientMessage, ClientRequest, MessageError, Method, RequestId, code, read_client_message};

fn refusal(text: impl AsRef<[u8]>) -> MessageError {
    let text = text.as_ref();
    match read_client_message(text, &JsonLimits::REQUEST) {
        Err(error) => error,
        Ok(_) => panic!("taken: {}", String::from_utf8_lossy(text)),
    }
}

fn request(text: &str) -> ClientRequest<'_> {
    match read_client_message(text.as_bytes(), &JsonLimits::REQUEST) {
        Ok(ClientMessage::Request(request)) => request,
        other => panic!("{text}: {other:?}"),
    }
}

/// A tool call with the given parameters.
fn call(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)
}

fn assert_refused(code: i64, texts: &[&str]) {
    for text in texts {
        let error = refusal(text);
        assert_eq!(error.code, code, "{text}: {error}");
        assert_eq!(error.status, 400, "{text}");
    }
}

#[test]
fn a_repeated_name_is_refused_under_the_id_of_the_call() {
    let error = refusal(call(r#"{"name":"read_note","name":"wipe"}"#));
    assert_eq!((error.code, error.id), (code::INVALID_REQUEST, Some(RequestId::number(7))));
    assert_eq!(error.message, "the key `name` is repeated, at line 1, column 76");
}

#[test]
fn a_repeated_key_is_refused_at_any_depth_and_in_any_spelling() {
    assert_refused(
        code::INVALID_REQUEST,
        &[
            &call(r#"{"name":"pay","arguments":{"amount":1,"amount":999}}"#),
            &call(r#"{"name":"pay","arguments":{"a":[{"b":1,"\u0062":2}]}}"#),
            &call(r#"{"name":"read_note","na\u006de":"wipe"}"#),
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        ],
    );
    let two_ids = refusal(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#);
    assert_eq!(two_ids.id, None, "which of the two is meant is not ours to say");
}

#[test]
fn a_member_in_different_case_is_refused_with_and_without_the_real_one() {
    assert_refused(
        code::INVALID_REQUEST,
        &[
            &call(r#"{"name":"read_note","Name":"wipe"}"#),
            &call(r#"{"name":"read_note","arguments":{},"Arguments":{"x":1}}"#),
            &call(r#"{"Name":"wipe"}"#),
            &call(r#"{"NAME":"wipe"}"#),
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","PARAMS":{}}"#,
            r#"{"jsonrpc":"2.0","ID":1,"method":"notifications/initialized"}"#,
            r#"{"JSONRPC":"2.0","id":1,"method":"ping"}"#,
        ],
    );
}

#[test]
fn a_member_that_normalizes_to_a_protocol_member_is_refused() {
    for key in [
        "ＰＡＲＡＭＳ",
        "param\u{17f}",
        "params\u{200b}",
        "par\u{ad}ams",
        "\u{feff}params",
        "params\u{0}",
        "params ",
        "\u{202e}params",
        "𝐩𝐚𝐫𝐚𝐦𝐬",
        "params\u{e0041}",
    ] {
        let key = key.replace('\0', "\\u0000");
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","{key}":{{}}}}"#);
        assert_eq!(refusal(&text).code, code::INVALID_REQUEST, "{key}");
    }
    for key in ["na\u{200b}me", "na\\u200bme", "argument\u{17f}", "ta\u{17f}\u{212a}", "ur\u{131}", "_meta\\n"] {
        assert_eq!(refusal(call(&format!(r#"{{"name":"a","{key}":1}}"#))).code, code::INVALID_REQUEST, "{key}");
    }
}

#[test]
fn an_alternative_spelling_of_a_member_is_refused() {
    // A widely used SDK accepts snake case for camel case, and `meta` for `_meta`.
    for key in ["meta", "task_id", "request_state", "input_responses", "request-id"] {
        assert_eq!(refusal(call(&format!(r#"{{"name":"a","{key}":"b"}}"#))).code, code::INVALID_REQUEST, "{key}");
    }
    let token = call(r#"{"name":"a","_meta":{"progressToken":1,"ProgressToken":2}}"#);
    let reference = r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete",
        "params":{"ref":{"type":"ref/prompt","name":"a","Name":"b"},"argument":{}}}"#;
    assert_refused(code::INVALID_REQUEST, &[&token, reference]);
}

#[test]
fn unknown_members_and_any_names_inside_arguments_are_accepted() {
    let text = call(r#"{"name":"a","vendor":1,"arguments":{"Name":1,"name":2,"na me":3},"_meta":{"x.y/z":[1]}}"#);
    assert_eq!(request(&text).text(), text);
    request(r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":{"Method":1},"трасса":2}"#);
}

#[test]
fn every_batch_is_refused() {
    let one = call(r#"{"name":"wipe"}"#);
    for text in [format!("[{one}]"), format!("[{one},{one}]"), "[]".to_owned(), "[[]]".to_owned()] {
        let error = refusal(&text);
        assert_eq!((error.code, error.id.is_none()), (code::INVALID_REQUEST, true), "{text}");
        assert!(error.message.starts_with("batches are not supported"), "{error}");
    }
    assert_refused(code::INVALID_REQUEST, &["1", "null", "\"tools/call\"", "true"]);
}

#[test]
fn a_call_without_an_id_is_not_a_notification() {
    for method in ["tools/call", "resources/read", "ping", "initialize", "tasks/cancel"] {
        let error = refusal(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"name":"wipe"}}}}"#));
        assert_eq!((error.code, error.id.is_none()), (code::INVALID_REQUEST, true), "{method}");
    }
}

#[test]
fn clients_can_send_exactly_four_notifications() {
    let text = |method: &str| format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
    let taken: Vec<_> = Method::KNOWN
        .iter()
        .map(Method::name)
        .filter(|name| {
            matches!(
                read_client_message(text(name).as_bytes(), &JsonLimits::REQUEST),
                Ok(ClientMessage::Notification(_))
            )
        })
        .collect();
    assert_eq!(
        taken,
        [
            "notifications/initialized",
            "notifications/cancelled",
            "notifications/progress",
            "notifications/roots/list_changed"
        ]
    );
    for method in ["notifications/message", "notifications/x", "vendor/x", "tools/call "] {
        assert_eq!(refusal(text(method)).code, code::METHOD_NOT_FOUND, "{method}");
    }
    assert_refused(code::INVALID_REQUEST, &[r#"{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled"}"#]);
}

#[test]
fn an_id_must_be_a_string_or_an_integer() {
    for id in ["null", "1.5", "1.0", "1e2", "{}", "[]", "true", "[1]"] {
        let error = refusal(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        assert_eq!((error.code, error.id), (code::INVALID_REQUEST, None), "{id}");
    }
    for id in ["0", "-1", "\"\"", "\"1\"", "123456789012345678901234567890", r#""a\u0062""#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        assert_eq!(request(&text).id().raw(), id);
    }
}

#[test]
fn params_must_be_an_object() {
    for params in [r#"["wipe",{}]"#, "\"x\"", "1", "null", "true"] {
        let error = refusal(call(params));
        assert_eq!((error.code, error.id), (code::INVALID_PARAMS, Some(RequestId::number(7))), "{params}");
    }
}

#[test]
fn arguments_must_be_an_object_null_or_absent() {
    for arguments in ["[1]", "[]", "\"{}\"", "1", "true"] {
        let text = call(&format!(r#"{{"name":"pay","arguments":{arguments}}}"#));
        let error = request(&text).tool_call().expect_err("refused");
        assert_eq!((error.code, error.id), (code::INVALID_PARAMS, Some(RequestId::number(7))), "{arguments}");
    }
    for params in [r#"{"name":"pay"}"#, r#"{"name":"pay","arguments":null}"#] {
        let text = call(params);
        assert!(request(&text).tool_call().expect("taken").arguments.is_none(), "{params}");
    }
}

#[test]
fn a_method_must_match_a_known_name_exactly() {
    for method in [
        "tools/call ",
        " tools/call",
        "Tools/Call",
        "TOOLS/CALL",
        "tools//call",
        "/tools/call",
        "tools/call/",
        "tools/call\\u0000",
        "tools/call\\n",
        "tools\\u200b/call",
        "tools/c\u{430}ll",
        "ｔools/call",
        "tool\u{17f}/call",
        "",
        "sampling/createMessage",
        "roots/list",
        "notifications/message",
    ] {
        let error = refusal(format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{"name":"wipe"}}}}"#));
        assert_eq!((error.code, error.id), (code::METHOD_NOT_FOUND, Some(RequestId::number(7))), "{method}");
    }
    let vendor = request(r#"{"jsonrpc":"2.0","id":1,"method":"vendor.example/do-it"}"#);
    assert_eq!(vendor.method(), &Method::Other("vendor.example/do-it".into()));
    let escaped = request(r#"{"jsonrpc":"2.0","id":1,"method":"tools\/c\u0061ll"}"#);
    assert_eq!(escaped.method(), &Method::ToolsCall, "the same string in another spelling");
}

#[test]
fn a_method_must_be_a_string() {
    for method in ["1", "null", "[\"tools/call\"]", "{}"] {
        assert_refused(code::INVALID_REQUEST, &[&format!(r#"{{"jsonrpc":"2.0","id":1,"method":{method}}}"#)]);
    }
}

#[test]
fn a_message_is_either_a_request_or_a_response() {
    assert_refused(
        code::INVALID_REQUEST,
        &[
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            "{}",
        ],
    );
}

#[test]
fn the_version_must_be_exactly_two_point_zero() {
    for version in ["\"2.0 \"", "2.0", "\"2\"", "\"1.0\"", "null", "[\"2.0\"]"] {
        assert_refused(code::INVALID_REQUEST, &[&format!(r#"{{"jsonrpc":{version},"id":1,"method":"ping"}}"#)]);
    }
    assert_refused(code::INVALID_REQUEST, &[r#"{"id":1,"method":"ping"}"#]);
}

#[test]
fn a_tool_name_is_compared_byte_by_byte() {
    for name in ["read_note\u{200b}", "r\u{435}ad_note", "ｒead_note", "re\u{301}ad_note", "READ_NOTE", "read_note "] {
        let text = call(&format!(r#"{{"name":"{name}"}}"#));
        let call = request(&text);
        let call = call.tool_call().expect("the policy says what there is, not the wire");
        assert_eq!(call.name, name);
        assert_ne!(call.name, "read_note");
    }
}

#[test]
fn numbers_outside_the_limits_are_refused_under_the_id_of_the_call() {
    for number in ["1e400", "-1e400", "1e999999999999999999999"] {
        let error = refusal(call(&format!(r#"{{"name":"pay","arguments":{{"amount":{number}}}}}"#)));
        assert_eq!((error.code, error.id), (code::INVALID_REQUEST, Some(RequestId::number(7))), "{number}");
    }
    assert_eq!(refusal(call(r#"{"name":"pay","arguments":{"amount":NaN}}"#)).code, code::PARSE_ERROR);
}

#[test]
fn messages_that_are_too_deep_too_wide_or_too_large_are_refused() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(refusal(call(&format!(r#"{{"name":"a","arguments":{{"x":{deep}}}}}"#))).code, code::INVALID_REQUEST);
    let wide: String = (0..10_001).map(|n| format!("\"k{n}\":1,")).collect();
    assert_eq!(refusal(call(&format!(r#"{{"name":"a","arguments":{{{wide}"k":1}}}}"#))).code, code::INVALID_REQUEST);
    let flat = format!("[{}1]", "1,".repeat(32 << 20));
    let error = refusal(flat);
    assert_eq!((error.code, error.status), (code::INVALID_REQUEST, 413));
    let limits = JsonLimits { max_bytes: 40, ..JsonLimits::REQUEST };
    let error = read_client_message(call("{}").as_bytes(), &limits).expect_err("refused");
    assert_eq!((error.status, error.id), (413, None));
}

#[test]
fn invalid_utf_8_is_refused() {
    let surrogate = refusal(call(r#"{"name":"\ud800"}"#));
    assert_eq!((surrogate.code, surrogate.id), (code::INVALID_REQUEST, Some(RequestId::number(7))));
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let utf_16: Vec<u8> = ping.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = format!("\u{feff}{ping}");
    let bad = ping.replace("ping", "p\u{1}ng").into_bytes().iter().map(|b| if *b == 1 { 0xff } else { *b }).collect();
    for bytes in [utf_16, marked.into_bytes(), bad, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc0\x80\"}".to_vec()]
    {
        let error = refusal(&bytes);
        assert_eq!((error.code, error.id), (code::PARSE_ERROR, None), "{bytes:?}");
    }
}

#[test]
fn text_after_the_message_is_refused() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for behind in [ping, "\0", "//", "/* */", ",", "]", "\u{2028}"] {
        assert_eq!(refusal(format!("{ping}{behind}")).code, code::PARSE_ERROR, "{behind}");
    }
    assert_eq!(refusal(r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#).code, code::PARSE_ERROR);
    request(" \r\n\t{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} \n");
}

#[test]
fn an_error_message_is_short_and_shows_hidden_characters() {
    let long = format!("n\u{200b}ame{}", "\u{1b}[2J".replace('\u{1b}', "\\u001b"));
    let error = refusal(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x` {long}{}"}}"#, "y".repeat(10_000)));
    assert!(error.message.len() < 300, "{}", error.message.len());
    assert!(error.message.starts_with("unknown method `x\\u{0060} n\\u{200b}ame\\u{001b}[2Jyyy"), "{error}");
    assert!(error.message.ends_with("…`, at line 1, column 34"), "{error}");
    let key = "k".repeat(100_000);
    assert!(refusal(format!(r#"{{"{key}":1,"{key}":2}}"#)).message.len() < 300);
}

#[test]
fn types_in_meta_are_checked_during_parsing() {
    for meta in [
        "1",
        "null",
        "[]",
        r#"{"progressToken":1.5}"#,
        r#"{"progressToken":null}"#,
        r#"{"io.modelcontextprotocol/protocolVersion":20260728}"#,
        r#"{"io.modelcontextprotocol/logLevel":{}}"#,
        r#"{"io.modelcontextprotocol/clientInfo":"x"}"#,
        r#"{"io.modelcontextprotocol/clientCapabilities":[]}"#,
    ] {
        assert_eq!(refusal(call(&format!(r#"{{"name":"a","_meta":{meta}}}"#))).code, code::INVALID_PARAMS, "{meta}");
    }
}
