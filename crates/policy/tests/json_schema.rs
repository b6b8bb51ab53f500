//! Compares the JSON schema for editors with the parser: policies that load are valid, and the fields are the same.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_policy::{DiagnosticCode, DocumentFormat, InputSchema, parse, policy_json_schema};
use serde_json::{Value, json};

fn is_valid(policy: &Value) -> bool {
    jsonschema::draft202012::new(&policy_json_schema()).expect("a schema").is_valid(policy)
}

fn loads(policy: &Value) -> bool {
    parse(policy.to_string().as_bytes(), DocumentFormat::Json).is_ok()
}

/// A policy with one block for the tool `x`.
fn with_block(block: Value) -> Value {
    json!({ "version": "1", "default": "deny", "tools": { "x": block } })
}

fn with_condition(operator: &str, value: Value) -> Value {
    with_block(json!({ "require": [{ "conditions": [{ "path": "args.a", "op": operator, "value": value }] }] }))
}

fn with_limit(limit: Value) -> Value {
    with_block(json!({ "limits": [limit] }))
}

#[test]
fn the_schema_compiles_and_is_a_valid_schema() {
    let text = policy_json_schema().to_string();
    InputSchema::compile(text.as_bytes()).expect("a schema that our own reader takes");
    assert!(jsonschema::meta::is_valid(&policy_json_schema()));
}

#[test]
fn policies_that_load_are_valid() {
    let seed = |tool: &str, max: u32| {
        let counter = format!("{tool}_rate");
        let limit = json!({ "counter": counter, "window": "minute", "max": max, "scope": "grant" });
        json!({ "version": "1", "default": "deny", "tools": { tool: { "limits": [limit] } } })
    };
    let full = json!({
        "version": "1",
        "$schema": "policy.schema.json",
        "description": "what agents may do to the books",
        "default": "deny",
        "hide": ["delete_*"],
        "all_tools": { "limits": [{ "counter": "calls", "window": "minute", "max": 120, "scope": "grant" }] },
        "categories": { "read": {}, "execute": { "action": "approve" }, "destructive": "hide", "unknown": "deny" },
        "tools": { "create_charge": {
            "action": "approve",
            "reason": "money",
            "require": [{
                "conditions": [{ "path": "args.currency", "op": "in", "value": ["usd", "eur"] }],
                "on_deny": "Only USD and EUR.",
            }],
            "deny_if": [{ "conditions": [] }, { "path": "args[\"a.b\"][0]", "op": "gt", "value": 50000.5, "on_deny": "no" }],
            "approve_if": [{ "path": "time.hour", "op": "gte", "value": 18 }],
            "limits": [
                { "counter": "spend", "window": "day", "max": 0.5, "scope": "server", "amount": "args.amount" },
                { "counter": "week", "window": "week", "max": 5, "align": "rolling", "on_deny": "slowly" },
                { "counter": "odd", "window": "15m", "max": 5, "increment_from": "args[\"amount\"]" },
            ],
            "rate_limit": { "max": 10, "window": 60, "scope": "session" },
            "validate_arguments": true,
        } },
        "resources": { "file:///srv/*": { "require": [{ "path": "args.uri", "op": "starts_with", "value": "file" }] } },
        "prompts": { "greet": { "action": "deny" } },
        "methods": { "x/y": "allow", "z/*": "deny" },
        "client_requests": { "sampling": "deny", "roots": "allow", "elicitation": "allow" },
        "time_zone": "Europe/Berlin",
    });
    let mut policies = vec![
        json!({ "version": "1", "default": "allow" }),
        full,
        seed("import_package", 30),
        seed("export_package", 30),
        seed("run_package_test", 10),
        seed("eval", 10),
        seed("run_class_test", 10),
        with_block(json!({ "rate_limit": "10/minute" })),
        with_block(json!({ "rate_limit": "10/15m" })),
        with_block(json!({ "rate_limit": "10/90" })),
    ];
    for (operator, value) in [
        ("eq", json!("a")),
        ("neq", json!(true)),
        ("in", json!([1, "a", false])),
        ("not_in", json!(["a"])),
        ("lt", json!(1)),
        ("lte", json!(1.5)),
        ("gt", json!(-1)),
        ("gte", json!(0)),
        ("contains", json!(5)),
        ("starts_with", json!("a")),
        ("ends_with", json!("")),
        ("regex", json!("^(?i)a$")),
        ("exists", json!(false)),
        ("length_lte", json!(0)),
        ("subset_of", json!(["a", 1])),
        ("path_within", json!("/srv")),
        ("host_in", json!(["*.example.com"])),
    ] {
        policies.push(with_condition(operator, value));
    }
    for policy in &policies {
        assert!(loads(policy), "does not load: {policy}");
        assert!(is_valid(policy), "is not valid: {policy}");
    }
}

