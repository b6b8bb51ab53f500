//! Random policies that load. They cover the whole language, with few names so that rules match calls.

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

pub const TOOLS: [&str; 6] = ["pay", "pay_now", "pay_later", "read_a", "read_b", "drop_x"];
/// The numbers of literal characters differ, so there are no ties.
pub const TOOL_GLOBS: [&str; 5] = ["*", "*_x", "pay*", "pay_*", "read_*"];
pub const CATEGORIES: [&str; 6] = ["read", "write", "execute", "destructive", "financial", "unknown"];
pub const RESOURCES: [&str; 3] = ["file:///a", "file:///a/b", "file:///a/../b"];
const RESOURCE_GLOBS: [&str; 3] = ["file:*", "file:///a*", "*"];
pub const PROMPTS: [&str; 2] = ["greet", "greet_all"];
const PROMPT_GLOBS: [&str; 2] = ["greet*", "*"];
pub const METHODS: [&str; 3] = ["x/one", "x/y/two", "other"];
const METHOD_GLOBS: [&str; 2] = ["x/*", "x/y/*"];
const CLIENT_REQUESTS: [&str; 3] = ["sampling", "elicitation", "roots"];

const ARGUMENT_PATHS: [&str; 12] = [
    "args",
    "args.a",
    "args.b",
    "args.amount",
    "args.missing",
    "args.nested",
    "args.nested.x",
    r#"args["nested.x"]"#,
    "args.list",
    "args.list[0]",
    "args.list[*]",
    "args.list[*].x",
];
const FACT_PATHS: [&str; 8] = [
    "server.name",
    "grant.label",
    "grant.labels.team",
    "client.name",
    "client.version",
    "time.hour",
    "time.weekday",
    "time.date",
];
const TOOL_PATHS: [&str; 3] = ["tool.name", "tool.category", "tool.level"];

/// Whether conditions of a block may refer to the tool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Tool,
    Other,
}

pub fn policy() -> impl Strategy<Value = Value> {
    let default = select(vec!["allow", "deny"]);
    let hide = vec(select([&TOOLS[..], &TOOL_GLOBS[1..]].concat()), 0..3);
    let action = || select(vec!["allow", "deny"]).prop_map(Value::from).boxed();
    let resources = table(&RESOURCES, &RESOURCE_GLOBS, block(Place::Other));
    let prompts = table(&PROMPTS, &PROMPT_GLOBS, block(Place::Other));
    let parts = (
        weighted(0.3, hide.prop_map(|names| json!(names))),
        weighted(0.4, block(Place::Tool)),
        weighted(0.6, table(&CATEGORIES, &[], category_rule().boxed())),
        weighted(0.9, table(&TOOLS, &TOOL_GLOBS, block(Place::Tool))),
        weighted(0.7, resources),
        weighted(0.7, prompts),
        weighted(0.7, table(&METHODS, &METHOD_GLOBS, action())),
        weighted(0.5, table(&CLIENT_REQUESTS, &[], action())),
        weighted(0.3, select(vec!["Europe/Berlin", "Asia/Kolkata"]).prop_map(Value::from)),
    );
    (default, parts).prop_map(|(default, parts)| {
        let (hide, all_tools, categories, tools, resources, prompts, methods, client_requests, time_zone) = parts;
        let fields = [
            ("version", Some(json!("1"))),
            ("default", Some(json!(default))),
            ("hide", hide),
            ("all_tools", all_tools),
            ("categories", categories),
            ("tools", tools),
            ("resources", resources),
            ("prompts", prompts),
            ("methods", methods),
            ("client_requests", client_requests),
            ("time_zone", time_zone),
        ];
        object(fields)
    })
}

/// Generates a map from some of the names to values.
fn table(names: &[&'static str], globs: &[&'static str], value: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let all = [names, globs].concat();
    let most = all.len().min(4);
    subsequence(all, 0..=most).prop_flat_map(move |keys| {
        let values = vec(value.clone(), keys.len());
        values.prop_map(move |values| keys.iter().map(ToString::to_string).zip(values).collect::<Value>())
    })
}

fn category_rule() -> impl Strategy<Value = Value> {
    prop_oneof![select(vec!["allow", "deny", "approve", "hide"]).prop_map(Value::from), block(Place::Tool),]
}

fn block(place: Place) -> BoxedStrategy<Value> {
    let action = weighted(0.2, select(vec!["allow", "deny", "approve"]).prop_map(Value::from));
    let predicates = |probability| weighted(probability, vec(predicate(place), 0..3).prop_map(Value::from));
    let is_for_tools = place == Place::Tool;
    let parts = (
        action,
        weighted(0.1, Just(json!("because"))),
        predicates(0.3),
        predicates(0.3),
        predicates(0.3),
        weighted(0.4, limits()),
        weighted(0.2, rate_limit()),
        weighted(0.05, Just(json!(true))),
    );
    parts
        .prop_map(move |(action, reason, require, deny_if, approve_if, limits, rate_limit, validate)| {
            object([
                ("action", action),
                ("reason", reason),
                ("require", require),
                ("deny_if", deny_if),
                ("approve_if", approve_if),
                ("limits", limits),
                ("rate_limit", rate_limit.filter(|_| is_for_tools)),
                ("validate_arguments", validate.filter(|_| is_for_tools)),
            ])
        })
        .boxed()
}

