//! Rows T9, T10, R1 and R6: signs of life, large answers, progress, and what a session listens for.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::LazyLock;
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SseTestClient, TestGateway, TestResponse,
    event_response, json_response, tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::rows_kit::{
    ALL, Caller, answered, begin_in_session, chunk, count, event, modern_answer, open_stream, read_for, read_until,
    result_of, until,
};

const COMMENT: &str = "\n: \n\n";

/// A call that takes a while before anything is said at all.
fn slow(hit: &RecordedRequest) -> ResponseScript {
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": "slept"}]});
    let mut script = vec![ScriptStep::Pause(Duration::from_millis(400))];
    script.extend(json_response("200 OK", "", &result_of(hit, &result).to_string()));
    script
}

fn silent_stream(first: &str) -> ResponseScript {
    [open_stream(), vec![ScriptStep::Write(chunk(first)), ScriptStep::Pause(Duration::from_secs(60))]].concat()
}

fn legacy(hit: &RecordedRequest) -> Option<ResponseScript> {
    match hit.method().as_str() {
        "tools/call" => Some(slow(hit)),
        _ if hit.request_line.starts_with("GET") => Some(silent_stream("")),
        _ => None,
    }
}

fn modern(hit: &RecordedRequest) -> Option<ResponseScript> {
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "ask") => answered(
            hit,
            &json!({"resultType": "input_required", "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "sure?"}}}}),
        ),
        ("tools/call", _) => Some(slow(hit)),
        ("subscriptions/listen", _) => {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": hit.message()["id"]});
            let params = json!({"notifications": {}, "_meta": meta});
            let first =
                json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
            Some(silent_stream(&event(&first)))
        }
        _ => modern_answer(
            hit,
            &json!([tool_definition("slow"), tool_definition("ask")]),
            &json!({"tools": {"listChanged": true}}),
        ),
    }
}

async fn desk(server: fn(&RecordedRequest) -> Option<ResponseScript>, is_at_all: bool) -> TestGateway {
    let upstream = FakeUpstream::start(json!([tool_definition("slow")]), server).await;
    let settings = GatewaySettings { keep_alive_interval: Duration::from_millis(50), ..GatewaySettings::default() };
    let builder = TestGateway::builder().policy(ALL).settings(settings);
    let gw = if is_at_all { builder.at_aggregate() } else { builder }.start(&upstream).await;
    gw.initialize().await;
    gw
}

/// Reads two signs of life, which come one after the other.
async fn lives(what: &str, mut stream: TcpStream) -> TcpStream {
    let raw = read_until(&mut stream, COMMENT, 2).await;
    let head = raw.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase();
    assert!(
        head.contains("x-accel-buffering: no") && head.contains("content-type: text/event-stream"),
        "{what}: {raw}"
    );
    stream
}

/// The same for a call, whose answer comes behind them.
async fn lives_and_answers(what: &str, stream: TcpStream) {
    let rest = read_until(&mut lives(what, stream).await, "slept", 1).await;
    assert!(rest.contains("event: message\ndata: "), "{what}: {rest}");
}

fn call(tool: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": tool, "arguments": {}}}).to_string()
}

#[tokio::test]
async fn t9_a_call_under_way_shows_signs_of_life_in_both_eras_and_across_them() {
    assert!(GatewaySettings::default().keep_alive_interval <= Duration::from_secs(15));
    for (what, server) in [("legacy", legacy as fn(&RecordedRequest) -> Option<ResponseScript>), ("modern", modern)] {
        let gw = desk(server, false).await;
        lives_and_answers(what, begin_in_session(&gw, "POST", "/mcp/desk", "", &call("slow")).await).await;
        let stateless = Caller::of(&gw).begin("tools/call", json!({"name": "slow", "arguments": {}})).await;
        lives_and_answers(what, stateless).await;
    }
}