#[test]
fn policies_that_do_not_load_are_not_valid() {
    let limit = |field: &str, value: Value| {
        let mut limit = json!({ "counter": "c", "window": "day", "max": 1 });
        limit[field] = value;
        with_limit(limit)
    };
    let top = |field: &str, value: Value| {
        let mut policy = json!({ "version": "1", "default": "deny" });
        policy[field] = value;
        policy
    };
    let mut policies = vec![
        json!([]),
        json!({}),
        json!({ "default": "deny" }),
        json!({ "version": "1" }),
        top("version", json!(1)),
        top("version", json!("2")),
        top("default", json!("hide")),
        top("defualt", json!("deny")),
        top("hide", json!("x")),
        top("hide", json!([1])),
        top("tools", json!([])),
        top("tools", json!({ "x": "deny" })),
        top("all_tools", json!("deny")),
        top("categories", json!({ "reads": {} })),
        top("categories", json!({ "read": "hidden" })),
        top("categories", json!({ "read": 1 })),
        top("methods", json!({ "tools/call": "allow" })),
        top("methods", json!({ "ping": "allow" })),
        top("methods", json!({ "tasks/get": "allow" })),
        top("methods", json!({ "x*": "allow" })),
        top("methods", json!({ "x/y": "approve" })),
        top("client_requests", json!({ "sampling": true })),
        top("client_requests", json!({ "tools": "allow" })),
        top("resources", json!({ "x": { "rate_limit": "10/minute" } })),
        top("prompts", json!({ "x": { "validate_arguments": true } })),
        top("time_zone", json!(1)),
        with_block(json!({ "allow": true })),
        with_block(json!({ "action": "hide" })),
        with_block(json!({ "reason": 1 })),
        with_block(json!({ "validate_arguments": "yes" })),
        with_block(json!({ "require": {} })),
        with_block(json!({ "require": [{}] })),
        with_block(json!({ "require": [{ "on_deny": "x" }] })),
        with_block(json!({ "require": [{ "conditions": [], "path": "args.a" }] })),
        with_block(json!({ "require": [{ "conditions": [{ "path": "args.a", "op": "eq" }] }] })),
        with_block(json!({ "require": [{ "conditions": [{ "path": "arg.a", "op": "eq", "value": 1 }] }] })),
        with_block(json!({ "require": [{ "path": "args.a", "op": "is", "value": 1 }] })),
        with_block(json!({ "require": [{ "path": "args.a", "op": "eq", "value": 1, "not": true }] })),
        with_block(json!({ "rate_limit": 10 })),
        with_block(json!({ "rate_limit": "010/minute" })),
        with_block(json!({ "rate_limit": "10/fortnight" })),
        with_block(json!({ "rate_limit": { "max": 10 } })),
        with_block(json!({ "rate_limit": { "max": 10, "window": 60, "counter": "c" } })),
        with_block(json!({ "rate_limit": { "max": 1.5, "window": 60 } })),
        with_limit(json!({ "counter": "c", "window": "day" })),
        limit("counter", json!("")),
        limit("window", json!("fortnight")),
        limit("window", json!("015m")),
        limit("window", json!(0)),
        limit("window", json!(1.5)),
        limit("max", json!(0)),
        limit("max", json!(1.5)),
        limit("max", json!("1")),
        limit("scope", json!("agent")),
        limit("amount", json!("amount")),
        limit("align", json!("left")),
        limit("increment", json!(2)),
        with_limit(json!({ "counter": "c", "window": "month", "max": 1, "align": "rolling" })),
        with_limit(
            json!({ "counter": "c", "window": "day", "max": 1, "amount": "args.a", "increment_from": "args.a" }),
        ),
    ];
    for (operator, value) in [
        ("eq", json!(null)),
        ("neq", json!(["a"])),
        ("in", json!("a")),
        ("in", json!([])),
        ("not_in", json!([null])),
        ("lt", json!("1")),
        ("lte", json!(true)),
        ("gt", json!([1])),
        ("gte", json!(null)),
        ("contains", json!(["a"])),
        ("starts_with", json!(1)),
        ("ends_with", json!(null)),
        ("regex", json!(1)),
        ("exists", json!("yes")),
        ("length_lte", json!(-1)),
        ("length_lte", json!(1.5)),
        ("subset_of", json!([])),
        ("path_within", json!("srv")),
        ("path_within", json!("/a\\b")),
        ("host_in", json!([1])),
        ("host_in", json!([])),
    ] {
        policies.push(with_condition(operator, value));
    }
    for policy in &policies {
        assert!(!loads(policy), "loads: {policy}");
        assert!(!is_valid(policy), "is valid: {policy}");
    }
}

/// A unit test in the schema module checks the converse, that each field of the parser is in the schema.
#[test]
fn the_parser_knows_every_field_of_the_schema_and_nothing_else() {
    let schema = policy_json_schema();
    let names = |pointer: &str| -> Vec<String> {
        schema.pointer(pointer).and_then(Value::as_object).expect("properties").keys().cloned().collect()
    };
    let is_known = |policy: Value| {
        let diagnostics = parse(policy.to_string().as_bytes(), DocumentFormat::Json).err().unwrap_or_default();
        !diagnostics.iter().any(|diagnostic| diagnostic.code == DiagnosticCode::UnknownField)
    };
    type Wrap = fn(&str) -> Value;
    let places: [(&str, Wrap); 8] = [
        ("/properties", |name| json!({ name: null })),
        ("/properties/categories/properties", |name| json!({ "categories": { name: null } })),
        ("/properties/client_requests/properties", |name| json!({ "client_requests": { name: null } })),
        ("/$defs/block/properties", |name| with_block(json!({ name: null }))),
        ("/$defs/listed_block/properties", |name| json!({ "prompts": { "x": { name: null } } })),
        ("/$defs/limit/properties", |name| with_limit(json!({ name: null }))),
        ("/$defs/rate/properties", |name| with_block(json!({ "rate_limit": { name: null } }))),
        ("/$defs/bare_condition/properties", |name| with_block(json!({ "require": [{ name: null }] }))),
    ];
    for (pointer, wrap) in places {
        for name in names(pointer) {
            assert!(is_known(wrap(&name)), "{pointer} {name}");
        }
        assert!(!is_known(wrap("no_such_field")), "{pointer}");
    }
}
