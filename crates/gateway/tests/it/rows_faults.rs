//! Rows F6, R9 and T10 on every way and before every kind of server: errors come as the server wrote them, what may have
//! run is not sent again, and large results come whole.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, TestGateway, json_response, tool_definition};
use serde_json::{Value, json};

use super::rows_kit::{ALL, count, result_of};
use super::rows_streams::LARGE;
use super::rows_ways::{Client, Server, ServerKind, Way, Words};

/// Errors of a server, spelled as nobody else would: the tool that gives it, the error, and the status that a client
/// without a session gets.
const ERRORS: [(&str, &str, u16); 6] = [
    ("own", r#"{"data":{"n":1.10,"list":[1e2,"\/"]},"code":-32099,"message":"o\u00e9ps" ,"x":9007199254740993}"#, 200),
    ("params", r#"{"code":-32602,"message":"n is missing","data":null}"#, 200),
    ("odd", r#"{"code":17,"message":""}"#, 200),
    ("inner", r#"{"code":-32603,"message":"broke","data":"1.10"}"#, 200),
    ("method", r#"{"code":-32601,"message":"no tools here","data":[ ]}"#, 404),
    ("lacks", r#"{"code":-32021,"message":"cannot","data":{"requiredCapabilities":{"sampling":{}}}}"#, 400),
];

async fn errors_are_the_servers(kind: ServerKind, way: Way) {
    let words: Words = ERRORS.map(|(tool, error, _)| (at(tool), format!("\"error\":{error}"))).into();
    let server = Server::start(kind, json!(ERRORS.map(|(name, ..)| tool_definition(name))), words).await;
    let gw = server.before(TestGateway::builder().policy(ALL)).await;
    let mut client = Client::open(&gw, way).await;
    for (tool, error, status) in ERRORS {
        let case = format!("{tool} by {way:?} before {kind:?}");
        let heard = client.call(tool, json!({})).await;
        assert_eq!(heard.answer()["id"], 3, "{case}: {heard:?}");
        assert!(heard.text().contains(&format!("\"error\":{error}")), "{case}: as it is written: {heard:?}");
        let wanted = if way.is_stateless() { status } else { 200 };
        assert_eq!(heard.status.unwrap_or(wanted), wanted, "{case}: {heard:?}");
    }
    assert_eq!(server.count("tools/call"), ERRORS.len(), "{way:?} before {kind:?}: none is asked for again");
}

/// The key of a tool's words.
fn at(tool: &str) -> &'static str {
    match tool {
        "own" => "tools/call own",
        "params" => "tools/call params",
        "odd" => "tools/call odd",
        "inner" => "tools/call inner",
        "method" => "tools/call method",
        "lacks" => "tools/call lacks",
        _ => panic!("{tool}"),
    }
}

#[tokio::test]
async fn f6_on_every_way_an_error_keeps_its_code_its_words_and_its_data_as_they_are_written() {
    for way in Way::EVERY {
        errors_are_the_servers(ServerKind::Legacy, way).await;
        errors_are_the_servers(ServerKind::Modern, way).await;
    }
}

#[tokio::test]
async fn f6_so_it_does_of_a_process_and_of_a_server_by_http_and_sse() {
    for kind in [ServerKind::Sse, ServerKind::Child, ServerKind::ModernChild] {
        for way in Way::EVERY {
            errors_are_the_servers(kind, way).await;
        }
    }
}

#[tokio::test]
async fn f6_an_error_that_names_no_request_is_that_of_the_call_where_nobody_else_could_have_caused_it() {
    let words = || -> Words {
        let said =
            |id: &str| format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"what?","data":1.10}}}}"#);
        vec![("tools/call null", said(r#""id":null,"#)), ("tools/call none", said(""))]
    };
    for kind in ServerKind::EVERY {
        // Many share such a process; there nobody is told, and the time is over.
        let is_shared = kind == ServerKind::ModernChild;
        let ways: &[Way] = if is_shared { &[Way::Session, Way::Stateless] } else { &Way::EVERY };
        for way in ways.iter().copied() {
            let case = format!("{way:?} before {kind:?}");
            let server = Server::start(kind, json!([tool_definition("null"), tool_definition("none")]), words()).await;
            let call_timeout = Duration::from_secs(if is_shared { 4 } else { 30 });
            let settings = GatewaySettings { call_timeout, ..GatewaySettings::default() };
            let gw = server.before(TestGateway::builder().policy(ALL).settings(settings)).await;
            let mut client = Client::open(&gw, way).await;
            for name in ["null", "none"] {
                let heard = client.call(name, json!({})).await;
                assert_eq!(heard.answer()["id"], 3, "{case}: {heard:?}");
                if is_shared {
                    assert!(heard.said().contains("did not answer in time"), "{case}: {heard:?}");
                    break;
                }
                assert!(
                    heard.text().contains(r#""error":{"code":-32700,"message":"what?","data":1.10}"#),
                    "{case}: {heard:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn f6_a_resource_that_is_not_there_has_another_code_across_the_eras_and_all_else_as_it_is_written() {
    let error = r#"{"x":1.10 ,"code":-32002,"data":{"uri":"note:\/\/1"},"message":"no \u00e9"}"#;
    let kinds = [ServerKind::Legacy, ServerKind::Modern, ServerKind::Sse];
    for (kind, way) in kinds.into_iter().flat_map(|kind| Way::EVERY.map(|way| (kind, way))) {
        let server =
            Server::start(kind, json!([]), vec![("resources/read", format!("\"error\":{error},\"y\":1e2"))]).await;
        let gw = server.before(TestGateway::builder().policy(ALL)).await;
        let heard = Client::open(&gw, way).await.ask("resources/read", json!({"uri": way.uri("note://1")})).await;
        let mut wanted = format!("\"error\":{error},\"y\":1e2");
        if way.is_stateless() && !kind.is_modern() {
            wanted = wanted.replace("-32002", "-32602");
        }
        if way.is_at_all() {
            wanted = wanted.replace("note:\\/\\/1", "x-desk+note://1");
        }
        assert!(heard.text().contains(&wanted), "{way:?} before {kind:?}: {heard:?}");
    }
}

/// A server with sessions that forgets the one it has, once, when it is asked for what stands here.
#[derive(Default)]
struct Memory {
    opened: AtomicUsize,
    forgets_at: Mutex<Option<&'static str>>,
}

impl Memory {
    fn answer(&self, hit: &RecordedRequest) -> Option<ResponseScript> {
        let method = hit.method();
        if method == "initialize" {
            let session = self.opened.fetch_add(1, Ordering::AcqRel) + 1;
            let able = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": {"name": "s", "version": "1"}});
            return Some(json_response(
                "200 OK",
                &format!("mcp-session-id: s-{session}\r\n"),
                &result_of(hit, &result).to_string(),
            ));
        }
        let is_due = self.forgets_at.lock().expect("a method").take_if(|own| *own == method).is_some();
        if is_due {
            self.opened.fetch_add(1, Ordering::AcqRel);
        }
        let known = format!("s-{}", self.opened.load(Ordering::Acquire));
        if hit.message()["id"].is_null() || method == "server/discover" || hit.header("mcp-session-id") == Some(&known)
        {
            return None;
        }
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}"#;
        Some(json_response("404 Not Found", "", body))
    }
}

#[tokio::test]
async fn r9_on_every_way_what_may_have_run_is_sent_once_though_the_session_was_forgotten_and_the_next_goes_on() {
    let requests = [
        ("tools/call", json!({"name": "read", "arguments": {}})),
        ("resources/read", json!({"uri": "note://1"})),
        ("prompts/get", json!({"name": "greet"})),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {}})),
    ];
    for way in Way::EVERY {
        for (method, params) in &requests {
            let case = format!("{method} by {way:?}");
            let memory = Arc::new(Memory::default());
            let own = Arc::clone(&memory);
            let upstream = FakeUpstream::start(json!([tool_definition("read")]), move |hit| own.answer(hit)).await;
            let gw = TestGateway::with_policy(ALL, &upstream).await;
            let mut client = Client::open(&gw, way).await;
            let mut ask = async || client.ask(method, way.named(params.clone())).await;
            assert!(ask().await.answer()["result"].is_object(), "{case}");
            let handshakes = count(&upstream, "initialize");
            *memory.forgets_at.lock().expect("a method") = Some(method);

            let lost = ask().await;
            let words = ["had forgotten the session", "the call may have run"];
            assert!(words.iter().all(|words| lost.text().contains(words)), "{case}: {lost:?}");
            let answer = lost.answer();
            assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{case}: {lost:?}");
            assert_eq!(count(&upstream, method), 2, "{case}: it is not sent again");
            assert_eq!(lost.status.unwrap_or(200), 200, "{case}: the client's own session is not over");

            let next = ask().await;
            assert!(next.answer()["result"].is_object() && !next.text().contains("isError"), "{case}: {next:?}");
            assert_eq!(count(&upstream, method), 3, "{case}");
            assert_eq!(count(&upstream, "initialize"), handshakes + 1, "{case}: one handshake more");
        }
    }
}

async fn comes_whole(kind: ServerKind, ways: &[Way]) {
    let words = vec![("tools/call", format!("\"result\":{}", *LARGE))];
    let server = Server::start(kind, json!([tool_definition("large")]), words).await;
    for way in ways {
        let gw = server.before(TestGateway::builder().policy(ALL)).await;
        let heard = Client::open(&gw, *way).await.call("large", json!({})).await;
        let at = heard.text().find("\"result\":").expect("a result") + "\"result\":".len();
        let came = heard.text().get(at..).unwrap_or_default();
        assert!(came.strip_suffix('}') == Some(LARGE.as_str()), "{way:?} before {kind:?}: {} bytes came", came.len());
    }
}

#[tokio::test]
async fn t10_a_result_of_twelve_megabytes_comes_whole_from_a_process() {
    comes_whole(ServerKind::Child, &[Way::Session, Way::Stateless]).await;
    comes_whole(ServerKind::ModernChild, &[Way::StatelessAtAll]).await;
}

#[tokio::test]
async fn t10_a_result_of_twelve_megabytes_comes_whole_from_a_server_by_http_and_sse() {
    comes_whole(ServerKind::Sse, &[Way::Session, Way::Stateless, Way::SessionAtAll]).await;
}

#[tokio::test]
async fn t10_a_message_beyond_the_bound_ends_that_call_and_the_next_one_works() {
    for kind in [ServerKind::Sse, ServerKind::Child, ServerKind::ModernChild] {
        for way in [Way::Session, Way::Stateless] {
            let large = json!({"content": [{"type": "text", "text": "x".repeat(200_000)}]});
            let small = json!({"content": [{"type": "text", "text": "small"}]});
            let said = |result: &Value| format!("\"result\":{result}");
            let words = vec![("tools/call large", said(&large)), ("tools/call small", said(&small))];
            let server = Server::start(kind, json!([tool_definition("large"), tool_definition("small")]), words).await;
            let mut settings = GatewaySettings { call_timeout: Duration::from_secs(5), ..GatewaySettings::default() };
            settings.reply_limits.max_bytes = 64 << 10;
            let gw = server.before(TestGateway::builder().policy(ALL).settings(settings)).await;
            let mut client = Client::open(&gw, way).await;
            let case = format!("{way:?} before {kind:?}");
            let refused = client.call("large", json!({})).await;
            assert_eq!(refused.answer()["result"]["isError"], true, "{case}: {refused:?}");
            assert!(refused.said().starts_with("[UPSTREAM] "), "{case}: {refused:?}");
            assert_eq!(client.call("small", json!({})).await.said(), "small", "{case}: the next one works");
            assert_eq!(server.count("tools/call"), 2, "{case}");
        }
    }
}
