//! Rows P1, P2, P3, P9 and R4: what is refused looks alike, what is repeated is judged again, what a client brings back is
//! its own, and all of it is written down.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use data_encoding::HEXLOWER;
use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{CallOutcome, CallRecord, RecordKind};
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, TestGateway, TestResponse, json_response,
    tool_definition,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::rows_kit::{
    Caller, EXTENSION, answered, begin_in_session, chunk, count, encoded, event, modern_answer, open_stream,
    put_in_force, read_until, result_of, stream, until,
};

const POLICY: &str = r#"{"version":"1","default":"deny","hide":["secret_tool"],"tools":{
    "ask":{"require":[{"conditions":[{"path":"args.n","op":"lte","value":5}]}]},"slow":{},"asks":{},"wipe":{"action":"deny"}},
    "client_requests":{"elicitation":"allow","sampling":"allow"}}"#;
const DENIED: &str = r#"{"version":"1","default":"deny","tools":{"ask":{"action":"deny","reason":"No more."},
    "slow":{"action":"deny","reason":"No more."}},"client_requests":{"elicitation":"allow"}}"#;
const STATE: &str = r#""opaque-\u00e9 \/ 1.10""#;

fn tools() -> Value {
    json!(["ask", "slow", "asks", "wipe", "secret_tool", "unlisted_it"].map(tool_definition))
}

/// A server without sessions: `ask` wants to know something first, `slow` makes a task.
fn modern(hit: &RecordedRequest) -> Option<ResponseScript> {
    let params = hit.message()["params"].clone();
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "ask") if params["inputResponses"].is_null() => {
            let asked = r#"{"q":{"method":"elicitation/create","params":{"message":"sure?"}}}"#;
            let id = &hit.message()["id"];
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","inputRequests":{asked},"requestState":{STATE}}}}}"#
            );
            Some(json_response("200 OK", "", &text))
        }
        ("tools/call", "slow") => {
            answered(hit, &json!({"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": null}))
        }
        ("tools/call", _) => {
            answered(hit, &json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}))
        }
        ("tasks/get" | "tasks/update", _) => answered(hit, &json!({"resultType": "complete", "taskId": "t1"})),
        _ => modern_answer(hit, &tools(), &json!({"tools": {}, "extensions": {EXTENSION: {}}})),
    }
}

async fn before_modern() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([]), modern).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

/// A server with sessions: `ask` asks in the middle of the call and answers when it was told; `slow` never does.
fn legacy(hit: &RecordedRequest) -> Option<ResponseScript> {
    let question =
        |method: &str| event(&json!({"jsonrpc": "2.0", "id": 77, "method": method, "params": {"message": "sure?"}}));
    let done = event(&result_of(hit, &json!({"content": [{"type": "text", "text": "done"}]})));
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "ask") => {
            Some(stream(&[(&question("elicitation/create"), Duration::ZERO), (&done, Duration::from_millis(900))]))
        }
        ("tools/call", "asks") => Some(stream(&[(&(question("sampling/createMessage") + &done), Duration::ZERO)])),
        ("tools/call", "slow") => Some(
            [open_stream(), vec![ScriptStep::Write(chunk(": here\n\n")), ScriptStep::Pause(Duration::from_secs(60))]]
                .concat(),
        ),
        _ => None,
    }
}

async fn before_legacy(settings: GatewaySettings) -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(tools(), legacy).await;
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    (upstream, gw)
}

/// All of an answer but the time, with one name in place of another.
fn without_name(answer: &TestResponse, name: &str) -> (u16, Vec<(String, String)>, String) {
    let headers = answer.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
    (answer.status, headers, answer.body.replace(name, "NAME"))
}