fn predicate(place: Place) -> impl Strategy<Value = Value> {
    let on_deny = || weighted(0.2, Just(json!("no")));
    let whole = (vec(condition(place), 0..3), on_deny())
        .prop_map(|(conditions, on_deny)| object([("conditions", Some(json!(conditions))), ("on_deny", on_deny)]));
    prop_oneof![condition(place), whole]
}

fn condition(place: Place) -> impl Strategy<Value = Value> {
    let paths = match place {
        Place::Tool => [&ARGUMENT_PATHS[..], &FACT_PATHS, &TOOL_PATHS].concat(),
        Place::Other => [&ARGUMENT_PATHS[..], &FACT_PATHS].concat(),
    };
    (select(paths), test()).prop_map(|(path, (op, value))| json!({ "path": path, "op": op, "value": value }))
}

/// Generates an operator and a valid value for it.
pub fn test() -> impl Strategy<Value = (&'static str, Value)> {
    let with = |ops: &[&'static str], value: BoxedStrategy<Value>| (select(ops.to_vec()), value);
    let list = |value: BoxedStrategy<Value>| vec(value, 1..4).prop_map(Value::from).boxed();
    let hosts = select(vec!["example.com", "*.example.com", "example.com:8443", "127.0.0.1"]).prop_map(Value::from);
    prop_oneof![
        with(&["eq", "neq", "contains"], scalar().boxed()),
        with(&["in", "not_in", "subset_of"], list(scalar().boxed())),
        with(&["lt", "lte", "gt", "gte"], number().boxed()),
        with(&["starts_with", "ends_with"], text().boxed()),
        with(&["regex"], select(vec!["^a", "[0-9]+$", "u.d", "^/srv/"]).prop_map(Value::from).boxed()),
        with(&["exists"], any::<bool>().prop_map(Value::from).boxed()),
        with(&["length_lte"], (0..4).prop_map(Value::from).boxed()),
        with(&["path_within"], select(vec!["/", "/srv", "/srv/data/"]).prop_map(Value::from).boxed()),
        with(&["host_in"], list(hosts.boxed())),
    ]
}

pub fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![3 => text(), 3 => number(), 1 => any::<bool>().prop_map(Value::from)]
}

pub fn number() -> impl Strategy<Value = Value> {
    select(vec![
        json!(-1),
        json!(0),
        json!(1),
        json!(1.0),
        json!(2),
        json!(2.5),
        json!(99),
        json!(9007199254740993_u64),
    ])
}

pub fn text() -> impl Strategy<Value = Value> {
    let texts = vec![
        "",
        "a",
        "ab",
        "usd",
        "99",
        "pay",
        "read",
        "low",
        "mon",
        "é",
        "/srv/data/x",
        "/srv/../etc",
        "srv",
        "https://example.com/x",
        "http://a.example.com",
        "https://example.com:8443",
    ];
    select(texts).prop_map(Value::from)
}

/// Generates limits that agree for each counter; only `max` differs.
fn limits() -> impl Strategy<Value = Value> {
    let calls = (1..4).prop_map(|max| json!({ "counter": "calls", "window": "minute", "max": max }));
    let spend = select(vec![json!(1), json!(2.5), json!(100)]).prop_map(
        |max| json!({ "counter": "spend", "window": "day", "max": max, "scope": "session", "amount": "args.amount" }),
    );
    let rolling = (1..4).prop_map(
        |max| json!({ "counter": "all", "window": "15m", "max": max, "scope": "organisation", "align": "rolling" }),
    );
    vec(prop_oneof![calls, spend, rolling], 0..4).prop_map(Value::from)
}

fn rate_limit() -> impl Strategy<Value = Value> {
    select(vec![json!("10/minute"), json!("3/15m"), json!({ "max": 5, "window": 60, "scope": "server" })])
}

/// Builds an object from the fields that are `Some`.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<_, _>>())
}

/// Generates a small JSON value.
pub fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), scalar()];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let key = select(vec!["x", "y", "conditions", "path", "max"]).prop_map(ToOwned::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((key, inner), 0..3).prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

/// Generates arguments: values of any kind under the names that conditions use.
pub fn arguments() -> impl Strategy<Value = Value> {
    let amount = of(prop_oneof![3 => number(), 1 => any_value()]);
    let list = of(prop_oneof![3 => vec(any_value(), 0..3).prop_map(Value::from), 1 => any_value()]);
    let nested = of(prop_oneof![3 => any_value().prop_map(|x| json!({ "x": x })), 1 => any_value()]);
    (of(any_value()), of(scalar()), amount, list, nested, of(any_value())).prop_map(
        |(a, b, amount, list, nested, dotted)| {
            object([("a", a), ("b", b), ("amount", amount), ("list", list), ("nested", nested), ("nested.x", dotted)])
        },
    )
}
