//! Counts heap allocations.

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::decide;
use serde_json::{Value, json};

use crate::decision_bench::one_limit;
use crate::figure_report::BenchFigure;
use crate::json_read_bench::small_call;
use crate::policy_fixtures::{compile_policy, noon, parse_call};

pub fn figures() -> Vec<BenchFigure> {
    let text = small_call();
    vec![
        BenchFigure::count(
            "read of a tools/call of 300 bytes",
            count_allocations(|| read(text.as_bytes(), &JsonLimits::REQUEST)),
        ),
        BenchFigure::count("decide: allow without limits", decision_allocations(json!({}))).with_max(0.0),
        BenchFigure::count("decide: allow with one limit", decision_allocations(json!({ "limits": [one_limit()] })))
            .with_max(1.0),
    ]
}

fn decision_allocations(block: Value) -> u64 {
    let policy = compile_policy(&json!({ "version": "1", "default": "deny", "tools": { "pay": block } }));
    let call = parse_call(&json!({ "tool": "pay", "arguments": { "amount": 1999 } }));
    let at = noon();
    count_allocations(|| decide(&policy, &call, at))
}

fn count_allocations<T>(mut work: impl FnMut() -> T) -> u64 {
    // One-time initialization by the first call does not count.
    drop(work());
    let info = allocation_counter::measure(|| {
        std::hint::black_box(work());
    });
    info.count_total
}
