//! Time of a decision, by the size of the policy and by the kind of its rules.

use gatelodge_policy::{Call, Decision, Policy, decide};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::figure_report::BenchFigure;
use crate::interleaved_timing::{Workload, measure_interleaved, workload};
use crate::policy_fixtures::{call_to, compile_policy, noon, parse_call, policy_with_tools};

const SMALL_POLICY_TOOLS: usize = 10;
const LARGE_POLICY_TOOLS: usize = 1_000;

pub fn figures() -> Vec<BenchFigure> {
    let mut figures = figures_by_size();
    figures.extend(figures_by_rule());
    figures
}

/// Repeats one call, and calls a different tool each time: the latter also includes cache misses.
fn figures_by_size() -> Vec<BenchFigure> {
    let (few, many) = (
        compile_policy(&policy_with_tools(SMALL_POLICY_TOOLS)),
        compile_policy(&policy_with_tools(LARGE_POLICY_TOOLS)),
    );
    let one = parse_call(&call_to(SMALL_POLICY_TOOLS / 2));
    // The number of calls is the same for both policies, so that cache misses of the calls themselves do not matter.
    let calls_to = |tools: usize| {
        (0..LARGE_POLICY_TOOLS).map(move |number| parse_call(&call_to(number % tools))).collect::<Vec<_>>()
    };
    let slices = measure_interleaved(vec![
        decide_workload(&few, &[one]),
        decide_workload(&many, &[one]),
        decide_workload(&few, &calls_to(SMALL_POLICY_TOOLS)),
        decide_workload(&many, &calls_to(LARGE_POLICY_TOOLS)),
    ]);
    let [few_same, many_same, few_each, many_each] = slices.as_slice() else { return Vec::new() };
    vec![
        BenchFigure::nanoseconds("10 tools of 10 conditions, always the same tool", few_same),
        BenchFigure::nanoseconds("1,000 tools of 10 conditions, always the same tool", many_same),
        BenchFigure::ratio("1,000 tools against 10, always the same tool", many_same, few_same).with_max(1.5),
        BenchFigure::nanoseconds("10 tools of 10 conditions, another tool each time", few_each),
        BenchFigure::nanoseconds("1,000 tools of 10 conditions, another tool each time", many_each),
        BenchFigure::ratio("1,000 tools against 10, another tool each time", many_each, few_each).with_max(1.5),
    ]
}

fn decide_workload<'a>(policy: &'a Policy, calls: &[Call<'a>]) -> Workload<'a> {
    let (calls, at): (Vec<Call<'a>>, Timestamp) = (calls.to_vec(), noon());
    for call in &calls {
        assert!(matches!(decide(policy, call, at), Decision::Allow(_)), "the calls of this measurement are allowed");
    }
    let mut next = 0;
    workload(move || {
        let decision = calls.get(next).map(|call| decide(policy, call, at));
        next = if next + 1 < calls.len() { next + 1 } else { 0 };
        decision
    })
}

fn figures_by_rule() -> Vec<BenchFigure> {
    let cases = decision_cases();
    let ready: Vec<(Policy, Call<'_>)> =
        cases.iter().map(|case| (compile_policy(&case.policy), parse_call(&case.call))).collect();
    let at = noon();
    for (case, (policy, call)) in cases.iter().zip(&ready) {
        let is_allowed = matches!(decide(policy, call, at), Decision::Allow(_));
        assert_eq!(is_allowed, case.is_allowed, "{}", case.name);
    }
    let subjects = ready.iter().map(|(policy, call)| workload(move || decide(policy, call, at)));
    let slices = measure_interleaved(subjects.collect());
    cases.iter().zip(&slices).map(|(case, slices)| BenchFigure::nanoseconds(case.name, slices)).collect()
}

struct DecisionCase {
    name: &'static str,
    policy: Value,
    call: Value,
    is_allowed: bool,
}

fn decision_cases() -> Vec<DecisionCase> {
    let to_pay = |arguments: Value| json!({ "tool": "pay", "arguments": arguments });
    let allowed = |name, block: Value, arguments: Value| {
        let policy = json!({ "version": "1", "default": "deny", "tools": { "pay": block } });
        DecisionCase { name, policy, call: to_pay(arguments), is_allowed: true }
    };
    let require =
        |path: &str, op: &str, value: Value| json!({ "require": [{ "path": path, "op": op, "value": value }] });
    let globs: Value = (0..100).map(|number| (format!("group_{number:02}_*"), json!({}))).collect();
    let schema = json!({
        "type": "object",
        "properties": { "amount": { "type": "integer", "minimum": 1 }, "currency": { "enum": ["usd", "eur"] } },
        "required": ["amount", "currency"],
        "additionalProperties": false,
    });
    vec![
        allowed("allow without conditions", json!({}), json!({ "amount": 1999 })),
        DecisionCase {
            name: "deny by default",
            policy: json!({ "version": "1", "default": "deny" }),
            call: to_pay(json!({ "amount": 1999 })),
            is_allowed: false,
        },
        allowed("allow with one limit", json!({ "limits": [one_limit()] }), json!({ "amount": 1999 })),
        allowed(
            "one regex",
            require("args.mail", "regex", json!("^[a-z.]+@example\\.com$")),
            json!({ "mail": "ada.lovelace@example.com" }),
        ),
        allowed(
            "one host_in of four hosts",
            require(
                "args.url",
                "host_in",
                json!(["a.example.com", "b.example.com", "*.example.org", "example.net:8443"]),
            ),
            json!({ "url": "https://files.example.org/a/b/c?d=e" }),
        ),
        allowed(
            "one path_within",
            require("args.path", "path_within", json!("/srv/data/shared")),
            json!({ "path": "/srv/data/shared/2026/../2027/report.txt" }),
        ),
        DecisionCase {
            name: "the last of 100 globs",
            policy: json!({ "version": "1", "default": "deny", "tools": globs }),
            call: json!({ "tool": "group_99_list" }),
            is_allowed: true,
        },
        DecisionCase {
            name: "validate_arguments, a schema of two properties",
            policy: json!({ "version": "1", "default": "deny", "tools": { "pay": { "validate_arguments": true } } }),
            call: json!({
                "tool": "pay",
                "arguments": { "amount": 1999, "currency": "eur" },
                "input_schema": schema,
            }),
            is_allowed: true,
        },
    ]
}

pub fn one_limit() -> Value {
    json!({ "counter": "calls", "window": "minute", "max": 60 })
}