#[tokio::test]
async fn p1_a_stateless_client_cannot_tell_a_hidden_tool_from_one_that_is_not_there() {
    let (upstream, gw) = before_modern().await;
    let (legacy_upstream, legacy_gw) = before_legacy(GatewaySettings::default()).await;
    for gw in [&gw, &legacy_gw] {
        let caller = Caller::of(gw);
        let ask = async |name: &str, head: &str| {
            let params = json!({"name": name, "arguments": {"n": 1}});
            let answer = caller.ask_under(Some(head), "tools/call", params, &json!({})).await;
            without_name(&answer, name)
        };
        let missing = ask("nowhere_atl", "nowhere_atl").await;
        assert_eq!(missing.0, 200, "{missing:?}");
        assert!(missing.2.contains("-32602"), "{missing:?}");
        for name in ["secret_tool", "unlisted_it", "nowhere_atl"] {
            assert_eq!(ask(name, name).await, missing);
            assert_eq!(ask(name, &encoded(name)).await, missing, "{name}, in another spelling of the head");
        }
        for name in ["Secret_tool", "s\u{435}cret_tool", "secret_tool\u{200b}", "secret\u{ff3f}tool"] {
            let answer = ask(name, &encoded(name)).await;
            assert_eq!((answer.0, answer.2), (missing.0, missing.2.clone()), "{name}");
        }
        let codes: Vec<_> = gw.rows().await.into_iter().filter_map(|row| row.record.code).collect();
        assert!(codes.iter().any(|code| code.as_ref() == "hidden"), "the log tells them apart: {codes:?}");
        // A head that says otherwise tells nothing of the tool either.
        let told = async |name: &str| {
            let params = json!({"name": "asks", "arguments": {}});
            without_name(
                &caller.ask_under(Some(&encoded(name)), "tools/call", params, &json!({})).await,
                &encoded(name),
            )
        };
        assert_eq!(told("secret_tool").await, told("nowhere_atl").await);
    }
    assert_eq!((upstream.calls().len(), legacy_upstream.calls().len()), (0, 0));
}

#[tokio::test]
async fn p2_a_denied_call_of_a_visible_tool_is_a_result_that_says_so_and_nothing_else() {
    let (_, gw) = before_modern().await;
    let (_, legacy_gw) = before_legacy(GatewaySettings::default()).await;
    let denied = [
        legacy_gw.call("wipe", json!({})).await,
        Caller::of(&legacy_gw).call("wipe", json!({})).await,
        Caller::of(&gw).call("wipe", json!({})).await,
        gw.call("wipe", json!({})).await,
    ];
    for answer in denied {
        let result = answer.message()["result"].clone();
        assert_eq!((answer.status, &result["isError"]), (200, &json!(true)), "{}", answer.body);
        assert_eq!(result["content"][0]["type"], "text");
        assert!(result.get("structuredContent").is_none(), "{result}");
    }
}

fn retry(arguments: Value, state: Value) -> Value {
    json!({"name": "ask", "arguments": arguments, "requestState": state,
        "inputResponses": {"q": {"action": "accept"}, "ask": {"action": "accept"}}})
}

