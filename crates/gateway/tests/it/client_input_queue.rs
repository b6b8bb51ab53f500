//! Calls that wait for an upstream session or for their client: denied calls do not wait, clients that disconnect are
//! recorded, and limits hold under concurrency.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::HashSet;

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{Durability, ManualClock, RecordKind, Store};
use gatelodge_testkit::TestGateway;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::client_input_sessions::{
    ask_params, received_calls, received_messages, resume_params, server_command, start_asking_http_server,
    start_gateway, start_slow_call, suspend_call,
};
use super::support::{ALLOW_ALL, StatelessTestClient, activate_policy, read_until, wait_until, wait_until_async};

fn handshakes(directory: &std::path::Path) -> usize {
    received_messages(directory).iter().filter(|message| message["method"] == "initialize").count()
}

#[tokio::test]
async fn a_call_of_an_unlisted_tool_does_not_wait_and_starts_no_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let _open = start_slow_call(&gw).await;
    wait_until("the slow call arrives", || received_calls(directory.path(), "slow").len() == 1).await;
    activate_policy(&gw, r#"{"version":"1","default":"deny","tools":{"slow":{}}}"#);
    let denied = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert!(!denied.body.contains("calls are running"), "{}", denied.body);
    assert_eq!(handshakes(directory.path()), 1, "no further process");
    let rows = gw.rows().await;
    let row = rows.iter().rev().find(|row| row.record.kind == RecordKind::Refused).expect("a row");
    assert_eq!(row.record.code.as_deref(), Some("not_listed"), "{row:?}");
}

/// Calls `read` under `policy` while a slow call runs, and returns the code in the row of the refusal.
async fn refusal_code(policy: &str, is_listed_before: bool) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let _open = start_slow_call(&gw).await;
    wait_until("the slow call arrives", || received_calls(directory.path(), "slow").len() == 1).await;
    activate_policy(&gw, policy);
    if is_listed_before {
        StatelessTestClient::new(&gw).request("tools/list", json!({})).await;
    }
    let denied = StatelessTestClient::new(&gw).call("read", json!({"n": 2})).await;
    assert!(denied.body.contains("POLICY DENIED"), "{}", denied.body);
    assert_eq!(handshakes(directory.path()), 1, "no further process");
    let rows = gw.rows().await;
    let row = rows.iter().rev().find(|row| row.record.kind == RecordKind::Refused).expect("a row");
    row.record.code.as_ref().map(|code| code.to_string())
}

#[tokio::test]
async fn a_call_that_is_denied_by_its_arguments_does_not_wait_and_starts_no_process() {
    const REQUIRE: &str = r#"{"require":[{"conditions":[{"path":"args.n","op":"lte","value":1}]}]}"#;
    let by_name = format!(r#"{{"version":"1","default":"allow","tools":{{"read":{REQUIRE}}}}}"#);
    let by_category =
        format!(r#"{{"version":"1","default":"allow","categories":{{"read":{REQUIRE},"unknown":{REQUIRE}}}}}"#);
    for (policy, is_listed_before) in [(&by_name, false), (&by_name, true), (&by_category, true)] {
        let code = refusal_code(policy, is_listed_before).await;
        assert_eq!(code.as_deref(), Some("require"), "{policy} {is_listed_before}");
    }
}

#[tokio::test]
async fn a_call_that_needs_a_session_of_its_own_is_counted_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let limit = r#"{"limits":[{"counter":"c","window":"day","max":2}]}"#;
    activate_policy(&gw, &format!(r#"{{"version":"1","default":"deny","tools":{{"read":{limit}}}}}"#));
    for n in 1..=2 {
        assert_eq!(
            StatelessTestClient::new(&gw).call("read", json!({"n": n})).await.text(),
            format!(r#"{{"n": {n}}}"#)
        );
    }
    let refused = StatelessTestClient::new(&gw).call("read", json!({"n": 3})).await;
    assert!(refused.text().contains("limit `c`: 2 per day"), "{}", refused.body);
}

#[tokio::test]
async fn a_failed_handshake_of_an_additional_session_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let flag = directory.path().join("refuses");
    let server = server_command(directory.path());
    let command = format!("if [ -e {} ]; then read line; exit 3; fi; {server}", flag.display());
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_process(&command).await;
    let _open = start_slow_call(&gw).await;
    wait_until("the slow call arrives", || received_calls(directory.path(), "slow").len() == 1).await;
    std::fs::write(&flag, "").expect("written");
    let refused = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert!(refused.text().contains("[UPSTREAM] the handshake with the server failed: "), "{}", refused.body);
    assert!(refused.text().contains("; nothing else was sent"), "{}", refused.body);
}

#[tokio::test]
async fn a_client_that_disconnects_while_its_call_waits_leaves_a_refused_row_and_nothing_is_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let _open = start_slow_call(&gw).await;
    wait_until("the slow call arrives", || received_calls(directory.path(), "slow").len() == 1).await;
    let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {super::support::TASKS_EXTENSION: {}}});
    let waiting = StatelessTestClient::new(&gw)
        .start_request_with_capabilities("tools/call", json!({"name": "read", "arguments": {}}), &capabilities)
        .await;
    // Time for the call to start waiting, which a test cannot observe.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    drop(waiting);
    let read_rows = || async {
        let rows = gw.rows().await;
        let read = rows.iter().filter(|row| row.record.target.as_deref() == Some("read"));
        read.map(|row| (row.record.kind, row.record.code.clone())).collect::<Vec<_>>()
    };
    wait_until_async("the call is recorded", async || !read_rows().await.is_empty()).await;
    assert_eq!(read_rows().await, [(RecordKind::Refused, Some("busy".into()))]);
    assert!(received_calls(directory.path(), "read").is_empty());
}

