//! Policy evaluation of single and resumed calls: hidden tools look missing, a resumed call is evaluated again, request
//! state belongs to one grant, and every decision has a log row.
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

use super::support::{
    StatelessTestClient, TASKS_EXTENSION, activate_policy, base64_header_value, chunk, event, read_until,
    request_count, result_message, result_response, start_in_session, stateless_response, stream_headers, timed_stream,
    wait_until,
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

/// Stateless server: `ask` requires client input first, `slow` creates a task.
fn stateless_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let params = hit.message()["params"].clone();
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "ask") if params["inputResponses"].is_null() => {
            let input_requests = r#"{"q":{"method":"elicitation/create","params":{"message":"sure?"}}}"#;
            let id = &hit.message()["id"];
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","inputRequests":{input_requests},"requestState":{STATE}}}}}"#
            );
            Some(json_response("200 OK", "", &text))
        }
        ("tools/call", "slow") => {
            result_response(hit, &json!({"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": null}))
        }
        ("tools/call", _) => {
            result_response(hit, &json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}))
        }
        ("tasks/get" | "tasks/update", _) => result_response(hit, &json!({"resultType": "complete", "taskId": "t1"})),
        _ => stateless_response(hit, &tools(), &json!({"tools": {}, "extensions": {TASKS_EXTENSION: {}}})),
    }
}

async fn setup_stateless() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([]), stateless_server).await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gw)
}

/// Stateful server: `ask` sends an elicitation during the call and its result 900 ms later, `asks` sends a sampling
/// request together with its result, and `slow` never answers.
fn stateful_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let question =
        |method: &str| event(&json!({"jsonrpc": "2.0", "id": 77, "method": method, "params": {"message": "sure?"}}));
    let done = event(&result_message(hit, &json!({"content": [{"type": "text", "text": "done"}]})));
    match (hit.method().as_str(), hit.tool().as_str()) {
        ("tools/call", "ask") => Some(timed_stream(&[
            (&question("elicitation/create"), Duration::ZERO),
            (&done, Duration::from_millis(900)),
        ])),
        ("tools/call", "asks") => {
            Some(timed_stream(&[(&(question("sampling/createMessage") + &done), Duration::ZERO)]))
        }
        ("tools/call", "slow") => Some(
            [
                stream_headers(),
                vec![ScriptStep::Write(chunk(": here\n\n")), ScriptStep::Pause(Duration::from_secs(60))],
            ]
            .concat(),
        ),
        _ => None,
    }
}

async fn setup_stateful(settings: GatewaySettings) -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(tools(), stateful_server).await;
    let gw = TestGateway::builder().policy(POLICY).settings(settings).start(&upstream).await;
    (upstream, gw)
}

/// Status, headers without `date`, and body of a response, with `name` replaced by a placeholder.
fn normalized(response: &TestResponse, name: &str) -> (u16, Vec<(String, String)>, String) {
    let headers = response.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
    (response.status, headers, response.body.replace(name, "NAME"))
}

#[tokio::test]
async fn stateless_client_sees_a_hidden_tool_as_missing() {
    let (upstream, gw) = setup_stateless().await;
    let (stateful_upstream, stateful_gw) = setup_stateful(GatewaySettings::default()).await;
    for gw in [&gw, &stateful_gw] {
        let client = StatelessTestClient::new(gw);
        let call_tool = async |name: &str, name_header: &str| {
            let params = json!({"name": name, "arguments": {"n": 1}});
            let response = client.request_with_name(Some(name_header), "tools/call", params, &json!({})).await;
            normalized(&response, name)
        };
        let missing = call_tool("nowhere_atl", "nowhere_atl").await;
        assert_eq!(missing.0, 200, "{missing:?}");
        assert!(missing.2.contains("-32602"), "{missing:?}");
        for name in ["secret_tool", "unlisted_it", "nowhere_atl"] {
            assert_eq!(call_tool(name, name).await, missing);
            assert_eq!(call_tool(name, &base64_header_value(name)).await, missing, "{name} with a Base64 header");
        }
        for name in ["Secret_tool", "s\u{435}cret_tool", "secret_tool\u{200b}", "secret\u{ff3f}tool"] {
            let response = call_tool(name, &base64_header_value(name)).await;
            assert_eq!((response.0, response.2), (missing.0, missing.2.clone()), "{name}");
        }
        let codes: Vec<_> = gw.rows().await.into_iter().filter_map(|row| row.record.code).collect();
        assert!(codes.iter().any(|code| code.as_ref() == "hidden"), "the log distinguishes them: {codes:?}");
        // An `Mcp-Name` header that differs from the body reveals nothing about the tool either.
        let mismatch = async |name: &str| {
            let params = json!({"name": "asks", "arguments": {}});
            normalized(
                &client.request_with_name(Some(&base64_header_value(name)), "tools/call", params, &json!({})).await,
                &base64_header_value(name),
            )
        };
        assert_eq!(mismatch("secret_tool").await, mismatch("nowhere_atl").await);
    }
    assert_eq!((upstream.calls().len(), stateful_upstream.calls().len()), (0, 0));
}

