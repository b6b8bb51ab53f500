//! Runs single steps of a call repeatedly, so that `checks/instruction_count.py` can count their instructions.
#![allow(clippy::expect_used, clippy::panic, reason = "a broken benchmark should stop")]

#[path = "../policy_fixtures.rs"]
#[allow(dead_code, reason = "it has documents for other measurements, too")]
mod policy_fixtures;

use std::hint::black_box;
use std::sync::Arc;

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{Decision, Policy, decide};
use gatelodge_store::{
    CallId, CallOutcome, CallRecord, CallTimings, CounterCharge, CounterOwner, Durability, GrantId, Ledger,
    ManualClock, RecordKind, ReserveOutcome, SqliteLedger,
};
use serde_json::{Value, json};

use policy_fixtures::{call_to, compile_policy, noon, parse_call, policy_with_tools};

/// As many calls as the usual case has connections, so that one batch contains all of them.
const CALLS_PER_BATCH: usize = 16;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [step, times] = words.as_slice() else { panic!("usage: instruction_count decide|read|ledger TIMES") };
    let times: usize = times.parse().expect("a number");
    match *step {
        "decide" => run_decisions(times),
        "read" => run_reads(times),
        "ledger" => run_ledger_batches(times),
        other => panic!("`{other}` is not a step"),
    }
}

fn run_decisions(times: usize) {
    let (policy, call) = (compile_policy(&policy_with_tools(100)), parse_call(&call_to(50)));
    for _ in 0..times {
        let decision = decide(black_box(&policy), black_box(&call), noon());
        assert!(matches!(decision, Decision::Allow(_)));
    }
}

fn run_reads(times: usize) {
    let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "create_refund",
        "arguments": { "amount": 1999, "currency": "eur", "note": "for the books", "lines": [{ "price": 999 }] },
        "_meta": { "progressToken": "p-1" },
    } });
    let text = request.to_string();
    for _ in 0..times {
        assert!(read(black_box(text.as_bytes()), &JsonLimits::REQUEST).is_ok());
    }
}

/// A policy with a limit, whose charge is reserved.
fn limited_policy() -> (Policy, Value) {
    let policy = json!({ "version": "1", "default": "deny", "tools": {
        "pay": { "limits": [{ "counter": "c", "window": "day", "max": 1_000_000_000 }] },
    } });
    (compile_policy(&policy), json!({ "tool": "pay", "arguments": {} }))
}

fn run_ledger_batches(times: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(noon()));
    let ledger = SqliteLedger::open(folder.path(), Durability::Process, clock).expect("a ledger");
    let (policy, written) = limited_policy();
    let Decision::Allow(terms) = decide(&policy, &parse_call(&written), noon()) else { panic!("the call is allowed") };
    let (name, server) = ("p".parse().expect("a name"), "s".parse().expect("a name"));
    let grant = GrantId("g".into());
    let holder = CounterOwner { policy: &name, server: &server, grant: &grant, session: None };
    let charges = || terms.charges.iter().map(|charge| CounterCharge::of(charge, &holder)).collect::<Vec<_>>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for round in 0..times {
            let one = async |at: usize| {
                let number = u8::try_from((round + at) % 256).expect("a byte");
                let mut record = CallRecord::new(RecordKind::Intent, CallId::new(noon(), [number; 10]), noon());
                record.target = Some("pay".into());
                let reserved = ledger.reserve(charges(), &record).await.expect("the ledger answers");
                assert!(matches!(reserved, ReserveOutcome::Taken(_)));
                let mut record = CallRecord::new(RecordKind::Outcome, CallId::new(noon(), [number; 10]), noon());
                (record.outcome, record.timings) = (Some(CallOutcome::Ok), Some(CallTimings::default()));
                ledger.write(&record).await.expect("queued");
            };
            let [a, b, c, d] = [0, 1, 2, 3].map(|part| join_four(part * CALLS_PER_BATCH / 4, &one));
            tokio::join!(a, b, c, d);
        }
        ledger.flush().await.expect("written");
    });
}

async fn join_four<F: Future<Output = ()>>(from: usize, one: &impl Fn(usize) -> F) {
    tokio::join!(one(from), one(from + 1), one(from + 2), one(from + 3));
}
