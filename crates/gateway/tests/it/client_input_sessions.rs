//! Servers whose requests do not say which call they belong to: a call that may be asked for input gets an upstream
//! session to itself, up to a limit, and is refused with the reason beyond it.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod abandoned_calls;
mod refused_resumption;

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

use super::support::{
    ALLOW_ALL, StatelessTestClient, chunk, event, stateless_request, stream_headers, wait_until, wait_until_async,
};

/// A stdio server that appends every message it receives to a file. Its tools:
/// `ask` sends its arguments as an elicitation, and returns the response;
/// `slow` never responds;
/// `later` never responds, and sends an elicitation after it was cancelled;
/// `both` sends an elicitation and a ping, and returns when the ping is answered, so that the elicitation was read before.
const SERVER: &str = r#"
import json, os, sys
waiting, both, later = {}, {}, set()  # the dicts map ids of server requests to ids of calls
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def send_text(request_id, value):
    send({"id": request_id, "result": {"content": [{"type": "text", "text": json.dumps(value)}]}})
for line in sys.stdin:
    message = json.loads(line)
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps({"pid": os.getpid(), **message}) + "\n")
    method, params, request_id = message.get("method"), message.get("params", {}), message.get("id")
    name = params.get("name")
    if method is None and request_id in waiting:
        send_text(waiting.pop(request_id), message.get("result") or message.get("error"))
    elif method is None and request_id in both:
        send_text(both.pop(request_id), "done")
    elif method == "initialize":
        info = {"name": "asks", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        send({"id": request_id, "result": result})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "read", "slow", "later", "both")]
        send({"id": request_id, "result": {"tools": tools}})
    elif method == "tools/call" and name == "ask":
        waiting[f"q-{request_id}"] = request_id
        send({"id": f"q-{request_id}", "method": "elicitation/create", "params": params["arguments"]})
    elif method == "tools/call" and name == "later":
        later.add(request_id)
    elif method == "notifications/cancelled" and params["requestId"] in later:
        send({"id": "q-later", "method": "elicitation/create", "params": {"message": "for the cancelled call"}})
    elif method == "tools/call" and name == "both":
        both[f"p-{request_id}"] = request_id
        send({"id": f"q-{request_id}", "method": "elicitation/create", "params": {"message": "never mind"}})
        send({"id": f"p-{request_id}", "method": "ping"})
    elif method == "tools/call" and name == "read":
        send_text(request_id, params["arguments"])
    elif method == "server/discover":
        send({"id": request_id, "error": {"code": -32601, "message": "no such method"}})
"#;

/// Starts a gateway in front of that server.
pub(super) async fn start_gateway(directory: &Path, settings: GatewaySettings) -> TestGateway {
    TestGateway::builder().policy(ALLOW_ALL).settings(settings).start_process(&server_command(directory)).await
}

/// Writes that server to a file, and returns the command that starts it.
pub(super) fn server_command(directory: &Path) -> String {
    let (server, received) = (directory.join("server.py"), directory.join("received"));
    std::fs::write(&server, SERVER).expect("written");
    format!("exec python3 {} {}", server.display(), received.display())
}

/// Returns all messages that processes of that server received, each with the process id.
pub(super) fn received_messages(directory: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("received")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(super) fn received_calls(directory: &Path, tool: &str) -> Vec<Value> {
    received_messages(directory).into_iter().filter(|message| message["params"]["name"] == tool).collect()
}

/// Returns the parameters of a call to `ask`.
pub(super) fn ask_params(question: &str) -> Value {
    json!({"name": "ask", "arguments": {"message": question}})
}

/// Returns the parameters that resume a suspended call of `ask` with a response.
pub(super) fn resume_params(question: &str, suspended: &Value, response: &str) -> Value {
    json!({"name": "ask", "arguments": {"message": question}, "requestState": suspended["requestState"],
        "inputResponses": {"ask": {"action": "accept", "content": {"response": response}}}})
}

/// Calls `ask`, and returns the result that asks the client for input.
pub(super) async fn suspend_call(gw: &TestGateway, question: &str) -> Value {
    let response = StatelessTestClient::new(gw).request("tools/call", ask_params(question)).await;
    let result = response.message()["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{question}: {}", response.body);
    assert_eq!(result["inputRequests"]["ask"]["params"]["message"], question, "the question of this call: {result}");
    result
}

pub(super) async fn start_slow_call(gw: &TestGateway) -> tokio::net::TcpStream {
    start_call(gw, "slow").await
}

async fn start_call(gw: &TestGateway, tool: &str) -> tokio::net::TcpStream {
    // Only clients with equal capabilities share sessions, and the other calls of these tests declare all of them.
    let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {super::support::TASKS_EXTENSION: {}}});
    StatelessTestClient::new(gw)
        .start_request_with_capabilities("tools/call", json!({"name": tool, "arguments": {}}), &capabilities)
        .await
}