#[tokio::test]
async fn denied_call_of_a_visible_tool_is_an_error_result() {
    let (_, gw) = setup_stateless().await;
    let (_, stateful_gw) = setup_stateful(GatewaySettings::default()).await;
    let denied = [
        stateful_gw.call("wipe", json!({})).await,
        StatelessTestClient::new(&stateful_gw).call("wipe", json!({})).await,
        StatelessTestClient::new(&gw).call("wipe", json!({})).await,
        gw.call("wipe", json!({})).await,
    ];
    for response in denied {
        let result = response.message()["result"].clone();
        assert_eq!((response.status, &result["isError"]), (200, &json!(true)), "{}", response.body);
        assert_eq!(result["content"][0]["type"], "text");
        assert!(result.get("structuredContent").is_none(), "{result}");
    }
}

fn retry(arguments: Value, state: Value) -> Value {
    json!({"name": "ask", "arguments": arguments, "requestState": state,
        "inputResponses": {"q": {"action": "accept"}, "ask": {"action": "accept"}}})
}

#[tokio::test]
async fn retried_call_is_evaluated_again_with_its_arguments_and_the_active_policy() {
    let (upstream, gw) = setup_stateless().await;
    let client = StatelessTestClient::new(&gw);
    let suspended = client.call("ask", json!({"n": 1})).await;
    assert!(suspended.body.contains(&format!(r#""requestState":{STATE}"#)), "byte for byte: {}", suspended.body);
    let state = suspended.message()["result"]["requestState"].clone();
    let changed = client.request("tools/call", retry(json!({"n": 6}), state.clone())).await;
    assert!(changed.text().starts_with("[POLICY DENIED]"), "{}", changed.body);
    assert_eq!(upstream.calls().len(), 1, "only the allowed call is sent");
    activate_policy(&gw, DENIED);
    let tightened = client.request("tools/call", retry(json!({"n": 1}), state.clone())).await;
    assert!(tightened.text().contains("No more."), "{}", tightened.body);
    assert_eq!(upstream.calls().len(), 1);
    activate_policy(&gw, POLICY);
    assert_eq!(client.request("tools/call", retry(json!({"n": 1}), state.clone())).await.text(), "done");
    assert_eq!(upstream.calls()[1].message()["params"]["requestState"], state);
    let rows = gw.rows().await;
    assert_eq!(rows.iter().filter(|row| row.record.kind == RecordKind::Refused).count(), 2);
}

#[tokio::test]
async fn client_input_is_not_sent_once_the_policy_denies_the_call() {
    let (upstream, gw) = setup_stateful(GatewaySettings::default()).await;
    let client = StatelessTestClient::new(&gw);
    let is_answered = || upstream.requests().iter().any(|hit| hit.message()["id"] == 77);
    let suspended = client.call("ask", json!({"n": 1})).await.message()["result"].clone();
    assert_eq!(suspended["resultType"], "input_required", "{suspended}");
    activate_policy(&gw, DENIED);
    let tightened = client.request("tools/call", retry(json!({"n": 1}), suspended["requestState"].clone())).await;
    assert!(tightened.text().contains("No more."), "{}", tightened.body);
    assert!(!is_answered(), "no answer is sent upstream");
    activate_policy(&gw, POLICY);
    let late = client.request("tools/call", retry(json!({"n": 1}), suspended["requestState"].clone())).await;
    assert_eq!(late.code(), -32602, "a refused call cannot be resumed: {}", late.body);
    assert!(!is_answered());
}

#[tokio::test]
async fn task_is_not_updated_once_the_policy_denies_its_tool() {
    let (upstream, gw) = setup_stateless().await;
    let client = StatelessTestClient::new(&gw);
    assert_eq!(client.call("slow", json!({})).await.message()["result"]["taskId"], "t1");
    let update = || json!({"taskId": "t1", "inputResponses": {"q": {"action": "accept"}}});
    assert_eq!(client.request("tasks/update", update()).await.message()["result"]["taskId"], "t1");
    activate_policy(&gw, DENIED);
    let denied = client.request("tasks/update", update()).await;
    assert!(denied.code() < 0 && denied.body.contains("No more."), "{}", denied.body);
    assert_eq!(request_count(&upstream, "tasks/update"), 1);
    let row = gw.rows().await.pop().expect("a row").record;
    assert_eq!(
        (row.kind, row.target.as_deref(), row.rule.as_deref()),
        (RecordKind::Refused, Some("slow"), Some("/tools/slow"))
    );
}

#[tokio::test]
async fn suspended_call_cannot_be_resumed_by_another_grant() {
    let (upstream, gw) = setup_stateful(GatewaySettings::default()).await;
    let other = gw.add_grant("other", POLICY);
    let client = StatelessTestClient::new(&gw);
    let suspended = client.call("ask", json!({"n": 1})).await.message()["result"].clone();
    let state = suspended["requestState"].clone();
    let foreign = client.with_token(&other).request("tools/call", retry(json!({"n": 1}), state.clone())).await;
    assert_eq!((foreign.status, foreign.code()), (400, -32602), "{}", foreign.body);
    let made_up = client.with_token(&other).request("tools/call", retry(json!({"n": 1}), json!("gl-0000"))).await;
    assert_eq!(foreign.body, made_up.body, "a foreign request state looks like an unknown one");
    assert!(!upstream.requests().iter().any(|hit| hit.message()["id"] == 77), "no answer is sent upstream");
    let response = client.request("tools/call", retry(json!({"n": 1}), state)).await;
    assert_eq!(response.text(), "done", "the owner can still resume: {}", response.body);
    assert_eq!(upstream.calls().len(), 1);
}

#[tokio::test]
async fn suspended_call_cannot_be_resumed_after_its_time_limit() {
    let (upstream, gw) = setup_stateful(GatewaySettings {
        client_input_timeout: Duration::from_millis(300),
        ..GatewaySettings::default()
    })
    .await;
    let client = StatelessTestClient::new(&gw);
    let suspended = client.call("ask", json!({"n": 1})).await.message()["result"].clone();
    // Longer than `client_input_timeout`, which runs on the real clock.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let late = client.request("tools/call", retry(json!({"n": 1}), suspended["requestState"].clone())).await;
    assert_eq!((late.status, late.code()), (400, -32602), "{}", late.body);
    assert!(late.body.contains("has expired"), "{}", late.body);
    assert!(!upstream.requests().iter().any(|hit| hit.message()["id"] == 77), "no answer is sent upstream");
    assert_eq!(upstream.calls().len(), 1);
}

fn find_record<'r>(records: &'r [CallRecord], method: &str) -> &'r CallRecord {
    let found: Vec<&CallRecord> = records.iter().filter(|record| record.method.as_deref() == Some(method)).collect();
    assert_eq!(found.len(), 1, "{method}: {records:#?}");
    found[0]
}

#[tokio::test]
async fn log_row_has_grant_tool_rule_trace_and_argument_digest() {
    let (upstream, gw) = setup_stateful(GatewaySettings::default()).await;
    let arguments = r#"{"n":1.0,"text":"\u00e9"}"#;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa01c902b7-01";
    let params = format!(r#"{{"name":"asks","arguments":{arguments},"_meta":{{"traceparent":"{trace}"}}}}"#);
    gw.send_text(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)).await;
    let records: Vec<CallRecord> = gw.rows().await.into_iter().map(|row| row.record).collect();
    let intent = find_record(&records, "tools/call");
    let digest = HEXLOWER.encode(&Sha256::digest(arguments.as_bytes()));
    assert_eq!(intent.kind, RecordKind::Intent);
    assert_eq!(intent.arguments_digest.as_deref(), Some(digest.as_str()), "digest of the bytes that were sent");
    assert!(upstream.calls()[0].body.contains(arguments));
    assert_eq!(intent.arguments, None, "argument values are recorded only if configured");
    let fields = [&intent.label, &intent.revision, &intent.target, &intent.rule, &intent.trace];
    let fields: Vec<&str> = fields.iter().map(|field| field.as_deref().unwrap_or_default()).collect();
    assert_eq!(fields, ["ci", "2025-11-25", "asks", "/tools/asks", "4bf92f3577b34da6a3ce929d0e0e4736"]);
    assert_eq!(intent.server.as_ref().map(|server| server.as_str()), Some("desk"));
    let outcome = records.iter().find(|record| record.kind == RecordKind::Outcome).expect("an outcome");
    assert_eq!((outcome.call, outcome.outcome), (intent.call, Some(CallOutcome::Ok)));

    let sampling = find_record(&records, "sampling/createMessage");
    assert_eq!(
        (sampling.kind, sampling.outcome),
        (RecordKind::PolicyExempt, Some(CallOutcome::Ok)),
        "a server request that the policy allows"
    );
    let fields =
        [&sampling.label, &sampling.revision, &sampling.rule].map(|field| field.as_deref().unwrap_or_default());
    assert_eq!(fields, ["ci", "2025-11-25", "/client_requests/sampling"]);
    gw.call("asks", json!({})).await;
    let other = gw.rows().await.into_iter().rev().find_map(|row| row.record.arguments_digest).expect("a digest");
    assert_eq!(other.as_ref(), HEXLOWER.encode(&Sha256::digest(b"{}")));
}

#[tokio::test]
async fn cancellation_and_the_cancelled_call_are_recorded() {
    let (upstream, gw) = setup_stateful(GatewaySettings::default()).await;
    gw.initialize().await;
    let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "slow"}}).to_string();
    let mut connection = start_in_session(&gw, "POST", "/mcp/desk", "", &call).await;
    read_until(&mut connection, "200 OK", 1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    let response = gw.send(&cancel).await;
    assert_eq!((response.status, response.body.as_str()), (202, ""));
    wait_until("the server receives the cancellation", || request_count(&upstream, "notifications/cancelled") == 1)
        .await;
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
        [(RecordKind::PolicyExempt, Some(CallOutcome::Ok)), (RecordKind::Refused, None)],
        "the second names an unknown request"
    );
    let intent = find_record(&records, "tools/call");
    let outcome = records.iter().find(|record| record.kind == RecordKind::Outcome).expect("an outcome");
    assert_eq!((outcome.call, outcome.outcome), (intent.call, Some(CallOutcome::Cancelled)));
}

#[tokio::test]
async fn stateless_disconnect_is_recorded_as_cancellation() {
    let (upstream, gw) = setup_stateful(GatewaySettings::default()).await;
    let stream =
        StatelessTestClient::new(&gw).start_request("tools/call", json!({"name": "slow", "arguments": {}})).await;
    wait_until("the call arrives upstream", || upstream.calls().len() == 1).await;
    drop(stream);
    wait_until("the server receives the cancellation", || request_count(&upstream, "notifications/cancelled") == 1)
        .await;
    let records: Vec<CallRecord> = gw.rows().await.into_iter().map(|row| row.record).collect();
    let outcome = records.iter().find(|record| record.kind == RecordKind::Outcome).expect("an outcome");
    assert_eq!(
        (outcome.call, outcome.outcome),
        (find_record(&records, "tools/call").call, Some(CallOutcome::Cancelled))
    );
}
