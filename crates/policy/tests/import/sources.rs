//! Random Intercept policies, and calls close to their conditions.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Values that Intercept compares as strings, floats and lists, and that are easily confused.
fn values() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(5),
        json!("5"),
        json!(5.5),
        json!(-1),
        json!(0),
        json!(true),
        json!("true"),
        json!("usd"),
        json!(""),
        json!("a5b"),
        json!("٥"),
        json!(null),
        json!([]),
        json!(["usd", 5]),
        json!({}),
        json!({ "a": "usd" }),
        json!({ "a": 5 }),
    ])
}

fn scalars() -> impl Strategy<Value = Value> {
    values().prop_filter("a scalar", |value| value.is_string() || value.is_number() || value.is_boolean())
}

fn conditions() -> impl Strategy<Value = Value> {
    let path = prop::sample::select(vec!["args.a", "args.a", "args.b", "args.a.a", "args.n"]);
    let scalar = prop::sample::select(vec!["eq", "neq", "contains"]);
    let list = prop::sample::select(vec!["in", "not_in"]);
    let order = prop::sample::select(vec!["lt", "lte", "gt", "gte"]);
    let number = prop::sample::select(vec![json!(5), json!(5.5), json!(0), json!(-1)]);
    let pattern = prop::sample::select(vec![json!(r"^\d$"), json!(r"\w"), json!("[0-9]b"), json!(r"^\S*$")]);
    let test = prop_oneof![
        1 => (scalar.clone(), values()),
        2 => (scalar, scalars()),
        1 => (list.clone(), prop::collection::vec(values(), 0..3).prop_map(Value::from)),
        3 => (list, prop::collection::vec(scalars(), 1..4).prop_map(Value::from)),
        2 => (order, number),
        1 => (Just("exists"), any::<bool>().prop_map(Value::from)),
        2 => (Just("regex"), pattern),
    ];
    (path, test).prop_map(|(path, (op, value))| json!({ "path": path, "op": op, "value": value }))
}

/// Rules whose counters are named by their position, so that all are distinct.
fn rules(scope: &'static str) -> impl Strategy<Value = Vec<Value>> {
    let bound = (prop::sample::select(vec!["lt", "lte", "gt"]), prop::sample::select(vec![0.0, 1.0, 2.5, 4.0, 9.0]));
    let rule = prop_oneof![
        6 => prop::collection::vec(conditions(), 1..3).prop_map(|conditions| json!({ "conditions": conditions })),
        1 => Just(json!({ "action": "deny" })),
        1 => prop::collection::vec(conditions(), 0..2)
            .prop_map(|conditions| json!({ "action": "require_approval", "conditions": conditions })),
        2 => (1..4_u32).prop_map(|count| json!({ "rate_limit": format!("{count}/hour") })),
        4 => (bound, 1..4_u32, prop::option::of(conditions())).prop_map(|((op, value), increment, more)| {
            let bound = json!({ "path": "own", "op": op, "value": value });
            let conditions: Vec<Value> = more.into_iter().chain([bound]).collect();
            json!({ "conditions": conditions, "state": { "counter": "c", "window": "day", "increment": increment } })
        }),
        3 => any::<bool>().prop_map(|is_bounded| {
            let bound = json!({ "path": "own", "op": "lte", "value": 9 });
            let other = json!({ "path": "args.b", "op": "exists", "value": false });
            json!({
                "conditions": [if is_bounded { bound } else { other }],
                "state": { "counter": "c", "window": "day", "increment_from": "args.n" },
            })
        }),
    ];
    prop::collection::vec(rule, 0..3).prop_map(move |mut rules| {
        for (at, rule) in rules.iter_mut().enumerate() {
            rule["name"] = json!(format!("rule {at}"));
            let counter = format!("c{at}");
            if let Some(state) = rule.get_mut("state") {
                state["counter"] = json!(counter);
            }
            for condition in rule.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
                if condition["path"] == "own" {
                    condition["path"] = json!(format!("state.{scope}.{counter}"));
                }
            }
        }
        // Two rates of one window would be the same counter.
        let mut has_rate = false;
        rules.retain(|rule| rule.get("rate_limit").is_none() || !std::mem::replace(&mut has_rate, true));
        rules
    })
}

pub fn sources() -> impl Strategy<Value = Value> {
    let default = prop::sample::select(vec!["allow", "deny"]);
    let hide = prop::sample::select(vec![json!([]), json!(["u"]), json!(["*"]), json!(["t*"])]);
    (default, hide, rules("t"), rules("_global")).prop_map(|(default, hide, own, all)| {
        json!({ "version": "1", "default": default, "hide": hide, "tools": {
            "t": { "rules": own }, "*": { "rules": all }, "v*": { "rules": [] },
        } })
    })
}

pub fn calls() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let tool = prop::sample::select(vec!["t", "t", "t", "u", "v1"]);
    let arguments = (prop::option::of(values()), prop::option::of(values()), prop::option::weighted(0.8, -2..5_i32));
    let arguments = arguments.prop_map(|(a, b, n)| {
        let fields = [("a", a), ("b", b), ("n", n.map(Value::from))];
        let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(present.collect())
    });
    prop::collection::vec((tool, arguments), 1..12)
}
