//! `policy draft`: a policy that allows the recorded calls, or the reason why none is written.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use gatelodge_store::{
    CallId, CallLog, CallOutcome, CallRecord, Durability, GrantId, Ledger, ManualClock, RecordKind, SqliteLedger,
};
use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::Value;
use support::{Run, TestDir, wait_until};

const PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
const CONFIG: &str =
    "[gateway]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[store]\ndata = \"data\"\n";

fn draft(dir: &TestDir, more: &[&str]) -> Run {
    dir.run(&[&["policy", "draft", "--from-calls", "--data", "data"], more].concat())
}

/// A row of the call log, `second` seconds after the start of the log.
fn row(kind: RecordKind, second: u64, label: &str, method: &str, target: &str) -> CallRecord {
    let start: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
    let at = start + Duration::from_secs(second);
    let mut record = CallRecord::new(kind, CallId::new(at, [u8::try_from(second % 251).expect("small"); 10]), at);
    record.label = Some(label.into());
    record.grant = Some(GrantId(format!("id-{label}").into()));
    record.server = Some("books".parse().expect("a name"));
    record.method = Some(method.into());
    record.target = Some(target).filter(|target| !target.is_empty()).map(Into::into);
    record
}

fn intent(second: u64, method: &str, target: &str) -> CallRecord {
    row(RecordKind::Intent, second, "ci", method, target)
}

fn refused(second: u64, target: &str, code: &str) -> CallRecord {
    CallRecord { code: Some(code.into()), ..row(RecordKind::Refused, second, "ci", "tools/call", target) }
}

/// A data directory with the grant `idle` and a call log with `rows`.
fn dir_with_log(rows: Vec<CallRecord>) -> (TestDir, SqliteLedger) {
    let dir = TestDir::new();
    let created = dir.run(&["grant", "create", "idle", "--data", "data"]);
    assert_eq!(created.code, 0, "{created:?}");
    let clock = Arc::new(ManualClock::at("2026-11-16T12:00:00Z".parse().expect("a time")));
    let ledger = SqliteLedger::open(&dir.path("data"), Durability::Process, clock).expect("a ledger");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        for row in rows {
            ledger.write(&row).await.expect("queued");
        }
        ledger.flush().await.expect("written");
    });
    (dir, ledger)
}

