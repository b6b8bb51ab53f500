//! Servers whose questions do not say to which call they belong: each call that may be asked something has a session of
//! its own, within bounds, and where there is none, what is said is true.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod left;

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::CallOutcome;
use gatelodge_testkit::{
    FakeSseUpstream, FakeUpstream, RecordedRequest, ScriptStep, SsePostReply, TestGateway, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::support::{ALLOW_ALL, StatelessTestClient, chunk, event, stateless_request, stream_headers, wait_until};

/// A server at standard streams that writes down what it hears. Its tool `ask` asks what it is told to, and says what it
/// was answered; `slow` never answers, nor does `later`, which asks when it was cancelled; `both` asks, and
/// answers when it knows by another question of its own that this was read.
const SERVER: &str = r#"
import json, os, sys
waiting, both, later = {}, {}, set()
def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def text(own, value):
    say({"id": own, "result": {"content": [{"type": "text", "text": json.dumps(value)}]}})
for line in sys.stdin:
    message = json.loads(line)
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps({"pid": os.getpid(), **message}) + "\n")
    method, params, own = message.get("method"), message.get("params", {}), message.get("id")
    name = params.get("name")
    if method is None and own in waiting:
        text(waiting.pop(own), message.get("result") or message.get("error"))
    elif method is None and own in both:
        text(both.pop(own), "done")
    elif method == "initialize":
        info = {"name": "asks", "version": "1"}
        say({"id": own, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "read", "slow", "later", "both")]
        say({"id": own, "result": {"tools": tools}})
    elif method == "tools/call" and name == "ask":
        waiting[f"q-{own}"] = own
        say({"id": f"q-{own}", "method": "elicitation/create", "params": params["arguments"]})
    elif method == "tools/call" and name == "later":
        later.add(own)
    elif method == "notifications/cancelled" and params["requestId"] in later:
        say({"id": "q-later", "method": "elicitation/create", "params": {"message": "for the one before"}})
    elif method == "tools/call" and name == "both":
        both[f"p-{own}"] = own
        say({"id": f"q-{own}", "method": "elicitation/create", "params": {"message": "never mind"}})
        say({"id": f"p-{own}", "method": "ping"})
    elif method == "tools/call" and name == "read":
        text(own, params["arguments"])
    elif method == "server/discover":
        say({"id": own, "error": {"code": -32601, "message": "no such method"}})
"#;

pub(super) async fn before(directory: &Path, settings: GatewaySettings) -> TestGateway {
    TestGateway::builder().policy(ALLOW_ALL).settings(settings).start_process(&script(directory)).await
}

/// How that server is started.
pub(super) fn script(directory: &Path) -> String {
    let (server, heard) = (directory.join("server.py"), directory.join("heard"));
    std::fs::write(&server, SERVER).expect("written");
    format!("exec python3 {} {}", server.display(), heard.display())
}

pub(super) fn heard(directory: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("heard")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(super) fn calls(directory: &Path, tool: &str) -> Vec<Value> {
    heard(directory).into_iter().filter(|own| own["params"]["name"] == tool).collect()
}

pub(super) fn ask(what: &str) -> Value {
    json!({"name": "ask", "arguments": {"message": what}})
}

pub(super) fn brought(what: &str, asked: &Value, said: &str) -> Value {
    json!({"name": "ask", "arguments": {"message": what}, "requestState": asked["requestState"],
        "inputResponses": {"ask": {"action": "accept", "content": {"said": said}}}})
}

/// Calls `ask`, and gives the result by which the client is asked.
pub(super) async fn asked(gw: &TestGateway, what: &str) -> Value {
    let answer = StatelessTestClient::new(gw).request("tools/call", ask(what)).await;
    let result = answer.message()["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{what}: {}", answer.body);
    assert_eq!(result["inputRequests"]["ask"]["params"]["message"], what, "its own question: {result}");
    result
}

pub(super) async fn slow(gw: &TestGateway) -> tokio::net::TcpStream {
    begun(gw, "slow").await
}

async fn begun(gw: &TestGateway, tool: &str) -> tokio::net::TcpStream {
    // What clients can do is what a session is shared by.
    let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {super::support::TASKS_EXTENSION: {}}});
    StatelessTestClient::new(gw)
        .start_request_with_capabilities("tools/call", json!({"name": tool, "arguments": {}}), &all)
        .await
}