#[tokio::test]
async fn p3_a_request_that_comes_again_is_judged_again_by_its_arguments_and_by_the_policy_in_force() {
    let (upstream, gw) = before_modern().await;
    let caller = Caller::of(&gw);
    let asked = caller.call("ask", json!({"n": 1})).await;
    assert!(asked.body.contains(&format!(r#""requestState":{STATE}"#)), "byte for byte: {}", asked.body);
    let state = asked.message()["result"]["requestState"].clone();
    let changed = caller.ask("tools/call", retry(json!({"n": 6}), state.clone())).await;
    assert!(changed.text().starts_with("[POLICY DENIED]"), "{}", changed.body);
    assert_eq!(upstream.calls().len(), 1, "only what was allowed");
    put_in_force(&gw, DENIED);
    let tightened = caller.ask("tools/call", retry(json!({"n": 1}), state.clone())).await;
    assert!(tightened.text().contains("No more."), "{}", tightened.body);
    assert_eq!(upstream.calls().len(), 1);
    put_in_force(&gw, POLICY);
    assert_eq!(caller.ask("tools/call", retry(json!({"n": 1}), state.clone())).await.text(), "done");
    assert_eq!(upstream.calls()[1].message()["params"]["requestState"], state);
    let rows = gw.rows().await;
    assert_eq!(rows.iter().filter(|row| row.record.kind == RecordKind::Refused).count(), 2);
}

#[tokio::test]
async fn p3_what_a_server_with_sessions_asked_is_not_answered_under_a_policy_that_denies_the_call_by_now() {
    let (upstream, gw) = before_legacy(GatewaySettings::default()).await;
    let caller = Caller::of(&gw);
    let told = || upstream.requests().iter().any(|hit| hit.message()["id"] == 77);
    let asked = caller.call("ask", json!({"n": 1})).await.message()["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    put_in_force(&gw, DENIED);
    let tightened = caller.ask("tools/call", retry(json!({"n": 1}), asked["requestState"].clone())).await;
    assert!(tightened.text().contains("No more."), "{}", tightened.body);
    assert!(!told(), "the server hears nothing");
    put_in_force(&gw, POLICY);
    let late = caller.ask("tools/call", retry(json!({"n": 1}), asked["requestState"].clone())).await;
    assert_eq!(late.code(), -32602, "what was refused is over: {}", late.body);
    assert!(!told());
}

#[tokio::test]
async fn p3_a_task_is_not_updated_under_a_policy_that_denies_its_tool_by_now() {
    let (upstream, gw) = before_modern().await;
    let caller = Caller::of(&gw);
    assert_eq!(caller.call("slow", json!({})).await.message()["result"]["taskId"], "t1");
    let update = || json!({"taskId": "t1", "inputResponses": {"q": {"action": "accept"}}});
    assert_eq!(caller.ask("tasks/update", update()).await.message()["result"]["taskId"], "t1");
    put_in_force(&gw, DENIED);
    let denied = caller.ask("tasks/update", update()).await;
    assert!(denied.code() < 0 && denied.body.contains("No more."), "{}", denied.body);
    assert_eq!(count(&upstream, "tasks/update"), 1);
    let row = gw.rows().await.pop().expect("a row").record;
    assert_eq!(
        (row.kind, row.target.as_deref(), row.rule.as_deref()),
        (RecordKind::Refused, Some("slow"), Some("/tools/slow"))
    );
}

#[tokio::test]
async fn r4_what_one_grant_was_asked_another_cannot_answer() {
    let (upstream, gw) = before_legacy(GatewaySettings::default()).await;
    let other = gw.add_grant("other", POLICY);
    let caller = Caller::of(&gw);
    let asked = caller.call("ask", json!({"n": 1})).await.message()["result"].clone();
    let state = asked["requestState"].clone();
    let stolen = caller.by(&other).ask("tools/call", retry(json!({"n": 1}), state.clone())).await;
    assert_eq!((stolen.status, stolen.code()), (400, -32602), "{}", stolen.body);
    let made_up = caller.by(&other).ask("tools/call", retry(json!({"n": 1}), json!("gl-0000"))).await;
    assert_eq!(stolen.body, made_up.body, "it is not told from one that never was");
    assert!(!upstream.requests().iter().any(|hit| hit.message()["id"] == 77), "the server hears nothing");
    let answer = caller.ask("tools/call", retry(json!({"n": 1}), state)).await;
    assert_eq!(answer.text(), "done", "its owner is not disturbed: {}", answer.body);
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn r4_what_a_client_was_asked_too_long_ago_it_cannot_answer_any_more() {
    let (upstream, gw) = before_legacy(GatewaySettings {
        client_input_timeout: Duration::from_millis(300),
        ..GatewaySettings::default()
    })
    .await;
    let caller = Caller::of(&gw);
    let asked = caller.call("ask", json!({"n": 1})).await.message()["result"].clone();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let late = caller.ask("tools/call", retry(json!({"n": 1}), asked["requestState"].clone())).await;
    assert_eq!((late.status, late.code()), (400, -32602), "{}", late.body);
    assert!(late.body.contains("has expired"), "{}", late.body);
    assert!(!upstream.requests().iter().any(|hit| hit.message()["id"] == 77), "the server hears nothing");
    assert_eq!(upstream.calls().len(), 1);
}

fn of_method<'r>(records: &'r [CallRecord], method: &str) -> &'r CallRecord {
    let found: Vec<&CallRecord> = records.iter().filter(|record| record.method.as_deref() == Some(method)).collect();
    assert_eq!(found.len(), 1, "{method}: {records:#?}");
    found[0]
}

#[tokio::test]
async fn p9_a_row_says_who_asked_for_what_under_which_rule_and_by_which_arguments() {
    let (upstream, gw) = before_legacy(GatewaySettings::default()).await;
    let arguments = r#"{"n":1.0,"text":"\u00e9"}"#;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa01c902b7-01";
    let params = format!(r#"{{"name":"asks","arguments":{arguments},"_meta":{{"traceparent":"{trace}"}}}}"#);
    gw.send_text(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)).await;
    let records: Vec<CallRecord> = gw.rows().await.into_iter().map(|row| row.record).collect();
    let intent = of_method(&records, "tools/call");
    let digest = HEXLOWER.encode(&Sha256::digest(arguments.as_bytes()));
    assert_eq!(intent.kind, RecordKind::Intent);
    assert_eq!(intent.arguments_digest.as_deref(), Some(digest.as_str()), "of what was sent, byte for byte");
    assert!(upstream.calls()[0].body.contains(arguments));
    assert_eq!(intent.arguments, None, "values are kept only where that is configured");
    let said = [&intent.label, &intent.revision, &intent.target, &intent.rule, &intent.trace];
    let said: Vec<&str> = said.iter().map(|said| said.as_deref().unwrap_or_default()).collect();
    assert_eq!(said, ["ci", "2025-11-25", "asks", "/tools/asks", "4bf92f3577b34da6a3ce929d0e0e4736"]);
    assert_eq!(intent.server.as_ref().map(|server| server.as_str()), Some("desk"));
    let end = records.iter().find(|record| record.kind == RecordKind::Outcome).expect("an end");
    assert_eq!((end.call, end.outcome), (intent.call, Some(CallOutcome::Ok)));

    let asked = of_method(&records, "sampling/createMessage");
    assert_eq!(
        (asked.kind, asked.outcome),
        (RecordKind::Unchecked, Some(CallOutcome::Ok)),
        "what a server was let ask"
    );
    let said = [&asked.label, &asked.revision, &asked.rule].map(|said| said.as_deref().unwrap_or_default());
    assert_eq!(said, ["ci", "2025-11-25", "/client_requests/sampling"]);
    gw.call("asks", json!({})).await;
    let other = gw.rows().await.into_iter().rev().find_map(|row| row.record.arguments_digest).expect("a digest");
    assert_eq!(other.as_ref(), HEXLOWER.encode(&Sha256::digest(b"{}")));
}

#[tokio::test]
async fn p9_a_cancellation_is_written_down_and_so_is_what_it_ended() {
    let (upstream, gw) = before_legacy(GatewaySettings::default()).await;
    gw.initialize().await;
    let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "slow"}}).to_string();
    let mut calling = begin_in_session(&gw, "POST", "/mcp/desk", "", &call).await;
    read_until(&mut calling, "200 OK", 1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    let answer = gw.send(&cancel).await;
    assert_eq!((answer.status, answer.body.as_str()), (202, ""));
    until("it is told", || count(&upstream, "notifications/cancelled") == 1).await;
    let unknown = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 10}});
    gw.send(&unknown).await;
    let records: Vec<CallRecord> = gw.rows().await.into_iter().map(|row| row.record).collect();
    let cancels: Vec<(RecordKind, Option<CallOutcome>)> = records
        .iter()
        .filter(|record| record.method.as_deref() == Some("notifications/cancelled"))
        .map(|record| (record.kind, record.outcome))
        .collect();
    assert_eq!(
        cancels,
        [(RecordKind::Unchecked, Some(CallOutcome::Ok)), (RecordKind::Refused, None)],
        "the second refers to nothing"
    );
    let intent = of_method(&records, "tools/call");
    let end = records.iter().find(|record| record.kind == RecordKind::Outcome).expect("an end");
    assert_eq!((end.call, end.outcome), (intent.call, Some(CallOutcome::Cancelled)));
}

#[tokio::test]
async fn p9_who_hangs_up_without_a_session_has_cancelled_and_it_is_written_down() {
    let (upstream, gw) = before_legacy(GatewaySettings::default()).await;
    let stream = Caller::of(&gw).begin("tools/call", json!({"name": "slow", "arguments": {}})).await;
    until("the call arrives", || upstream.calls().len() == 1).await;
    drop(stream);
    until("it is told", || count(&upstream, "notifications/cancelled") == 1).await;
    let records: Vec<CallRecord> = gw.rows().await.into_iter().map(|row| row.record).collect();
    let end = records.iter().find(|record| record.kind == RecordKind::Outcome).expect("an end");
    assert_eq!((end.call, end.outcome), (of_method(&records, "tools/call").call, Some(CallOutcome::Cancelled)));
}
