//! Calls that wait for their turn, or for their client: what is denied does not wait, who leaves is written down, and
//! bounds hold however many come at once.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::HashSet;

use gatelodge_gateway::GatewaySettings;
use gatelodge_store::{Durability, ManualClock, RecordKind, SqliteLedger};
use gatelodge_testkit::TestGateway;
use serde_json::json;
use tokio::task::JoinSet;

use super::asked_apart::{ask, asked, asks_over_http, before, brought, calls, heard, script, slow};
use super::support::{ALLOW_ALL, StatelessTestClient, activate_policy, read_until, wait_until};

fn handshakes(directory: &std::path::Path) -> usize {
    heard(directory).iter().filter(|said| said["method"] == "initialize").count()
}

#[tokio::test]
async fn what_the_policy_does_not_show_waits_for_no_turn_and_starts_no_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    let _open = slow(&gw).await;
    wait_until("a call is open", || calls(directory.path(), "slow").len() == 1).await;
    activate_policy(&gw, r#"{"version":"1","default":"deny","tools":{"slow":{}}}"#);
    let denied = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert!(!denied.body.contains("calls are running"), "{}", denied.body);
    assert_eq!(handshakes(directory.path()), 1, "no further process");
    let rows = gw.rows().await;
    let row = rows.iter().rev().find(|row| row.record.kind == RecordKind::Refused).expect("a row");
    assert_eq!(row.record.code.as_deref(), Some("not_listed"), "{row:?}");
}

/// A call of `read` while another one is open, under a policy that is put in force then: what the log says of its refusal.
async fn refused_in_turn(policy: &str, is_listed_before: bool) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    let _open = slow(&gw).await;
    wait_until("a call is open", || calls(directory.path(), "slow").len() == 1).await;
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
async fn what_the_policy_denies_by_its_arguments_waits_for_no_turn_and_starts_no_process() {
    const REQUIRE: &str = r#"{"require":[{"conditions":[{"path":"args.n","op":"lte","value":1}]}]}"#;
    let by_name = format!(r#"{{"version":"1","default":"allow","tools":{{"read":{REQUIRE}}}}}"#);
    let by_category =
        format!(r#"{{"version":"1","default":"allow","categories":{{"read":{REQUIRE},"unknown":{REQUIRE}}}}}"#);
    for (policy, is_listed_before) in [(&by_name, false), (&by_name, true), (&by_category, true)] {
        let code = refused_in_turn(policy, is_listed_before).await;
        assert_eq!(code.as_deref(), Some("require"), "{policy} {is_listed_before}");
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_turn_is_counted_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
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
async fn where_the_session_for_a_turn_cannot_be_opened_it_is_said_that_the_handshake_failed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("refuses");
    let script = format!("if [ -e {} ]; then read line; exit 3; fi; {}", mark.display(), script(directory.path()));
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_process(&script).await;
    let _open = slow(&gw).await;
    wait_until("a call is open", || calls(directory.path(), "slow").len() == 1).await;
    std::fs::write(&mark, "").expect("written");
    let refused = StatelessTestClient::new(&gw).call("read", json!({})).await;
    assert!(refused.text().contains("[UPSTREAM] the handshake with the server failed: "), "{}", refused.body);
    assert!(refused.text().contains("; nothing else was sent"), "{}", refused.body);
}

#[tokio::test]
async fn of_a_caller_that_leaves_before_its_turn_it_is_written_that_nothing_was_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    let _open = slow(&gw).await;
    wait_until("a call is open", || calls(directory.path(), "slow").len() == 1).await;
    let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {super::support::TASKS_EXTENSION: {}}});
    let leaves = StatelessTestClient::new(&gw)
        .start_request_with_capabilities("tools/call", json!({"name": "read", "arguments": {}}), &all)
        .await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    drop(leaves);
    let own_rows = || async {
        let rows = gw.rows().await;
        let own = rows.iter().filter(|row| row.record.target.as_deref() == Some("read"));
        own.map(|row| (row.record.kind, row.record.code.clone())).collect::<Vec<_>>()
    };
    while own_rows().await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(own_rows().await, [(RecordKind::Refused, Some("busy".into()))]);
    assert!(calls(directory.path(), "read").is_empty());
}

#[tokio::test]
async fn no_more_calls_wait_for_their_clients_than_may_though_all_are_asked_at_once() {
    let upstream = asks_over_http().await;
    let gw = std::sync::Arc::new(TestGateway::with_policy(ALLOW_ALL, &upstream).await);
    StatelessTestClient::new(&gw).call("read", json!({})).await;
    let mut calls = JoinSet::new();
    for n in 0..40 {
        let gw = std::sync::Arc::clone(&gw);
        calls.spawn(async move {
            let asking = StatelessTestClient::new(&gw).request("tools/call", ask(&n.to_string()));
            tokio::time::timeout(std::time::Duration::from_secs(4), asking)
                .await
                .is_ok_and(|answer| answer.message()["result"]["resultType"] == "input_required")
        });
    }
    let waiting = calls.join_all().await.into_iter().filter(|waits| *waits).count();
    assert_eq!(waiting, 32, "as many as may");
}

#[tokio::test]
async fn a_process_that_somebody_listens_to_is_started_again_when_it_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = StatelessTestClient::new(&gw).start_request("subscriptions/listen", wanted).await;
    read_until(&mut listening, "acknowledged", 1).await;
    let greeted = heard(directory.path()).into_iter().find(|said| said["method"] == "initialize");
    let pid = greeted.and_then(|said| said["pid"].as_u64()).expect("a process");
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.expect("kill").success());
    wait_until("it is greeted again", || handshakes(directory.path()) >= 2).await;
    let pids: HashSet<_> = heard(directory.path()).iter().map(|said| said["pid"].clone()).collect();
    assert!(pids.len() >= 2, "{pids:?}");
}

#[tokio::test]
async fn where_what_a_client_answers_cannot_be_recorded_the_server_is_told_that_nobody_answers() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = std::sync::Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
    let ledger = SqliteLedger::open(directory.path(), Durability::Process, clock.clone()).expect("a ledger");
    let script = script(directory.path());
    let gw = TestGateway::builder()
        .policy(ALLOW_ALL)
        .ledger(std::sync::Arc::new(ledger), clock)
        .start_process(&script)
        .await;
    let question = asked(&gw, "A").await;
    std::fs::rename(directory.path().join("ledger.db"), directory.path().join("away")).expect("renamed");
    let refused = StatelessTestClient::new(&gw).request("tools/call", brought("A", &question, "yes")).await;
    assert!(refused.body.contains("the call log cannot be written"), "{}", refused.body);
    let is_told =
        || heard(directory.path()).iter().any(|said| said["error"]["message"].to_string().contains("has ended"));
    wait_until("the server is told", is_told).await;
    assert!(!heard(directory.path()).iter().any(|said| said.to_string().contains("yes")), "and not what was said");
}