fn mixed_rows() -> Vec<CallRecord> {
    let mut rows = Vec::new();
    for call in 0..8 {
        let mut pay = intent(call * 30, "tools/call", "pay");
        pay.argument_keys = vec!["amount".into(), "currency".into()];
        pay.arguments = Some(format!(r#"{{"amount":{call},"currency":"eur"}}"#).into());
        rows.push(pay);
    }
    rows.push(CallRecord { observed: true, code: Some("not_listed".into()), ..intent(300, "tools/call", "look") });
    rows.push(CallRecord { observed: true, code: Some("limit".into()), ..intent(301, "tools/call", "look") });
    rows.push(CallRecord { observed: true, code: Some("not_offered".into()), ..intent(302, "tools/call", "gone") });
    rows.push(CallRecord {
        observed: true,
        code: Some("definition_changed".into()),
        ..intent(303, "tools/call", "new")
    });
    rows.push(refused(304, "wipe", "not_listed"));
    rows.push(refused(305, "wipe", "not_listed"));
    let unsent = intent(306, "tools/call", "far");
    rows.push(unsent.clone());
    rows.push(CallRecord {
        outcome: Some(CallOutcome::NotSent),
        ..CallRecord::new(RecordKind::Outcome, unsent.call, unsent.at)
    });
    rows.push(intent(307, "tools/call", &format!("{}…", "x".repeat(512))));
    rows.push(intent(308, "resources/read", "note://desk/1"));
    rows.push(row(RecordKind::PolicyExempt, 309, "ci", "elicitation/create", ""));
    rows.push(row(RecordKind::PolicyExempt, 310, "ci", "tools/list", ""));
    rows.push(row(RecordKind::PolicyExempt, 311, "ci", "notifications/initialized", ""));
    rows.push(row(RecordKind::Refused, 312, "ci", "response", ""));
    rows.push(row(RecordKind::Intent, 313, "other", "tools/call", "theirs"));
    rows
}

#[test]
fn sent_calls_are_drafted_and_others_are_listed_with_the_reason() {
    let (dir, _ledger) = dir_with_log(mixed_rows());
    let run = draft(&dir, &["--grant", "ci"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_snapshot!(run.stdout);
    assert_snapshot!(run.stderr.replace(&"x".repeat(512), "x…x"));
    assert_eq!(draft(&dir, &["--grant", "id-ci"]).stdout.replace("id-ci", "ci"), run.stdout, "by its id");

    dir.write("draft.json", &run.stdout);
    assert_eq!(dir.run(&["policy", "check", "--strict", "draft.json"]).code, 0);
    assert_eq!(dir.run(&["policy", "fmt", "--check", "draft.json"]).code, 0);
    let explain = |tool: &str| {
        let call = format!(r#"{{"tool": "{tool}", "arguments": {{"amount": 3, "currency": "eur"}}}}"#);
        let run = dir.run(&["policy", "explain", "--policy", "draft.json", "--json", "--call", &call]);
        serde_json::from_str::<Value>(&run.stdout).expect("JSON")["decision"].as_str().expect("a word").to_owned()
    };
    for (tool, decision) in [("pay", "allow"), ("look", "allow"), ("new", "allow")] {
        assert_eq!(explain(tool), decision, "{tool}");
    }
    for tool in ["wipe", "gone", "far", "theirs"] {
        assert_eq!(explain(tool), "deny", "{tool}");
    }
}

#[test]
fn json_output_is_complete_and_a_file_is_never_overwritten() {
    let (dir, _ledger) = dir_with_log(mixed_rows());
    let run = draft(&dir, &["--grant", "ci", "--server", "books", "--out", "draft.json", "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let output: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(output["policy"].as_str(), Some(dir.read("draft.json").as_str()));
    assert_eq!(output["used"][2]["name"], "pay");
    assert_eq!(output["used"][2]["peaks"], serde_json::json!({"minute": 2, "hour": 8, "day": 8}));
    assert_eq!(output["left_out"].as_array().expect("a list").len(), 4);

    dir.write("draft.json", "mine");
    let run = draft(&dir, &["--grant", "ci", "--out", "draft.json"]);
    assert_eq!((run.code, dir.read("draft.json").as_str()), (2, "mine"));
    assert!(run.stderr.contains("`draft.json` exists already"), "{}", run.stderr);
    let run = draft(&dir, &["--grant", "ci", "--out", "none/draft.json"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("cannot write `none/draft.json`"), "{}", run.stderr);
    let run = draft(&dir, &["--grant", "ci", "--out", "fresh.json"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(
        run.stderr
            .contains("wrote the draft to `fresh.json`; next: read it, then `gatelodge policy put books fresh.json`")
    );
}

#[test]
fn without_calls_to_draft_from_the_reason_is_reported() {
    let (dir, _ledger) = dir_with_log(vec![
        intent(0, "tools/call", "pay"),
        CallRecord { server: Some("notes".parse().expect("a name")), ..intent(1, "tools/call", "read") },
        row(RecordKind::Refused, 2, "shy", "tools/call", "wipe"),
    ]);
    for (args, code, words) in [
        (
            &["--grant", "idlee"][..],
            2,
            "there is no grant `idlee`, and the call log has none of this label: did you mean `idle`?",
        ),
        (&["--grant", "idle"], 1, "no calls of `idle` were sent; there is nothing to draft from"),
        (&["--grant", "shy"], 1, "left out: tools/call wipe (1 call): refused"),
        (&["--grant", "ci"], 2, "name one with `--server`: `books` (1 call), `notes` (1 call)"),
        (
            &["--grant", "ci", "--server", "none"],
            1,
            "no calls of `ci` were sent at `none`; it called only `books`, `notes`",
        ),
        (&["--grant", "ci", "--since", "2027-01-01"], 1, "no calls of `ci` were sent since 2027-01-01"),
        (&["--grant", "ci", "--since", "yesterday"], 2, "`yesterday` is not a time: write a date like `2026-11-15`"),
    ] {
        let run = draft(&dir, args);
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{args:?}: {run:?}");
        assert!(run.stderr.contains(words), "{args:?}: {}", run.stderr);
    }
    assert_eq!(dir.run(&["policy", "draft", "--grant", "ci"]).code, 2, "`--from-calls` is missing");
    assert_eq!(draft(&dir, &["--grant", "ci", "--server", "notes"]).code, 0);
}

#[test]
fn a_pruned_log_and_grants_with_the_same_label_are_reported() {
    let mut other = intent(90_000, "tools/call", "look");
    other.grant = Some(GrantId("id-second".into()));
    let (dir, ledger) = dir_with_log(vec![intent(0, "tools/call", "pay"), intent(80_000, "tools/call", "read"), other]);
    let before: Timestamp = "2026-11-16T00:00:00Z".parse().expect("a time");
    tokio::runtime::Runtime::new().expect("a runtime").block_on(ledger.prune(before)).expect("pruned");
    let run = draft(&dir, &["--grant", "ci"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!run.stdout.contains("pay") && run.stdout.contains("\"read\""), "{}", run.stdout);
    let words = "the log was pruned (1 row): calls before 2026-11-16 10:13:20 UTC are not in the draft";
    assert!(run.stderr.contains(words), "{}", run.stderr);
    assert!(
        run.stderr.contains("several grants have the label `ci`; all are included, or name one by its id"),
        "{}",
        run.stderr
    );
    let run = draft(&dir, &["--grant", "ci", "--since", "2026-11-16T11:00:00Z"]);
    assert!(!run.stderr.contains("pruned") && !run.stdout.contains("\"read\""), "{run:?}");
}

#[test]
fn a_log_of_many_pages_is_read_completely() {
    let rows = (0..1_700).map(|call| intent(call, "tools/call", &format!("tool{}", call % 3))).collect();
    let (dir, _ledger) = dir_with_log(rows);
    let run = draft(&dir, &["--grant", "ci", "--json"]);
    let output: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let calls: Vec<u64> =
        output["used"].as_array().expect("a list").iter().filter_map(|used| used["calls"].as_u64()).collect();
    assert_eq!(calls, [567, 567, 566]);
}

#[test]
fn an_observed_grant_works_under_its_draft_and_can_call_nothing_else() {
    let dir = TestDir::new();
    let inner = dir.start("inner", &[], &[&["up", "--data", "inner"], &PORTS[..]].concat());
    let printed = inner.stdout();
    let secret = printed.lines().find_map(|line| line.trim().strip_prefix("token  ")).expect("a token").to_owned();
    let run_with_data = |args: &[&str]| dir.run(&[args, &["--data", "data"]].concat());
    let header = "Authorization: Bearer ${SECRET}";
    assert_eq!(run_with_data(&["server", "add", "demo", &inner.url("demo"), "--header", header]).code, 0);
    dir.write("shut.json", r#"{"version": "1", "default": "deny"}"#);
    assert_eq!(run_with_data(&["policy", "put", "agent", "shut.json"]).code, 0);
    let created = run_with_data(&["grant", "create", "agent", "--server", "demo", "--policy", "agent", "--observe"]);
    assert_eq!(created.code, 0, "{created:?}");
    let token = created.stdout.trim().to_owned();
    dir.write("gatelodge.toml", CONFIG);
    let gateway = dir.start("data", &[("SECRET", secret.as_str())], &["serve", "--config", "gatelodge.toml"]);
    let url = gateway.url("demo");
    let call = |tool: &str, arguments: &str| {
        dir.run_with(&[("GATELODGE_TOKEN", token.as_str())], &["call", &url, tool, arguments]).code
    };
    assert_eq!(call("list_notes", "{}"), 0, "{}", gateway.log());
    assert_eq!(call("read_note", r#"{"name": "plans"}"#), 0);

    wait_until("the log has both", || draft(&dir, &["--grant", "agent"]).stdout.contains("\"read_note\": {"));
    assert_eq!(draft(&dir, &["--grant", "agent", "--out", "agent.json"]).code, 0);
    assert_eq!(run_with_data(&["policy", "put", "agent", "agent.json"]).code, 0);
    assert_eq!(run_with_data(&["grant", "attach", "agent", "--server", "demo", "--policy", "agent"]).code, 0);

    // A tool that the policy does not list is reported as unknown.
    wait_until("the draft is active", || call("search_notes", r#"{"query": "a"}"#) != 0);
    assert_eq!((call("list_notes", "{}"), call("read_note", r#"{"name": "plans"}"#)), (0, 0));
    assert_ne!(call("delete_note", r#"{"name": "plans"}"#), 0);
}
