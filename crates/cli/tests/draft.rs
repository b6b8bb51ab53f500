//! `policy draft`: from the log to a policy that lets the same pass, and what is said when that cannot be.

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
    CallId, CallOutcome, CallRecord, Durability, GrantId, Ledger, ManualClock, RecordKind, SqliteLedger,
};
use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::Value;
use support::{House, Run, house, until};

const PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
const CONFIG: &str =
    "[gateway]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[store]\ndata = \"data\"\n";

fn draft(house: &House, more: &[&str]) -> Run {
    house.run(&[&["policy", "draft", "--from-calls", "--data", "data"], more].concat())
}

/// A row of the log, by the second.
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

/// A house with a grant `idle` in its store, and a log.
fn furnished(rows: Vec<CallRecord>) -> (House, SqliteLedger) {
    let house = house();
    let made = house.run(&["grant", "create", "idle", "--data", "data"]);
    assert_eq!(made.code, 0, "{made:?}");
    let clock = Arc::new(ManualClock::at("2026-11-16T12:00:00Z".parse().expect("a time")));
    let ledger = SqliteLedger::open(&house.path("data"), Durability::Process, clock).expect("a ledger");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        for row in rows {
            ledger.write(&row).await.expect("queued");
        }
        ledger.flush().await.expect("written");
    });
    (house, ledger)
}

fn busy() -> Vec<CallRecord> {
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
    rows.push(row(RecordKind::Unchecked, 309, "ci", "elicitation/create", ""));
    rows.push(row(RecordKind::Unchecked, 310, "ci", "tools/list", ""));
    rows.push(row(RecordKind::Unchecked, 311, "ci", "notifications/initialized", ""));
    rows.push(row(RecordKind::Refused, 312, "ci", "response", ""));
    rows.push(row(RecordKind::Intent, 313, "other", "tools/call", "theirs"));
    rows
}

