//! Properties of every policy and every call, on random ones.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "laws/calls.rs"]
mod calls;
#[path = "laws/edit.rs"]
mod edit;
#[path = "laws/outcome.rs"]
mod outcome;
#[path = "laws/policies.rs"]
mod policies;

use gatelodge_policy::{DocumentFormat, parse};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use calls::{calls, tool_call};
use outcome::{DecisionKind, Outcome, decide_call, load, load_text};
use policies::{any_value, policy};

/// 256 cases per property, or `PROPTEST_CASES`; a few seconds without optimization.
/// No files are written: the smallest failing input is printed.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

// ---- it never panics -------------------------------------------------------------------------

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_load_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in [DocumentFormat::Json, DocumentFormat::Yaml] {
            let _ = parse(&bytes, format);
        }
    }

    #[test]
    fn damaged_documents_load_or_are_refused(
        policy in policy(), place in any::<Index>(), length in 0..20_usize,
        bytes in proptest::collection::vec(any::<u8>(), 0..5), calls in calls(),
    ) {
        for (text, format) in [(policy.to_string(), DocumentFormat::Json), (edit::to_yaml(&policy), DocumentFormat::Yaml)] {
            let mut text = text.into_bytes();
            let start = place.index(text.len());
            text.splice(start..(start + length).min(text.len()), bytes.iter().copied());
            if let Ok(policy) = parse(&text, format) {
                calls.iter().for_each(|call| drop(decide_call(&policy, call)));
            }
        }
    }

    #[test]
    fn misplaced_values_load_or_are_refused(
        policy in policy(), place in any::<Index>(), value in any_value(), calls in calls(),
    ) {
        let mut policy = policy;
        let places = places(&policy);
        *policy.pointer_mut(&places[place.index(places.len())]).expect("a place") = value;
        for (text, format) in [(policy.to_string(), DocumentFormat::Json), (edit::to_yaml(&policy), DocumentFormat::Yaml)] {
            if let Ok(policy) = parse(text.as_bytes(), format) {
                calls.iter().for_each(|call| drop(decide_call(&policy, call)));
            }
        }
    }
}

/// Returns JSON Pointers to all values of a document.
fn places(value: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(key, value)| (key.replace('/', "~1"), value)).collect(),
        Value::Array(elements) => elements.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in members {
        found.extend(places(value).iter().map(|below| format!("/{key}{below}")));
    }
    found
}

// ---- adding a deny ---------------------------------------------------------------------------