#[tokio::test]
async fn concurrent_calls_do_not_exceed_the_suspended_call_limit() {
    let upstream = start_asking_http_server().await;
    let gw = std::sync::Arc::new(TestGateway::with_policy(ALLOW_ALL, &upstream).await);
    StatelessTestClient::new(&gw).call("read", json!({})).await;
    let mut calls = JoinSet::new();
    for n in 0..40 {
        let gw = std::sync::Arc::clone(&gw);
        calls.spawn(async move {
            let calling = StatelessTestClient::new(&gw).request("tools/call", ask_params(&n.to_string()));
            tokio::time::timeout(std::time::Duration::from_secs(4), calling)
                .await
                .is_ok_and(|response| response.message()["result"]["resultType"] == "input_required")
        });
    }
    let suspended = calls.join_all().await.into_iter().filter(|is_suspended| *is_suspended).count();
    assert_eq!(suspended, 32, "exactly the limit");
}

#[tokio::test]
async fn a_process_with_a_listening_client_is_restarted_when_it_exits() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut listener = StatelessTestClient::new(&gw).start_request("subscriptions/listen", params).await;
    read_until(&mut listener, "acknowledged", 1).await;
    let handshake = received_messages(directory.path()).into_iter().find(|message| message["method"] == "initialize");
    let pid = handshake.and_then(|message| message["pid"].as_u64()).expect("a process");
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.expect("kill").success());
    wait_until("another process is initialized", || handshakes(directory.path()) >= 2).await;
    let pids: HashSet<_> = received_messages(directory.path()).iter().map(|message| message["pid"].clone()).collect();
    assert!(pids.len() >= 2, "{pids:?}");
}

#[tokio::test]
async fn the_server_gets_an_error_when_the_client_response_cannot_be_recorded() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = std::sync::Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
    let store = Store::open_sqlite(directory.path(), Durability::Process, clock.clone()).expect("a store");
    let command = server_command(directory.path());
    let gw = TestGateway::builder().policy(ALLOW_ALL).store(store, clock).start_process(&command).await;
    let suspended = suspend_call(&gw, "A").await;
    std::fs::rename(directory.path().join("ledger.db"), directory.path().join("away")).expect("renamed");
    let refused = StatelessTestClient::new(&gw).request("tools/call", resume_params("A", &suspended, "yes")).await;
    assert!(refused.body.contains("the call log cannot be written"), "{}", refused.body);
    let is_declined = |message: &Value| message["error"]["message"].to_string().contains("has ended");
    wait_until("the server gets an error", || received_messages(directory.path()).iter().any(is_declined)).await;
    let is_response = |message: &Value| message.to_string().contains("yes");
    assert!(!received_messages(directory.path()).iter().any(is_response), "the response is not sent");
}
