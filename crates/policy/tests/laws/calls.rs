//! Random calls, in the form of call files.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::policies::{CATEGORIES, METHODS, PROMPTS, RESOURCES, TOOLS, arguments};

/// Generates calls of all kinds, mostly of tools.
pub fn calls() -> impl Strategy<Value = Vec<Value>> {
    vec(prop_oneof![4 => tool_call(), 1 => resource_call(), 1 => prompt_call(), 2 => method_call()], 1..8)
}

pub fn tool_call() -> impl Strategy<Value = Value> {
    let name = prop_oneof![8 => select(TOOLS.to_vec()), 1 => Just("nobody_lists_this")];
    let accepted = prop_oneof![12 => Just("yes"), 1 => select(vec!["new", "changed", "not_offered"])];
    let schema = weighted(0.3, select(vec![json!({}), json!({ "required": ["a"] }), json!(false)]));
    (name, select(CATEGORIES.to_vec()), accepted, schema, arguments(), facts()).prop_map(
        |(name, category, accepted, schema, arguments, facts)| {
            let mut call = with_facts(facts, json!({ "tool": name, "category": category, "accepted": accepted }));
            call["arguments"] = arguments;
            if let Some(schema) = schema {
                call["input_schema"] = schema;
            }
            call
        },
    )
}

fn resource_call() -> impl Strategy<Value = Value> {
    (select(RESOURCES.to_vec()), facts()).prop_map(|(uri, facts)| with_facts(facts, json!({ "resource": uri })))
}

fn prompt_call() -> impl Strategy<Value = Value> {
    (select(PROMPTS.to_vec()), arguments(), facts())
        .prop_map(|(name, arguments, facts)| with_facts(facts, json!({ "prompt": name, "arguments": arguments })))
}

fn method_call() -> impl Strategy<Value = Value> {
    let always = ["ping", "tools/list"];
    let client = ["sampling/createMessage", "elicitation/create", "roots/list"];
    let names = [&METHODS[..], &always, &client, &["x/other", "tools/call", "tasks/get"]].concat();
    let plain = select(names).prop_map(|name| json!({ "method": name }));
    let of_prompt = select(PROMPTS.to_vec()).prop_map(|name| json!({ "type": "ref/prompt", "name": name }));
    let uris = [&RESOURCES[..], &["file:///{path}"]].concat();
    let of_resource = select(uris).prop_map(|uri| json!({ "type": "ref/resource", "uri": uri }));
    let completion = prop_oneof![of_prompt, of_resource]
        .prop_map(|reference| json!({ "method": "completion/complete", "arguments": { "ref": reference } }));
    prop_oneof![2 => plain, 1 => completion]
}

/// Generates the facts about the client, the server and the time.
fn facts() -> impl Strategy<Value = Value> {
    let at = select(vec!["2026-11-15T12:00:00Z", "2026-11-16T00:30:00Z", "2024-02-29T23:59:59Z"]);
    let session = weighted(0.5, Just("s1"));
    (at, session, any::<bool>()).prop_map(|(at, session, is_known)| {
        let who = json!({
            "server": { "name": "pay" },
            "grant": { "label": "a", "labels": { "team": "usd" } },
            "client": { "name": "ab", "version": "99" },
        });
        let mut facts = if is_known { who } else { json!({}) };
        facts["at"] = json!(at);
        facts["session"] = json!(session);
        facts
    })
}

fn with_facts(mut facts: Value, call: Value) -> Value {
    if let (Some(facts), Value::Object(call)) = (facts.as_object_mut(), call) {
        facts.extend(call);
    }
    facts
}