#[test]
fn what_was_sent_is_drafted_and_what_was_not_is_named_with_its_reason() {
    let (house, _ledger) = furnished(busy());
    let run = draft(&house, &["--grant", "ci"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_snapshot!(run.stdout);
    assert_snapshot!(run.stderr.replace(&"x".repeat(512), "x…x"));
    assert_eq!(draft(&house, &["--grant", "id-ci"]).stdout.replace("id-ci", "ci"), run.stdout, "by its id");

    house.write("draft.json", &run.stdout);
    assert_eq!(house.run(&["policy", "check", "--strict", "draft.json"]).code, 0);
    assert_eq!(house.run(&["policy", "fmt", "--check", "draft.json"]).code, 0);
    let explain = |tool: &str| {
        let call = format!(r#"{{"tool": "{tool}", "arguments": {{"amount": 3, "currency": "eur"}}}}"#);
        let run = house.run(&["policy", "explain", "--policy", "draft.json", "--json", "--call", &call]);
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
fn programs_get_everything_as_json_and_a_file_is_never_overwritten() {
    let (house, _ledger) = furnished(busy());
    let run = draft(&house, &["--grant", "ci", "--server", "books", "--out", "draft.json", "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(told["policy"].as_str(), Some(house.read("draft.json").as_str()));
    assert_eq!(told["used"][2]["name"], "pay");
    assert_eq!(told["used"][2]["peaks"], serde_json::json!({"minute": 2, "hour": 8, "day": 8}));
    assert_eq!(told["left_out"].as_array().expect("a list").len(), 4);

    house.write("draft.json", "mine");
    let run = draft(&house, &["--grant", "ci", "--out", "draft.json"]);
    assert_eq!((run.code, house.read("draft.json").as_str()), (2, "mine"));
    assert!(run.stderr.contains("`draft.json` is there already"), "{}", run.stderr);
    let run = draft(&house, &["--grant", "ci", "--out", "none/draft.json"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("cannot write `none/draft.json`"), "{}", run.stderr);
    let run = draft(&house, &["--grant", "ci", "--out", "fresh.json"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(
        run.stderr
            .contains("wrote the draft to `fresh.json`; next: read it, then `gatelodge policy put books fresh.json`")
    );
}

#[test]
fn where_there_is_nothing_to_draft_from_it_is_said_why() {
    let (house, _ledger) = furnished(vec![
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
        (&["--grant", "ci", "--server", "none"], 1, "no calls of `ci` were sent at `none`; it called books, notes"),
        (&["--grant", "ci", "--since", "2027-01-01"], 1, "no calls of `ci` were sent since 2027-01-01"),
        (&["--grant", "ci", "--since", "yesterday"], 2, "`yesterday` is not a time: write a date like `2026-11-15`"),
    ] {
        let run = draft(&house, args);
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{args:?}: {run:?}");
        assert!(run.stderr.contains(words), "{args:?}: {}", run.stderr);
    }
    assert_eq!(house.run(&["policy", "draft", "--grant", "ci"]).code, 2, "from what is not said");
    assert_eq!(draft(&house, &["--grant", "ci", "--server", "notes"]).code, 0);
}

#[test]
fn a_pruned_log_and_grants_of_one_name_are_said() {
    let mut other = intent(90_000, "tools/call", "look");
    other.grant = Some(GrantId("id-second".into()));
    let (house, ledger) = furnished(vec![intent(0, "tools/call", "pay"), intent(80_000, "tools/call", "read"), other]);
    let before: Timestamp = "2026-11-16T00:00:00Z".parse().expect("a time");
    tokio::runtime::Runtime::new().expect("a runtime").block_on(ledger.prune(before)).expect("pruned");
    let run = draft(&house, &["--grant", "ci"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!run.stdout.contains("pay") && run.stdout.contains("\"read\""), "{}", run.stdout);
    let words = "the log was pruned (1 row): calls before 2026-11-16 10:13:20 UTC are not in the draft";
    assert!(run.stderr.contains(words), "{}", run.stderr);
    assert!(
        run.stderr.contains("several grants have the label `ci`; all are included, or name one by its id"),
        "{}",
        run.stderr
    );
    let run = draft(&house, &["--grant", "ci", "--since", "2026-11-16T11:00:00Z"]);
    assert!(!run.stderr.contains("pruned") && !run.stdout.contains("\"read\""), "{run:?}");
}

#[test]
fn a_log_of_many_pages_is_read_whole() {
    let rows = (0..1_700).map(|call| intent(call, "tools/call", &format!("tool{}", call % 3))).collect();
    let (house, _ledger) = furnished(rows);
    let run = draft(&house, &["--grant", "ci", "--json"]);
    let told: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let calls: Vec<u64> =
        told["used"].as_array().expect("a list").iter().filter_map(|used| used["calls"].as_u64()).collect();
    assert_eq!(calls, [567, 567, 566]);
}

#[test]
fn a_grant_that_was_observed_goes_on_under_its_draft_and_can_do_nothing_else() {
    let house = house();
    let inner = house.start("inner", &[], &[&["up", "--data", "inner"], &PORTS[..]].concat());
    let printed = inner.printed();
    let secret = printed.lines().find_map(|line| line.trim().strip_prefix("token  ")).expect("a token").to_owned();
    let at = |args: &[&str]| house.run(&[args, &["--data", "data"]].concat());
    let header = "Authorization: Bearer ${SECRET}";
    assert_eq!(at(&["server", "add", "demo", &inner.url("demo"), "--header", header]).code, 0);
    house.write("shut.json", r#"{"version": "1", "default": "deny"}"#);
    assert_eq!(at(&["policy", "put", "agent", "shut.json"]).code, 0);
    let made = at(&["grant", "create", "agent", "--server", "demo", "--policy", "agent", "--observe"]);
    assert_eq!(made.code, 0, "{made:?}");
    let token = made.stdout.trim().to_owned();
    house.write("gatelodge.toml", CONFIG);
    let gateway = house.start("data", &[("SECRET", secret.as_str())], &["serve", "--config", "gatelodge.toml"]);
    let url = gateway.url("demo");
    let call = |tool: &str, arguments: &str| {
        house.run_with(&[("GATELODGE_TOKEN", token.as_str())], &["call", &url, tool, arguments]).code
    };
    assert_eq!(call("list_notes", "{}"), 0, "{}", gateway.log());
    assert_eq!(call("read_note", r#"{"name": "plans"}"#), 0);

    until("the log has both", || draft(&house, &["--grant", "agent"]).stdout.contains("\"read_note\": {"));
    assert_eq!(draft(&house, &["--grant", "agent", "--out", "agent.json"]).code, 0);
    assert_eq!(at(&["policy", "put", "agent", "agent.json"]).code, 0);
    assert_eq!(at(&["grant", "attach", "agent", "--server", "demo", "--policy", "agent"]).code, 0);

    // What a policy does not list looks like a tool that does not exist.
    until("the draft is in force", || call("search_notes", r#"{"query": "a"}"#) != 0);
    assert_eq!((call("list_notes", "{}"), call("read_note", r#"{"name": "plans"}"#)), (0, 0));
    assert_ne!(call("delete_note", r#"{"name": "plans"}"#), 0);
}
