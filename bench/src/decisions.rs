//! What a decision costs, by the size of the policy and by what its rules look at.

use gatelodge_policy::{Call, Decision, Policy, decide};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::document::{call, call_to, compiled, noon, policy_of};
use crate::measure::{Subject, side_by_side, subject};
use crate::report::Figure;

const FEW: usize = 10;
const MANY: usize = 1_000;

pub fn figures() -> Vec<Figure> {
    let mut figures = by_size();
    figures.extend(by_rule());
    figures
}

/// The same call again and again, and another tool each time: the second also pays for what no cache holds.
fn by_size() -> Vec<Figure> {
    let (few, many) = (compiled(&policy_of(FEW)), compiled(&policy_of(MANY)));
    let one = call(&call_to(FEW / 2));
    // As many calls on both sides: what a call itself takes of the caches is not what is asked here.
    let calls_to = |tools: usize| (0..MANY).map(move |number| call(&call_to(number % tools))).collect::<Vec<_>>();
    let slices = side_by_side(vec![
        judging(&few, &[one]),
        judging(&many, &[one]),
        judging(&few, &calls_to(FEW)),
        judging(&many, &calls_to(MANY)),
    ]);
    let [few_same, many_same, few_each, many_each] = slices.as_slice() else { return Vec::new() };
    vec![
        Figure::nanoseconds("10 tools of 10 conditions, always the same tool", few_same),
        Figure::nanoseconds("1,000 tools of 10 conditions, always the same tool", many_same),
        Figure::ratio("1,000 tools against 10, always the same tool", many_same, few_same).at_most(1.5),
        Figure::nanoseconds("10 tools of 10 conditions, another tool each time", few_each),
        Figure::nanoseconds("1,000 tools of 10 conditions, another tool each time", many_each),
        Figure::ratio("1,000 tools against 10, another tool each time", many_each, few_each).at_most(1.5),
    ]
}

fn judging<'a>(policy: &'a Policy, calls: &[Call<'a>]) -> Subject<'a> {
    let (calls, at): (Vec<Call<'a>>, Timestamp) = (calls.to_vec(), noon());
    for call in &calls {
        assert!(matches!(decide(policy, call, at), Decision::Allow(_)), "the calls of this measurement are allowed");
    }
    let mut next = 0;
    subject(move || {
        let decision = calls.get(next).map(|call| decide(policy, call, at));
        next = if next + 1 < calls.len() { next + 1 } else { 0 };
        decision
    })
}

fn by_rule() -> Vec<Figure> {
    let cases = cases();
    let ready: Vec<(Policy, Call<'_>)> = cases.iter().map(|case| (compiled(&case.policy), call(&case.call))).collect();
    let at = noon();
    for (case, (policy, call)) in cases.iter().zip(&ready) {
        let is_allowed = matches!(decide(policy, call, at), Decision::Allow(_));
        assert_eq!(is_allowed, case.is_allowed, "{}", case.name);
    }
    let subjects = ready.iter().map(|(policy, call)| subject(move || decide(policy, call, at)));
    let slices = side_by_side(subjects.collect());
    cases.iter().zip(&slices).map(|(case, slices)| Figure::nanoseconds(case.name, slices)).collect()
}

struct Case {
    name: &'static str,
    policy: Value,
    call: Value,
    is_allowed: bool,
}

fn cases() -> Vec<Case> {
    let to_pay = |arguments: Value| json!({ "tool": "pay", "arguments": arguments });
    let allowed = |name, block: Value, arguments: Value| {
        let policy = json!({ "version": "1", "default": "deny", "tools": { "pay": block } });
        Case { name, policy, call: to_pay(arguments), is_allowed: true }
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
        Case {
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
        Case {
            name: "the last of 100 globs",
            policy: json!({ "version": "1", "default": "deny", "tools": globs }),
            call: json!({ "tool": "group_99_list" }),
            is_allowed: true,
        },
        Case {
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
