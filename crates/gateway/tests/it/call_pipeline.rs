//! The pipeline of a call: what reaches the upstream, what the client receives, and what is recorded.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::{CallOutcome, RecordKind};
use gatelodge_testkit::{FakeUpstream, TestGateway};
use serde_json::json;

use super::support::stop_and_wait;

const POLICY: &str = r#"{"version":"1","default":"deny","hide":["secret_*"],"tools":{
    "read_note":{}, "secret_note":{}, "wipe":{"action":"deny","reason":"Wiping is not allowed."},
    "send_mail":{"action":"approve"},
    "pay":{"require":[{"path":"args.currency","op":"in","value":["eur","usd"]}],
           "deny_if":[{"path":"args.amount","op":"gt","value":100,"on_deny":"At most 100."}],
           "limits":[{"counter":"payments","window":"minute","max":2}]}}}"#;

async fn start_gateway() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::with_tools(&["read_note", "secret_note", "wipe", "send_mail", "pay", "other"]).await;
    let gateway = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gateway)
}

#[tokio::test]
async fn an_allowed_call_is_sent_as_evaluated_and_answered_under_the_clients_id() {
    let (upstream, gw) = start_gateway().await;
    let body = r#"{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":"read_note","arguments":{"z":1.10,"a":1e2,"big":123456789012345678901234567890},"x":[ 1 ]}}"#;
    let reply = gw.send_text(body).await;

    assert_eq!(reply.status, 200);
    assert_eq!(reply.message()["id"], "a-1");
    let sent = &upstream.calls_to("read_note")[0];
    let id = sent.message()["id"].as_str().expect("an id").to_owned();
    assert_eq!(sent.body.replace(&id, "a-1"), body, "only the id is changed");
    assert_eq!(sent.header("mcp-session-id"), Some("upstream-session"));
    assert_eq!(sent.header("authorization"), None);

    let rows = gw.rows().await;
    let intent = rows.iter().find(|row| row.record.kind == RecordKind::Intent).expect("an intent");
    assert_eq!(intent.record.call.as_str(), id);
    assert_eq!(intent.record.target.as_deref(), Some("read_note"));
    assert_eq!(intent.record.rule.as_deref(), Some("/tools/read_note"));
    let keys: Vec<_> = intent.record.argument_keys.iter().map(|key| key.as_ref()).collect();
    assert_eq!(keys, ["a", "big", "z"]);
    assert!(intent.record.arguments.is_none(), "argument values are recorded only where configured");
    let outcome = rows.iter().find(|row| row.record.kind == RecordKind::Outcome).expect("an outcome");
    assert_eq!(outcome.record.outcome, Some(CallOutcome::Ok));
    assert_eq!(outcome.record.upstream_status, Some(200));
}

#[tokio::test]
async fn the_third_payment_of_the_minute_is_refused_and_not_sent() {
    let (upstream, gw) = start_gateway().await;
    let pay = json!({"amount": 5, "currency": "eur"});
    for _ in 0..2 {
        assert_eq!(gw.call("pay", pay.clone()).await.message()["result"]["isError"], json!(null));
    }
    let reply = gw.call("pay", pay.clone()).await;

    assert_eq!(reply.text(), "[POLICY DENIED] limit `payments`: 2 per minute, resets in 1 min");
    let meta = &reply.message()["result"]["_meta"]["gatelodge/refusal"];
    assert_eq!(meta["code"], "limit");
    assert_eq!(meta["rule"], "/tools/pay/limits/0");
    assert_eq!(meta["counter"], "payments");
    assert_eq!(meta["retry_after_seconds"], 60);
    assert_eq!(upstream.calls_to("pay").len(), 2);
    assert_eq!(gw.rows().await.last().expect("a row").record.code.as_deref(), Some("limit"));

    gw.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(gw.call("pay", pay).await.message()["result"]["isError"], json!(null));
    assert_eq!(upstream.calls_to("pay").len(), 3);
}