#[tokio::test]
async fn a_stdio_server_may_ask_in_concurrent_calls_and_each_gets_its_own_response() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let open = start_slow_call(&gw).await;
    wait_until("the slow call arrives", || received_calls(directory.path(), "slow").len() == 1).await;
    let (a, b) = (suspend_call(&gw, "A").await, suspend_call(&gw, "B").await);
    for (question, suspended) in [("B", &b), ("A", &a)] {
        let done =
            StatelessTestClient::new(&gw).request("tools/call", resume_params(question, suspended, question)).await;
        assert!(done.text().contains(&format!(r#""response": "{question}""#)), "{}", done.body);
    }
    let pids: HashSet<_> =
        received_calls(directory.path(), "ask").iter().map(|message| message["pid"].clone()).collect();
    assert_eq!(pids.len(), 2, "each call has a process of its own");
    assert!(gw.rows().await.iter().all(|row| row.record.message.is_none()), "nothing was refused");
    drop(open);
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn sequential_and_short_calls_share_one_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let call = |n: usize| {
        let client = StatelessTestClient::new(&gw);
        async move { client.call("read", json!({"n": n})).await.text() }
    };
    let texts = tokio::join!(call(1), call(2), call(3), call(4));
    assert_eq!(texts.3, r#"{"n": 4}"#);
    call(5).await;
    let pids: HashSet<_> =
        received_calls(directory.path(), "read").iter().map(|message| message["pid"].clone()).collect();
    assert_eq!(pids.len(), 1, "a server may keep state between calls");
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn a_stdio_client_is_asked_in_one_call_while_another_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, responses) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    let running = tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    let mut lines = BufReader::new(responses).lines();
    let line = |id: &str, params: Value| {
        let mut message: Value =
            serde_json::from_str(&stateless_request("tools/call", params, &json!({"elicitation": {}}))).expect("JSON");
        message["id"] = json!(id);
        format!("{message}\n")
    };
    client.write_all(line("slow", json!({"name": "slow", "arguments": {}})).as_bytes()).await.expect("written");
    wait_until("the slow call arrives", || received_calls(directory.path(), "slow").len() == 1).await;
    client.write_all(line("asks", ask_params("sure?")).as_bytes()).await.expect("written");
    let next = lines.next_line().await.expect("text").expect("a response");
    let result = serde_json::from_str::<Value>(&next).expect("JSON")["result"].clone();
    assert_eq!(result["inputRequests"]["ask"]["params"]["message"], "sure?", "{next}");
    client.write_all(line("again", resume_params("sure?", &result, "yes")).as_bytes()).await.expect("written");
    let next = lines.next_line().await.expect("text").expect("a response");
    assert!(next.contains("again") && next.contains("yes"), "{next}");
    drop((client, lines));
    running.await.expect("it ends").ok();
}

#[tokio::test]
async fn an_http_sse_server_may_ask_while_another_call_runs() {
    let send = |message: &Value| ScriptStep::Write(format!("event: message\ndata: {message}\n\n").into_bytes());
    let upstream = FakeSseUpstream::start(&["ask", "slow"], move |hit: &RecordedRequest| match hit.tool().as_str() {
        "slow" => Some(SsePostReply::accept_then(Vec::new())),
        "ask" => Some(SsePostReply::accept_then(vec![send(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "A"}}),
        )])),
        _ => None,
    })
    .await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_at(&upstream.url()).await;
    let _open = start_slow_call(&gw).await;
    wait_until("the slow call arrives", || upstream.requests().iter().any(|hit| hit.tool() == "slow")).await;
    suspend_call(&gw, "A").await;
    assert_eq!(upstream.open_streams(), 2, "each call has a connection of its own");
}

#[tokio::test]
async fn abandoned_suspended_calls_are_evicted_for_later_calls() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(
        directory.path(),
        GatewaySettings { client_input_timeout: Duration::from_secs(3), ..GatewaySettings::default() },
    )
    .await;
    let mut first = Value::Null;
    for n in 0..10 {
        let result = suspend_call(&gw, &n.to_string()).await;
        first = if n == 0 { result } else { first };
    }
    let pids: HashSet<_> =
        received_calls(directory.path(), "ask").iter().map(|message| message["pid"].clone()).collect();
    assert!((8..=10).contains(&pids.len()), "the process of an evicted call may have been stopped: {pids:?}");
    let cancelled = || {
        received_messages(directory.path()).into_iter().filter(|message| message["method"] == "notifications/cancelled")
    };
    wait_until("the oldest calls are evicted", || cancelled().count() >= 2).await;
    let late = StatelessTestClient::new(&gw).request("tools/call", resume_params("0", &first, "too late")).await;
    assert!(late.body.contains("its call was evicted"), "{}", late.body);
    assert!(received_messages(directory.path()).iter().all(|message| !message.to_string().contains("too late")));
}