#[tokio::test]
async fn t9_a_call_whose_client_is_asked_shows_signs_of_life_while_the_client_thinks() {
    let gw = desk(modern, false).await;
    let mut stream = begin_in_session(&gw, "POST", "/mcp/desk", "", &call("ask")).await;
    let raw = read_until(&mut stream, "sure?", 1).await;
    assert!(raw.to_ascii_lowercase().contains("x-accel-buffering: no"), "{raw}");
    read_until(&mut stream, COMMENT, 2).await;
}

#[tokio::test]
async fn t9_streams_of_what_belongs_to_no_request_show_signs_of_life() {
    for (what, server) in [("legacy", legacy as fn(&RecordedRequest) -> Option<ResponseScript>), ("modern", modern)] {
        let gw = desk(server, false).await;
        lives(what, begin_in_session(&gw, "GET", "/mcp/desk", "", "").await).await;
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        lives(what, Caller::of(&gw).begin("subscriptions/listen", wanted).await).await;
    }
}

#[tokio::test]
async fn t9_streams_of_all_servers_show_signs_of_life() {
    for (what, server) in [("legacy", legacy as fn(&RecordedRequest) -> Option<ResponseScript>), ("modern", modern)] {
        let gw = desk(server, true).await;
        lives(what, begin_in_session(&gw, "GET", "/mcp", "", "").await).await;
        lives_and_answers(what, begin_in_session(&gw, "POST", "/mcp", "", &call("desk__slow")).await).await;
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        lives(what, Caller::of(&gw).at_all().begin("subscriptions/listen", wanted).await).await;
        let stateless = json!({"name": "desk__slow", "arguments": {}});
        lives_and_answers(what, Caller::of(&gw).at_all().begin("tools/call", stateless).await).await;
    }
}