#[tokio::test]
async fn refusals_carry_code_and_reason_and_are_not_sent() {
    let (upstream, gw) = start_gateway().await;
    let cases = [
        ("wipe", json!({}), "denied", "[POLICY DENIED] Wiping is not allowed."),
        ("pay", json!({"amount": 101, "currency": "eur"}), "deny_if", "[POLICY DENIED] At most 100."),
        (
            "send_mail",
            json!({}),
            "approval_unavailable",
            "[POLICY DENIED] this call needs approval by a person, and this gateway has no approvals; nothing was sent",
        ),
    ];
    for (tool, arguments, code, text) in cases {
        let reply = gw.call(tool, arguments).await;
        assert_eq!(reply.text(), text);
        assert_eq!(reply.message()["result"]["isError"], true);
        assert_eq!(reply.message()["result"]["structuredContent"], json!(null));
        assert_eq!(reply.message()["result"]["_meta"]["gatelodge/refusal"]["code"], code);
        assert_eq!(gw.rows().await.last().expect("a row").record.code.as_deref(), Some(code));
    }
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn hidden_unlisted_and_missing_tools_are_answered_with_the_same_bytes() {
    let (upstream, gw) = start_gateway().await;
    let mut replies = Vec::new();
    for (tool, code) in [("secret_note", "hidden"), ("other", "not_listed"), ("nowhere", "not_listed")] {
        let reply = gw.call(tool, json!({})).await;
        assert_eq!(reply.code(), -32602);
        replies.push(reply.body.replace(tool, "NAME"));
        assert_eq!(gw.rows().await.last().expect("a row").record.code.as_deref(), Some(code));
    }
    replies.dedup();
    assert_eq!(replies.len(), 1, "{replies:?}");
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn a_list_shows_callable_tools_byte_for_byte() {
    let (_, gw) = start_gateway().await;
    let reply = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let message = reply.message();
    let names: Vec<&str> = message["result"]["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, ["read_note", "wipe", "send_mail", "pay"]);
    assert!(reply.body.contains(&gatelodge_testkit::tool_definition("read_note").to_string()));
}

#[tokio::test]
async fn a_grant_without_a_policy_can_call_and_list_nothing() {
    let upstream = FakeUpstream::with_tools(&["read_note"]).await;
    let gw = TestGateway::builder().start(&upstream).await;
    let reply = gw.call("read_note", json!({})).await;
    assert_eq!(reply.message()["result"]["_meta"]["gatelodge/refusal"]["code"], "no_policy");
    let list = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    assert_eq!(list.message()["result"]["tools"], json!([]));
    assert!(upstream.calls().is_empty());
}

#[tokio::test]
async fn calls_of_an_observing_grant_are_evaluated_and_recorded_but_not_refused() {
    let upstream = FakeUpstream::with_tools(&["wipe", "pay"]).await;
    let gw = TestGateway::builder().policy(POLICY).observe_only().start(&upstream).await;
    assert_eq!(gw.call("wipe", json!({})).await.message()["result"]["isError"], json!(null));
    for _ in 0..3 {
        gw.call("pay", json!({"amount": 1, "currency": "eur"})).await;
    }
    assert_eq!(upstream.calls().len(), 4);
    let observed: Vec<_> = gw.rows().await.into_iter().filter(|row| row.record.observed).collect();
    let codes: Vec<_> = observed.iter().filter_map(|row| row.record.code.as_deref()).collect();
    assert_eq!(codes, ["denied", "limit"]);
}

#[tokio::test]
async fn an_unreachable_upstream_charges_nothing() {
    let gw = TestGateway::builder().policy(POLICY).start_at("http://127.0.0.1:9/mcp").await;
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let reply = gw.post(&[], &body.to_string()).await;
    assert!(
        reply.message()["error"]["message"]
            .as_str()
            .expect("a message")
            .starts_with("[UPSTREAM] the server cannot be reached")
    );
    assert!(gw.store.counter_usage.usage().await.expect("the ledger is readable").is_empty());
}

#[tokio::test]
async fn the_charge_of_a_call_that_could_not_be_sent_is_released_and_recorded_once() {
    let (upstream, gw) = start_gateway().await;
    let pay = json!({"amount": 5, "currency": "eur"});
    gw.call("pay", pay.clone()).await;
    // The tool list is cached when the server goes away.
    stop_and_wait(&upstream).await;
    let rows = gw.rows().await.len();
    let reply = gw.call("pay", pay).await;

    assert!(
        reply.text().starts_with("[UPSTREAM] the server cannot be reached; the call was not sent"),
        "{}",
        reply.text()
    );
    let recorded: Vec<_> =
        gw.rows().await.split_off(rows).into_iter().map(|row| (row.record.kind, row.record.outcome)).collect();
    assert_eq!(recorded, [(RecordKind::Intent, None), (RecordKind::Outcome, Some(CallOutcome::NotSent))]);
    assert_eq!(gw.store.counter_usage.usage().await.expect("the ledger is readable")[0].used.to_string(), "1");
}