/// A change that denies more calls.
#[derive(Debug, Clone)]
enum Addition {
    Hide(&'static str),
    DenyIf(Value),
    Require(Value),
    Action,
    Entry(&'static str, &'static str),
    Method(&'static str),
    ClientRequest(&'static str),
}

fn deny() -> impl Strategy<Value = Addition> {
    let names = [&policies::TOOLS[..], &policies::TOOL_GLOBS].concat();
    let methods = [&policies::METHODS[..], &["x/*", "x/y/*"]].concat();
    let condition = || {
        let path = select(vec!["args.a", "args.list[*]", "args.amount", "args.nested.x", "server.name", "time.hour"]);
        (path, policies::test()).prop_map(|(path, (op, value))| json!({ "path": path, "op": op, "value": value }))
    };
    let entry = prop_oneof![
        select(names.clone()).prop_map(|name| Addition::Entry("tools", name)),
        select(policies::CATEGORIES.to_vec()).prop_map(|name| Addition::Entry("categories", name)),
        select(policies::RESOURCES.to_vec()).prop_map(|name| Addition::Entry("resources", name)),
        select(policies::PROMPTS.to_vec()).prop_map(|name| Addition::Entry("prompts", name)),
    ];
    prop_oneof![
        select(names).prop_map(Addition::Hide),
        condition().prop_map(Addition::DenyIf),
        condition().prop_map(Addition::Require),
        Just(Addition::DenyIf(json!({ "conditions": [] }))),
        Just(Addition::Action),
        entry,
        select(methods).prop_map(Addition::Method),
        select(vec!["sampling", "elicitation", "roots"]).prop_map(Addition::ClientRequest),
    ]
}

/// Returns the policy with one more deny, at `place` if there is a choice.
fn denying_more(policy: &Value, deny: &Addition, place: &Index) -> Value {
    let blocks = edit::blocks(policy);
    let block = &blocks[place.index(blocks.len())];
    let at = place.index(1000);
    match deny {
        Addition::Hide(name) => {
            let mut policy = policy.clone();
            edit::insert(&mut policy, "hide", at, json!(name));
            policy
        }
        Addition::DenyIf(predicate) => {
            edit::change_block(policy, block, |block| edit::insert(block, "deny_if", at, predicate.clone()))
        }
        Addition::Require(predicate) => {
            edit::change_block(policy, block, |block| edit::insert(block, "require", at, predicate.clone()))
        }
        Addition::Action => edit::change_block(policy, block, |block| block["action"] = json!("deny")),
        Addition::Entry(section, key) => edit::with(policy, section, key, json!({ "action": "deny" })),
        Addition::Method(name) => edit::with(policy, "methods", name, json!("deny")),
        Addition::ClientRequest(name) => edit::with(policy, "client_requests", name, json!("deny")),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn adding_a_deny_never_allows_more(
        policy in policy(), deny in deny(), place in any::<Index>(), calls in calls(),
    ) {
        let stricter = denying_more(&policy, &deny, &place);
        let (before, after) = (load(&policy), load(&stricter));
        for call in &calls {
            let (before, after) = (decide_call(&before, call), decide_call(&after, call));
            prop_assert!(after.kind <= before.kind, "{call}\n{stricter}\n{before:?}\n{after:?}");
            if after.kind != DecisionKind::Deny {
                prop_assert_eq!(after.charges, before.charges, "{}\n{}", call, stricter);
            }
        }
    }
}

// ---- equivalent documents --------------------------------------------------------------------

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_order_of_keys_does_not_matter(policy in policy(), mut seed in any::<u64>(), calls in calls()) {
        let shuffled = edit::shuffled(&policy, &mut seed);
        let (one, other) = (load(&policy), load(&shuffled));
        for call in &calls {
            let shuffled_call = edit::shuffled(call, &mut seed);
            prop_assert_eq!(decide_call(&one, call), decide_call(&other, &shuffled_call), "{}\n{}", call, shuffled);
        }
    }

    #[test]
    fn json_and_yaml_decide_alike(policy in policy(), calls in calls()) {
        let json = load(&policy);
        let yaml = edit::to_yaml(&policy);
        let in_blocks = load_text(&yaml, DocumentFormat::Yaml);
        // Compact JSON is YAML's flow style.
        let in_flow = load_text(&policy.to_string(), DocumentFormat::Yaml);
        for call in &calls {
            let expected = decide_call(&json, call);
            prop_assert_eq!(&decide_call(&in_blocks, call), &expected, "{}\n{}", call, yaml);
            prop_assert_eq!(&decide_call(&in_flow, call), &expected, "{}\n{}", call, policy);
        }
    }
}

// ---- layers ----------------------------------------------------------------------------------

/// Returns the key under `tools` that applies to a name: the name itself, else the glob with the most literal
/// characters.
fn applicable_key(policy: &Value, name: &str) -> Option<String> {
    let keys = policy.get("tools")?.as_object()?.keys();
    let matches = |glob: &str| match glob.split_once('*') {
        Some((start, end)) => name.len() >= glob.len() - 1 && name.starts_with(start) && name.ends_with(end),
        None => glob == name,
    };
    let rank = |key: &&String| if key.contains('*') { key.len() - 1 } else { usize::MAX };
    keys.filter(|key| matches(key)).max_by_key(rank).cloned()
}

/// Returns the expected outcome of a tool call. Moves the block of its layer to `/tools/<name>`, where only `hide`
/// comes before it, and decides the call again.
fn expected_by_layer(policy: &Value, call: &Value) -> Outcome {
    let name = call["tool"].as_str().expect("a tool");
    let is_accepted = matches!(call["accepted"].as_str(), Some("yes" | "changed"));
    let category = if is_accepted { call["category"].as_str().expect("a category") } else { "unknown" };
    let (block, layer) = match applicable_key(policy, name) {
        Some(key) => (policy["tools"][&key].clone(), format!("/tools/{key}")),
        None => match policy.get("categories").and_then(|categories| categories.get(category)) {
            Some(Value::String(word)) if word == "hide" => (Value::Null, format!("/categories/{category}")),
            Some(Value::String(word)) => (json!({ "action": word }), format!("/categories/{category}")),
            Some(block) => (block.clone(), format!("/categories/{category}")),
            None if policy["default"] == "allow" => (json!({}), "/default".into()),
            None => (json!({ "action": "deny" }), "/default".into()),
        },
    };
    let own = edit::pointer("tools", name);
    let is_hidden_by_category = block.is_null();
    let block = if is_hidden_by_category { json!({ "action": "deny" }) } else { block };
    let found = decide_call(&load(&edit::with(policy, "tools", name, block)), call);
    if found.code == Some("hidden") {
        return found;
    }
    // A hidden or unlisted tool is refused before the call is evaluated.
    let refused = |code, message: &str| Outcome {
        kind: DecisionKind::Deny,
        code: Some(code),
        rule: Some(layer.clone()),
        charges: Vec::new(),
        message: Some(message.to_owned()),
    };
    if is_hidden_by_category {
        return refused("hidden", "the tool is hidden by the policy");
    }
    if layer == "/default" && policy["default"] == "deny" {
        return refused("not_listed", "no rule of the policy matches, and its default is deny");
    }
    found.moved(&own, &layer)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn without_an_entry_the_next_layer_applies(policy in policy(), call in tool_call()) {
        let name = call["tool"].as_str().expect("a tool");
        let mut policy = policy;
        loop {
            prop_assert_eq!(decide_call(&load(&policy), &call), expected_by_layer(&policy, &call), "{}\n{}", call, policy);
            let Some(key) = applicable_key(&policy, name) else { break };
            policy = edit::without(&policy, "tools", &key);
        }
    }

    #[test]
    fn deleting_an_entry_allows_only_what_another_layer_allows(
        policy in policy(), place in any::<Index>(), calls in calls(),
    ) {
        let mut policy = policy;
        policy["default"] = json!("deny");
        let entries = edit::entries(&policy);
        prop_assume!(!entries.is_empty());
        let (section, key) = &entries[place.index(entries.len())];
        let deleted = edit::pointer(section, key);
        let (before, after) = (load(&policy), load(&edit::without(&policy, section, key)));
        for call in &calls {
            let (before, after) = (decide_call(&before, call), decide_call(&after, call));
            if after.kind > before.kind {
                // The deleted entry refused or required approval, and another one applies now.
                prop_assert!(before.is_by(&deleted), "{call}\n{policy}\n{deleted}\n{before:?}\n{after:?}");
                prop_assert!(!after.is_by("/default") && !after.is_by(&deleted), "{call}\n{policy}\n{after:?}");
            }
            if matches!(before.code, Some("not_listed" | "hidden")) {
                prop_assert_eq!(after.kind, DecisionKind::Deny, "{}\n{}\n{}", call, policy, deleted);
            }
            if !before.is_by(&deleted) && before.rule.is_none() {
                prop_assert_eq!(after.kind, before.kind, "{}\n{}\n{}", call, policy, deleted);
            }
        }
    }
}

// ---- mismatches ------------------------------------------------------------------------------

/// Generates a condition on `args.wrong`, and a value that its operator cannot compare.
fn mismatch() -> impl Strategy<Value = (Value, Value)> {
    let values = vec![
        json!(true),
        json!(5),
        json!("text"),
        json!("../up"),
        json!("http://u@example.com"),
        json!([]),
        json!(["a"]),
        json!({}),
        json!({ "x": 1 }),
    ];
    let value =
        (policies::test(), select(values.clone())).prop_filter_map("a comparable value", |((op, value), found)| {
            let condition = json!({ "path": "args.wrong", "op": op, "value": value });
            is_incomparable(op, &value, &found).then_some((condition, found))
        });
    let segment = (policies::test(), select(vec![".x", "[0]", "[*]"]), select(values)).prop_filter_map(
        "a segment that fits",
        |((op, value), segment, found)| {
            let fits = if segment == ".x" { found.is_object() } else { found.is_array() };
            let condition = json!({ "path": format!("args.wrong{segment}"), "op": op, "value": value });
            (!fits).then_some((condition, found))
        },
    );
    prop_oneof![2 => value, 1 => segment]
}

fn is_incomparable(op: &str, value: &Value, found: &Value) -> bool {
    let same_kind = |other: &Value| match other {
        Value::String(_) => found.is_string(),
        Value::Number(_) => found.is_number(),
        _ => found.is_boolean(),
    };
    let text = found.as_str();
    match op {
        "eq" | "neq" => !same_kind(value),
        "in" | "not_in" => !value.as_array().expect("a list").iter().any(same_kind),
        "lt" | "lte" | "gt" | "gte" => !found.is_number(),
        "contains" => !(found.is_array() || text.is_some() && value.is_string()),
        "starts_with" | "ends_with" | "regex" => text.is_none(),
        "length_lte" => text.is_none() && !found.is_array(),
        "subset_of" => !found.is_array(),
        // None of the strings above is an absolute path or an unambiguous URL.
        "path_within" | "host_in" => true,
        "exists" => false,
        other => panic!("an operator without a kind: {other}"),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_mismatch_is_never_allowed(
        (condition, found) in mismatch(), list in select(vec!["require", "deny_if", "approve_if"]),
        policy in policy(), place in any::<Index>(), call in tool_call(),
    ) {
        let mut call = call;
        call["arguments"]["wrong"] = found;
        // Alone, the mismatch is reported.
        let name = call["tool"].as_str().expect("a tool");
        let mut accepted = call.clone();
        accepted["accepted"] = json!("yes");
        let alone = json!({ "version": "1", "default": "deny", "tools": { name: { list: [condition.clone()] } } });
        let outcome = decide_call(&load(&alone), &accepted);
        prop_assert_eq!((outcome.kind, outcome.code), (DecisionKind::Deny, Some("type_mismatch")), "{}\n{}", call, alone);
        prop_assert_eq!(outcome.rule, Some(format!("/tools/{name}/{list}/0")));
        // Among other rules, an earlier step may refuse, but not a later one.
        let all = edit::change_block(&policy, "/all_tools", |block| {
            edit::insert(block, list, place.index(1000), condition.clone());
        });
        let outcome = decide_call(&load(&all), &call);
        prop_assert_eq!(outcome.kind, DecisionKind::Deny, "{}\n{}", call, all);
        prop_assert!(!matches!(outcome.code, Some("limit" | "amount")), "{call}\n{all}\n{outcome:?}");
    }
}
