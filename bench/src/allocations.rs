//! How often the heap is asked for memory.

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::decide;
use serde_json::{Value, json};

use crate::decisions::one_limit;
use crate::document::{call, compiled, noon};
use crate::reading::small_call;
use crate::report::Figure;

pub fn figures() -> Vec<Figure> {
    let text = small_call();
    vec![
        Figure::count("read of a tools/call of 300 bytes", count(|| read(text.as_bytes(), &JsonLimits::REQUEST))),
        Figure::count("decide: allow without limits", of_decision(json!({}))).at_most(0.0),
        Figure::count("decide: allow with one limit", of_decision(json!({ "limits": [one_limit()] }))).at_most(1.0),
    ]
}

fn of_decision(block: Value) -> u64 {
    let policy = compiled(&json!({ "version": "1", "default": "deny", "tools": { "pay": block } }));
    let call = call(&json!({ "tool": "pay", "arguments": { "amount": 1999 } }));
    let at = noon();
    count(|| decide(&policy, &call, at))
}

fn count<T>(mut work: impl FnMut() -> T) -> u64 {
    // What is set up once, by the first call of all, is not what a call costs.
    drop(work());
    let info = allocation_counter::measure(|| {
        std::hint::black_box(work());
    });
    info.count_total
}