/// The result of a call that is 12 MiB long and has some of everything in it.
pub static LARGE: LazyLock<String> = LazyLock::new(|| {
    let line = r#"{\"n\": 1.10, \"e\": 1e2}\n\u00e4 \/ "#;
    let texts: Vec<String> = (0..48).map(|at| format!("{at}: {}", line.repeat((256 << 10) / line.len()))).collect();
    let parts: Vec<String> =
        texts.iter().map(|text| format!(r#"{{"type":"text","text":"{text}","x":1.10}}"#)).collect();
    format!(r#"{{"resultType":"complete","content":[{}],"z":0,"a":9007199254740993}}"#, parts.join(" ,"))
});

fn large_answer(hit: &RecordedRequest) -> Option<ResponseScript> {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, hit.message()["id"], *LARGE);
    match hit.tool().as_str() {
        "whole" => Some(json_response("200 OK", "", &text)),
        "events" => Some(event_response(&format!("data: {text}\n\n"))),
        _ => None,
    }
}

#[tokio::test]
async fn t10_a_result_of_twelve_megabytes_comes_whole_and_byte_for_byte() {
    let tools = json!([tool_definition("whole"), tool_definition("events")]);
    let for_modern = tools.clone();
    let old = FakeUpstream::start(tools, large_answer).await;
    let new = FakeUpstream::start(json!([]), move |hit| {
        large_answer(hit).or_else(|| modern_answer(hit, &for_modern, &json!({"tools": {}})))
    });
    let new = new.await;
    let (before_old, before_new) =
        (TestGateway::with_policy(ALL, &old).await, TestGateway::with_policy(ALL, &new).await);
    assert!(LARGE.len() > 12 << 20);
    let same_as = |answer: TestResponse, large: &str| {
        assert_eq!(answer.status, 200);
        let at = answer.body.find("\"result\":").expect("a result") + "\"result\":".len();
        let is_same = answer.body.get(at..at + large.len()) == Some(large);
        assert!(is_same, "{} of {} bytes came", answer.body.len() - at, large.len());
        assert_eq!(answer.body[at + large.len()..].trim_end(), "}", "and nothing else");
    };
    let same = |answer: TestResponse| same_as(answer, &LARGE);
    same(before_old.call("whole", json!({})).await);
    same(Caller::of(&before_old).call("whole", json!({})).await);
    same_as(before_new.call("events", json!({})).await, &LARGE.replacen(r#""resultType":"complete","#, "", 1));
    same(Caller::of(&before_new).call("events", json!({})).await);
}

#[tokio::test]
async fn t10_a_request_beyond_the_configured_bound_is_413_on_every_transport() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let mut settings = GatewaySettings::default();
    settings.request_limits.max_bytes = 2_000;
    let gw = TestGateway::builder().policy(ALL).settings(settings).start(&upstream).await;
    gw.initialize().await;
    let filled = |length: usize| {
        let empty = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {"a": ""}}});
        let text = empty.to_string();
        text.replace("\"a\":\"\"", &format!("\"a\":\"{}\"", "x".repeat(length - text.len())))
    };
    assert_eq!((filled(2_000).len(), filled(2_001).len()), (2_000, 2_001));
    assert_eq!(gw.send_text(&filled(2_000)).await.status, 200, "up to it");
    let large = gw.send_text(&filled(2_001)).await;
    assert_eq!(large.status, 413);
    assert!(large.body.contains("larger than 2000 bytes"), "{}", large.body);
    let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", 2_001, filled(2_001));
    let head = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
        Accept: */*\r\nMcp-Session-Id: {}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}",
        gw.address,
        gw.token.reveal(),
        gw.session()
    );
    assert_eq!(gatelodge_testkit::exchange(gw.address, head.as_bytes()).await.status, 413, "a length is not believed");
    let stateless = json!({"name": "read", "arguments": {"a": "x".repeat(2_000)}});
    assert_eq!(Caller::of(&gw).ask("tools/call", stateless.clone()).await.status, 413);
    assert_eq!(Caller::of(&gw).at_all().ask("tools/call", stateless).await.status, 413);
    assert_eq!(SseTestClient::open(&gw).await.post(&filled(2_001)).await.status, 413);
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn t10_who_sends_everything_before_it_reads_hears_that_it_was_too_much() {
    let upstream = FakeUpstream::with_tools(&["read"]).await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    let body = "x".repeat(20 << 20);
    let head = format!(
        "POST /mcp/desk HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
        Accept: */*\r\n",
        gw.address,
        gw.token.reveal(),
    );
    let sent = [
        format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
    ];
    for text in sent {
        let mut stream = TcpStream::connect(gw.address).await.expect("a connection");
        stream.write_all(text.as_bytes()).await.expect("all of it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
}

/// Tells of progress as nobody should: to whom has not asked, under tokens of others, backwards, and behind the answer.
fn telling(hit: &RecordedRequest) -> Option<ResponseScript> {
    let told = |token: &Value, text: &str| {
        format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":{text}}}}}\n\n"
        )
    };
    let own = &hit.message()["id"];
    let answer =
        event(&result_of(hit, &json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})));
    let before = [
        told(own, "5.0,\"total\":1e1,\"message\":\"a\""),
        told(own, "3"),
        told(own, "5.00"),
        told(&json!("mine2"), "8"),
        told(own, "5.01e0"),
        told(own, "12345678901234567890123"),
        told(own, "12345678901234567890123"),
        told(own, "12345678901234567890124"),
        told(&json!(1), "9"),
    ];
    (hit.method() == "tools/call").then(|| event_response(&format!("{}{answer}{}", before.concat(), told(own, "7"))))
}