#[tokio::test]
async fn a_process_may_ask_in_each_of_several_calls_that_are_open_and_each_hears_its_own_answer() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    let open = slow(&gw).await;
    wait_until("a call is open", || calls(directory.path(), "slow").len() == 1).await;
    let (a, b) = (asked(&gw, "A").await, asked(&gw, "B").await);
    for (what, asked) in [("B", &b), ("A", &a)] {
        let done = StatelessTestClient::new(&gw).request("tools/call", brought(what, asked, what)).await;
        assert!(done.text().contains(&format!(r#""said": "{what}""#)), "{}", done.body);
    }
    let pids: HashSet<_> = calls(directory.path(), "ask").iter().map(|own| own["pid"].clone()).collect();
    assert_eq!(pids.len(), 2, "each has a process of its own");
    assert!(gw.rows().await.iter().all(|row| row.record.message.is_none()), "nothing was refused");
    drop(open);
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn calls_one_after_the_other_or_soon_done_are_all_for_one_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    let call = |n: usize| {
        let caller = StatelessTestClient::new(&gw);
        async move { caller.call("read", json!({"n": n})).await.text() }
    };
    let texts = tokio::join!(call(1), call(2), call(3), call(4));
    assert_eq!(texts.3, r#"{"n": 4}"#);
    call(5).await;
    let pids: HashSet<_> = calls(directory.path(), "read").iter().map(|own| own["pid"].clone()).collect();
    assert_eq!(pids.len(), 1, "a server may keep something between calls");
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn a_client_at_standard_streams_is_asked_in_one_call_while_another_is_open() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, answers) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let mut lines = BufReader::new(answers).lines();
    let line = |id: &str, params: Value| {
        let mut message: Value =
            serde_json::from_str(&stateless_request("tools/call", params, &json!({"elicitation": {}}))).expect("JSON");
        message["id"] = json!(id);
        format!("{message}\n")
    };
    client.write_all(line("slow", json!({"name": "slow", "arguments": {}})).as_bytes()).await.expect("written");
    wait_until("a call is open", || calls(directory.path(), "slow").len() == 1).await;
    client.write_all(line("asks", ask("sure?")).as_bytes()).await.expect("written");
    let next = lines.next_line().await.expect("text").expect("an answer");
    let result = serde_json::from_str::<Value>(&next).expect("JSON")["result"].clone();
    assert_eq!(result["inputRequests"]["ask"]["params"]["message"], "sure?", "{next}");
    client.write_all(line("again", brought("sure?", &result, "yes")).as_bytes()).await.expect("written");
    let next = lines.next_line().await.expect("text").expect("an answer");
    assert!(next.contains("again") && next.contains("yes"), "{next}");
    drop((client, lines));
    running.await.expect("it ends").ok();
}

#[tokio::test]
async fn a_server_by_http_and_sse_may_ask_while_another_call_is_open() {
    let said = |message: &Value| ScriptStep::Write(format!("event: message\ndata: {message}\n\n").into_bytes());
    let upstream = FakeSseUpstream::start(&["ask", "slow"], move |hit: &RecordedRequest| match hit.tool().as_str() {
        "slow" => Some(SsePostReply::accept_then(Vec::new())),
        "ask" => Some(SsePostReply::accept_then(vec![said(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "A"}}),
        )])),
        _ => None,
    })
    .await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_at(&upstream.url()).await;
    let _open = slow(&gw).await;
    wait_until("a call is open", || upstream.requests().iter().any(|hit| hit.tool() == "slow")).await;
    asked(&gw, "A").await;
    assert_eq!(upstream.open_streams(), 2, "a connection of its own");
}

