//! Policies and calls of the measured sizes.

use gatelodge_json::{JsonDocument, JsonLimits, read};
use gatelodge_policy::{Call, CallFile, DocumentFormat, Policy, parse};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Sunday noon.
pub fn noon() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().expect("a time")
}

/// A policy with this many tools, each with ten conditions that [`call_to`] satisfies.
pub fn policy_with_tools(tools: usize) -> Value {
    let entries: Map<String, Value> = (0..tools).map(|number| (tool_name(number), ten_conditions(number))).collect();
    json!({ "version": "1", "default": "deny", "tools": entries })
}

fn tool_name(number: usize) -> String {
    format!("tool_{number:04}")
}

/// Values differ between tools, so that no more is shared than in real policies.
fn ten_conditions(number: usize) -> Value {
    let condition = |path: &str, op: &str, value: Value| json!({ "path": path, "op": op, "value": value });
    json!({
        "require": [{
            "conditions": [
                condition("args.currency", "in", json!(["usd", "eur", "gbp"])),
                condition("args.amount", "gte", json!(1)),
                condition("args.amount", "lte", json!(50_000 + number)),
                condition("args.customer.id", "starts_with", json!("cus_")),
                condition("args.customer.country", "not_in", json!(["xx", "yy"])),
                condition("args.account", "eq", json!(format!("account {number}"))),
            ],
            "on_deny": "Only small amounts, and only to known customers.",
        }],
        "deny_if": [
            condition("args.note", "contains", json!("urgent")),
            condition("args.lines[*].price", "gt", json!(10_000)),
        ],
        "approve_if": [
            { "conditions": [
                condition("args.amount", "gt", json!(40_000)),
                condition("args.live", "eq", json!(true)),
            ] },
        ],
    })
}

/// A call that satisfies the conditions of the tool.
pub fn call_to(number: usize) -> Value {
    json!({
        "tool": tool_name(number),
        "arguments": {
            "currency": "eur",
            "amount": 1999,
            "customer": { "id": "cus_8f3a", "country": "de" },
            "account": format!("account {number}"),
            "note": "for the books",
            "lines": [{ "price": 999, "text": "paper" }, { "price": 1000, "text": "ink" }],
            "live": true,
        },
    })
}

pub fn compile_policy(policy: &Value) -> Policy {
    parse(policy.to_string().as_bytes(), DocumentFormat::Json).expect("a policy")
}

/// Parses a call file. It is leaked, because the call borrows from it.
pub fn parse_call(written: &Value) -> Call<'static> {
    let text: &'static str = written.to_string().leak();
    let document: &'static JsonDocument<'static> =
        Box::leak(Box::new(read(text.as_bytes(), &JsonLimits::REQUEST).expect("JSON")));
    let file: &'static CallFile<'static> = Box::leak(Box::new(CallFile::new(document.root()).expect("a call")));
    file.call()
}
