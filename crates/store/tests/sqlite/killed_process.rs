//! A process that is killed at any moment loses no confirmed reservation and gains no capacity.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gatelodge_store::conformance::conformance_support::{START_TIME, calls, daily_charge, timestamp};
use gatelodge_store::{
    CallId, CallLog, CallLogFilter, CallRecord, CounterUsage, Durability, Ledger, RecordKind, ReserveOutcome,
    SqliteLedger,
};

use crate::{clock, ledger};

const DIRECTORY: &str = "GATELODGE_TEST_DIRECTORY";
const ROUNDS: u64 = 20;
const SMALL: u32 = 2_000;
const LARGE: u32 = 1_000_000;

/// Reserves until it is killed, and prints each granted call after its confirmation.
#[test]
#[ignore = "runs as a child of the test below"]
#[expect(clippy::disallowed_methods, reason = "a test passes the directory to its child")]
fn child() {
    let dir = PathBuf::from(std::env::var_os(DIRECTORY).expect("a directory"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let ledger = Arc::new(SqliteLedger::open(&dir, Durability::Process, clock()).expect("a ledger"));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..16 {
            tasks.spawn(reserve_until_killed(Arc::clone(&ledger)));
        }
        tasks.join_all().await;
    });
}

async fn reserve_until_killed(ledger: Arc<SqliteLedger>) {
    loop {
        let mut random = [0; 10];
        getrandom::fill(&mut random).expect("randomness");
        let call = CallId::new(timestamp(START_TIME), random);
        let intent = || CallRecord::new(RecordKind::Intent, call, timestamp(START_TIME));
        let both = vec![daily_charge("large", LARGE), daily_charge("small", SMALL)];
        let mut outcome = ledger.reserve(both, &intent()).await.expect("an answer");
        if matches!(outcome, ReserveOutcome::Exhausted(_)) {
            outcome = ledger.reserve(vec![daily_charge("large", LARGE)], &intent()).await.expect("an answer");
        }
        assert!(matches!(outcome, ReserveOutcome::Taken(_)));
        // One write per line: every line that the parent reads was confirmed.
        std::io::stdout().write_all(format!("taken {call}\n").as_bytes()).expect("a parent");
        ledger.write(&CallRecord::new(RecordKind::Outcome, call, timestamp(START_TIME))).await.expect("queued");
    }
}

/// Runs the child for a while, kills it, and returns the calls that were confirmed.
fn run_and_kill(dir: &Path, after: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["killed_process::child", "--exact", "--ignored", "--nocapture"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child");
    let output = child.stdout.take().expect("a pipe");
    let reader = std::thread::spawn(move || {
        let mut taken = Vec::new();
        let mut lines = BufReader::new(output);
        let mut line = String::new();
        while lines.read_line(&mut line).expect("text") > 0 {
            if let Some(call) = line.strip_prefix("taken ").and_then(|rest| rest.strip_suffix('\n')) {
                taken.push(call.to_owned());
            }
            line.clear();
        }
        taken
    });
    std::thread::sleep(after);
    child.kill().expect("killed");
    child.wait().expect("ended");
    reader.join().expect("what it said")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_loses_no_confirmed_call_and_gains_no_capacity() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut confirmed = HashSet::new();
    for round in 0..ROUNDS {
        let mut random = [0; 1];
        getrandom::fill(&mut random).expect("randomness");
        let after = Duration::from_millis(40 + u64::from(random[0]) / 2);
        confirmed.extend(run_and_kill(dir.path(), after));
        let ledger = ledger(dir.path());
        let verified = ledger.verify(vec![]).await.expect("a walk");
        assert_eq!(verified.chain_break, None, "round {round}");
        let rows = ledger.rows(CallLogFilter { limit: usize::MAX, ..CallLogFilter::default() }).await.expect("rows");
        let intents = rows.iter().filter(|row| row.record.kind == RecordKind::Intent);
        let intents: HashSet<_> = intents.map(|row| row.record.call.to_string()).collect();
        assert!(confirmed.is_subset(&intents), "round {round}: a confirmed call is not in the ledger");
        let usage = ledger.usage().await.expect("counters");
        let used = |name: &str| usage.iter().find(|usage| usage.key.as_str() == name).map(|usage| usage.used);
        let written = u32::try_from(intents.len()).expect("few");
        assert_eq!(used("large").unwrap_or(calls(0)), calls(written), "a charge for each intent");
        assert_eq!(used("small").unwrap_or(calls(0)), calls(written.min(SMALL)));
        assert_eq!(ledger.error_count(), 0);
    }
    assert!(confirmed.len() > 100, "the children did something: {}", confirmed.len());
    assert!(!dir.path().join("ledger.head.lost").exists(), "no head was newer than its log");
}