#[tokio::test]
async fn a_question_that_nobody_came_back_for_keeps_no_later_call_from_being_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(
        directory.path(),
        GatewaySettings { client_input_timeout: Duration::from_secs(3), ..GatewaySettings::default() },
    )
    .await;
    let mut first = Value::Null;
    for n in 0..10 {
        let result = asked(&gw, &n.to_string()).await;
        first = if n == 0 { result } else { first };
    }
    let pids: HashSet<_> = calls(directory.path(), "ask").iter().map(|own| own["pid"].clone()).collect();
    assert!((8..=10).contains(&pids.len()), "where one gave way, its process may have been ended: {pids:?}");
    let cancelled = || heard(directory.path()).into_iter().filter(|own| own["method"] == "notifications/cancelled");
    wait_until("those asked longest ago gave way", || cancelled().count() >= 2).await;
    let late = StatelessTestClient::new(&gw).request("tools/call", brought("0", &first, "too late")).await;
    assert!(late.body.contains("its call was evicted"), "{}", late.body);
    assert!(heard(directory.path()).iter().all(|own| !own.to_string().contains("too late")));
}

#[tokio::test]
async fn beyond_the_bound_a_call_waits_for_its_turn_and_then_is_refused_in_true_words_and_not_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = GatewaySettings { call_timeout: Duration::from_secs(3), ..GatewaySettings::default() };
    let gw = before(directory.path(), settings).await;
    let mut open = Vec::new();
    for n in 0..8 {
        open.push((n.to_string(), asked(&gw, &n.to_string()).await));
    }
    let refused = StatelessTestClient::new(&gw).call("read", json!({"n": 1})).await;
    assert!(refused.text().contains("8 calls are running in which this server may ask"), "{}", refused.body);
    assert!(refused.text().contains("not sent"), "{}", refused.body);
    assert!(calls(directory.path(), "read").is_empty());

    let (what, result) = open.pop().expect("one that waits");
    let answering = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(calls(directory.path(), "read").is_empty(), "it waits");
        StatelessTestClient::new(&gw).request("tools/call", brought(&what, &result, "yes")).await
    };
    let (turn, done) = tokio::join!(StatelessTestClient::new(&gw).call("read", json!({"n": 2})), answering);
    assert!(done.text().contains("yes"), "{}", done.body);
    assert_eq!(turn.text(), r#"{"n": 2}"#, "{}", turn.body);
}

/// A server with sessions over HTTP, whose calls wait for ever for what they ask.
pub(super) async fn asks_over_http() -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("ask"), tool_definition("read")]), |hit: &RecordedRequest| {
        let question = event(&json!({"jsonrpc": "2.0", "id": hit.message()["id"], "method": "elicitation/create",
            "params": hit.message()["params"]["arguments"]}));
        let waits = vec![ScriptStep::Write(chunk(&question)), ScriptStep::Pause(Duration::from_secs(30))];
        (hit.tool() == "ask").then(|| [stream_headers(), waits].concat())
    })
    .await
}

#[tokio::test]
async fn a_call_that_waits_for_its_client_is_in_flight_and_the_answer_takes_its_place() {
    let upstream = asks_over_http().await;
    let settings = GatewaySettings { in_flight_per_grant: 1, ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).start(&upstream).await;
    let result = asked(&gw, "A").await;
    let refused = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert!(refused.body.contains("too many requests of this grant"), "{}", refused.body);
    let stream = StatelessTestClient::new(&gw).start_request("tools/call", brought("A", &result, "yes")).await;
    wait_until("it is answered", || upstream.requests().iter().any(|hit| hit.body.contains("yes"))).await;
    drop(stream);
    let freed = || async { gw.rows().await.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled)) };
    while !freed().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(StatelessTestClient::new(&gw).call("read", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn beyond_the_bound_of_calls_that_wait_the_server_is_told_so_and_those_left_longest_give_way() {
    let upstream = asks_over_http().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    for n in 0..32 {
        asked(&gw, &n.to_string()).await;
    }
    let _open = StatelessTestClient::new(&gw).start_request("tools/call", ask("one more")).await;
    let told = || upstream.requests().into_iter().map(|hit| hit.message()).find(|said| !said["error"].is_null());
    wait_until("the server is told", || told().is_some()).await;
    let said = told().expect("an answer")["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(said.contains("too many calls wait for client input"), "{said}");

    let upstream = asks_over_http().await;
    let settings = GatewaySettings { client_input_timeout: Duration::from_secs(5), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).start(&upstream).await;
    for n in 0..32 {
        asked(&gw, &n.to_string()).await;
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    asked(&gw, "one more").await;
}