#[tokio::test]
async fn a_call_beyond_the_session_limit_waits_and_is_then_refused_and_not_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = GatewaySettings { call_timeout: Duration::from_secs(3), ..GatewaySettings::default() };
    let gw = start_gateway(directory.path(), settings).await;
    let mut open = Vec::new();
    for n in 0..8 {
        open.push((n.to_string(), suspend_call(&gw, &n.to_string()).await));
    }
    let refused = StatelessTestClient::new(&gw).call("read", json!({"n": 1})).await;
    assert!(refused.text().contains("limit of 8 concurrent calls in which this server may ask"), "{}", refused.body);
    assert!(refused.text().contains("not sent"), "{}", refused.body);
    assert!(received_calls(directory.path(), "read").is_empty());

    let (question, suspended) = open.pop().expect("a suspended call");
    let resuming = async {
        // Half of `call_timeout`: the call waits that long and is not sent.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(received_calls(directory.path(), "read").is_empty(), "the call waits");
        StatelessTestClient::new(&gw).request("tools/call", resume_params(&question, &suspended, "yes")).await
    };
    let (waited, done) = tokio::join!(StatelessTestClient::new(&gw).call("read", json!({"n": 2})), resuming);
    assert!(done.text().contains("yes"), "{}", done.body);
    assert_eq!(waited.text(), r#"{"n": 2}"#, "{}", waited.body);
}

/// Starts a stateful HTTP server. Calls of `ask` send an elicitation and never finish.
pub(super) async fn start_asking_http_server() -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("ask"), tool_definition("read")]), |hit: &RecordedRequest| {
        let elicitation = event(&json!({"jsonrpc": "2.0", "id": hit.message()["id"], "method": "elicitation/create",
            "params": hit.message()["params"]["arguments"]}));
        let steps = vec![ScriptStep::Write(chunk(&elicitation)), ScriptStep::Pause(Duration::from_secs(30))];
        (hit.tool() == "ask").then(|| [stream_headers(), steps].concat())
    })
    .await
}

#[tokio::test]
async fn a_suspended_call_counts_as_in_flight_and_resuming_it_takes_no_second_place() {
    let upstream = start_asking_http_server().await;
    let settings = GatewaySettings { in_flight_per_grant: 1, ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).start(&upstream).await;
    let suspended = suspend_call(&gw, "A").await;
    let refused = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert!(refused.body.contains("too many requests of this grant"), "{}", refused.body);
    let stream = StatelessTestClient::new(&gw).start_request("tools/call", resume_params("A", &suspended, "yes")).await;
    wait_until("the server gets the response", || upstream.requests().iter().any(|hit| hit.body.contains("yes"))).await;
    drop(stream);
    wait_until_async("the call is cancelled", async || {
        gw.rows().await.iter().any(|row| row.record.outcome == Some(CallOutcome::Cancelled))
    })
    .await;
    assert_eq!(StatelessTestClient::new(&gw).call("read", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn a_server_request_beyond_the_suspended_call_limit_gets_an_error_or_evicts_the_oldest_call() {
    let upstream = start_asking_http_server().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    for n in 0..32 {
        suspend_call(&gw, &n.to_string()).await;
    }
    let _open = StatelessTestClient::new(&gw).start_request("tools/call", ask_params("one more")).await;
    let error = || upstream.requests().into_iter().map(|hit| hit.message()).find(|message| !message["error"].is_null());
    wait_until("the server gets an error", || error().is_some()).await;
    let message = error().expect("an error")["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("too many calls wait for client input"), "{message}");

    let upstream = start_asking_http_server().await;
    let settings = GatewaySettings { client_input_timeout: Duration::from_secs(5), ..GatewaySettings::default() };
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).start(&upstream).await;
    for n in 0..32 {
        suspend_call(&gw, &n.to_string()).await;
    }
    // A suspended call can be evicted after a tenth of `client_input_timeout`.
    tokio::time::sleep(Duration::from_millis(600)).await;
    suspend_call(&gw, "one more").await;
}