#[tokio::test]
async fn r1_progress_comes_to_whom_asked_for_it_as_it_is_while_it_increases_and_never_behind_the_answer() {
    let tools = json!([tool_definition("tell")]);
    let for_modern = tools.clone();
    let old = FakeUpstream::start(tools, telling).await;
    let new = FakeUpstream::start(json!([]), move |hit| {
        telling(hit).or_else(|| modern_answer(hit, &for_modern, &json!({"tools": {}})))
    });
    let new = new.await;
    for upstream in [old, new] {
        let gw = TestGateway::with_policy(ALL, &upstream).await;
        for with_token in [true, false] {
            let mut params = json!({"name": "tell", "arguments": {}});
            if with_token {
                params["_meta"] = json!({"progressToken": "mine"});
            }
            let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
            for answer in [gw.send(&request).await, Caller::of(&gw).ask("tools/call", params).await] {
                let told = answer.body.lines().filter(|line| line.contains("notifications/progress"));
                let values: Vec<&str> = told.filter_map(|line| line.split("\"params\":").nth(1)).collect();
                let wanted = [
                    r#"{"progressToken":"mine","progress":5.0,"total":1e1,"message":"a"}}"#,
                    r#"{"progressToken":"mine","progress":5.01e0}}"#,
                    r#"{"progressToken":"mine","progress":12345678901234567890123}}"#,
                    r#"{"progressToken":"mine","progress":12345678901234567890124}}"#,
                ];
                assert_eq!(values, &wanted[..if with_token { 4 } else { 0 }], "{}", answer.body);
                assert_eq!(answer.text(), "done", "the last of it all");
            }
        }
        let hits = upstream.calls();
        assert!(hits.iter().filter(|hit| hit.message()["params"]["_meta"]["progressToken"].is_string()).count() == 2);
        assert_ne!(hits[0].message()["params"]["_meta"]["progressToken"], "mine", "the server sees a token of ours");
    }
}

/// Tells of each resource that it is asked for, whenever it is.
fn subscribed(hit: &RecordedRequest) -> Option<ResponseScript> {
    if hit.method() != "subscriptions/listen" {
        return modern_answer(hit, &json!([]), &json!({"resources": {"subscribe": true}}));
    }
    let meta = json!({"io.modelcontextprotocol/subscriptionId": hit.message()["id"]});
    let uris = hit.message()["params"]["notifications"]["resourceSubscriptions"].clone();
    let told = uris.as_array().into_iter().flatten().map(|uri| {
        let params = json!({"uri": uri, "_meta": meta});
        event(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}))
    });
    let first = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"notifications": hit.message()["params"]["notifications"], "_meta": meta}});
    Some(silent_stream(&(event(&first) + &told.collect::<String>())))
}

#[tokio::test]
async fn r6_two_subscriptions_are_one_listening_and_ending_one_leaves_the_other() {
    let upstream = FakeUpstream::start(json!([]), subscribed).await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    gw.initialize().await;
    let say = async |method: &str, uri: &str| {
        let request = json!({"jsonrpc": "2.0", "id": 4, "method": method, "params": {"uri": uri}});
        assert_eq!(gw.send(&request).await.message()["result"], json!({}), "{method} {uri}");
    };
    let listened = || -> Vec<Value> {
        let hits = upstream.requests().into_iter().filter(|hit| hit.method() == "subscriptions/listen");
        hits.map(|hit| hit.message()["params"]["notifications"]["resourceSubscriptions"].clone()).collect()
    };
    say("resources/subscribe", "note://1").await;
    let mut stream = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    read_until(&mut stream, "note://1", 1).await;
    say("resources/subscribe", "note://2").await;
    let heard = read_until(&mut stream, "note://2", 1).await;
    assert!(heard.contains("note://1"), "both by one request: {heard}");
    say("resources/unsubscribe", "note://1").await;
    until("it listens for less", || listened().last() == Some(&json!(["note://2"]))).await;
    let heard = read_for(&mut stream, Duration::from_millis(400)).await;
    assert!(heard.contains("note://2") && !heard.contains("note://1"), "{heard}");
    assert_eq!(listened(), [json!(["note://1"]), json!(["note://1", "note://2"]), json!(["note://2"])]);
    assert_eq!(count(&upstream, "resources/subscribe") + count(&upstream, "resources/unsubscribe"), 0);
    say("resources/unsubscribe", "note://2").await;
    until("it listens for none", || listened().last() == Some(&json!([]))).await;
}
