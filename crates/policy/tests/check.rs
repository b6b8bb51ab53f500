//! Warnings of `policy check`: each kind with its location, and none for a correct policy.

#![expect(clippy::expect_used, reason = "a test that cannot be set up fails")]

use std::time::{Duration, Instant};

use gatelodge_json::LineColumn;
use gatelodge_policy::{Diagnostic, DiagnosticCode, DocumentFormat, Severity, ToolList, lint};

/// Formats each diagnostic as its code, its location, and the text that is underlined.
fn summaries(text: &str, diagnostics: &[Diagnostic]) -> Vec<String> {
    let one = |diagnostic: &Diagnostic| {
        let place = LineColumn::of(text.as_bytes(), diagnostic.span.start);
        let underlined = &text[diagnostic.span.clone()];
        assert!(diagnostic.help.is_some(), "{} has no help", diagnostic.message);
        assert_eq!(diagnostic.severity, Severity::Warning);
        format!("{} {}:{} {underlined}", diagnostic.code, place.line, place.column)
    };
    diagnostics.iter().map(one).collect()
}

fn warnings(policy: &str) -> Vec<String> {
    summaries(policy, &lint(policy.as_bytes(), DocumentFormat::Yaml, None))
}

fn tools(text: &str) -> ToolList {
    ToolList::read(text.as_bytes()).expect("tools")
}

fn with(policy: &str, offered: &str) -> Vec<String> {
    summaries(policy, &diagnostics(policy, offered))
}

fn diagnostics(policy: &str, offered: &str) -> Vec<Diagnostic> {
    lint(policy.as_bytes(), DocumentFormat::Yaml, Some(&tools(offered)))
}

/// Returns a policy with one tool, whose block is in flow style on line 4.
fn block(fields: &str) -> String {
    format!("version: \"1\"\ndefault: deny\ntools:\n  pay: {fields}\n")
}

/// Returns the warnings for one condition in `deny_if`, without their line and without those about absent values: the
/// tool requires nothing.
fn condition_warnings(condition: &str) -> Vec<String> {
    let policy = block(&format!("{{deny_if: [{{conditions: [{condition}]}}]}}"));
    let others = warnings(&policy).into_iter().filter(|line| !line.starts_with("absence-passes"));
    others.map(|line| line.replace(" 4:", " ")).collect()
}

const PAY: &str = r##"{"tools": [{"name": "pay", "description": "moves money", "annotations": {}, "inputSchema": {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "minimum": 1, "maximum": 500},
        "count": {"type": "integer", "exclusiveMinimum": 0},
        "currency": {"enum": ["usd", "eur"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "to": {"type": "array", "items": {"$ref": "#/$defs/party"}},
        "from": {"$ref": "#/$defs/party"},
        "extra": {"type": "object"},
        "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": true},
        "any": {}
    },
    "$defs": {"party": {"type": "object", "properties": {"iban": {"type": "string"}}, "additionalProperties": false}}
}}]}"##;

#[test]
fn a_correct_policy_gives_no_warning() {
    let policy = r#"
version: "1"
default: deny
hide: [pay_*]
time_zone: Europe/Berlin
all_tools:
  require:
    - {path: args.currency, op: exists, value: true}
  limits:
    - {counter: calls, window: minute, max: 120}
categories:
  read: {}
  execute: approve
tools:
  pay:
    validate_arguments: true
    require:
      - conditions:
          - {path: args.currency, op: in, value: [usd, eur]}
          - {path: args.amount, op: gt, value: 0}
          - {path: args.amount, op: lte, value: 500}
      - {path: "args.to[*].iban", op: regex, value: "^DE[0-9]{20}$"}
      - {path: args.from.iban, op: starts_with, value: DE}
    deny_if:
      - {path: args.currency, op: neq, value: usd}
      - {path: args.open.b, op: eq, value: 1}
      - {path: args.extra.deep.x, op: eq, value: 1}
      - {path: args.any, op: gt, value: 1}
      - {path: time.weekday, op: in, value: [sat, sun]}
      - {path: time.hour, op: gte, value: 23}
      - {path: time.date, op: starts_with, value: "2026-12"}
      - conditions:
          - {path: client.name, op: eq, value: old}
          - {path: grant.label, op: eq, value: ci}
    limits:
      - {counter: loop, window: hour, max: 3, scope: session}
      - {counter: spend, window: day, max: 1000, amount: args.amount}
    rate_limit: 10/minute
"#;
    let offered =
        PAY.replacen(r#"{"tools": ["#, r#"{"tools": [{"name": "pay_all", "inputSchema": {"type": "object"}}, "#, 1);
    assert_eq!(with(policy, &offered), [""; 0]);
    assert_eq!(warnings(policy), [""; 0]);
}

#[test]
fn each_warning_says_what_is_wrong_and_what_to_do() {
    let policy = r#"
version: "1"
default: deny
hide: [delete_*]
categories: {read: {}}
tools:
  delete_all: {}
  refund: {}
  "*": {}
  pay:
    require:
      - {path: args.note, op: regex, value: "refund|charge"}
      - {path: client.name, op: eq, value: claude}
      - {path: args.amounts, op: lt, value: 100}
      - {path: args.note, op: lt, value: 100}
    deny_if:
      - {path: args.currency, op: not_in, value: [usd, euro]}
      - {path: args.amount, op: gt, value: 500}
      - {path: time.weekday, op: eq, value: sunday}
      - conditions:
          - {path: args.count, op: gt, value: 5}
          - {path: args.count, op: lt, value: 3}
      - {path: args.amount, op: gt, value: 500}
    limits:
      - {counter: loop, window: hour, max: 3, scope: session}
      - {counter: loop, window: hour, max: 9, scope: session}
"#;
    let offered = PAY.replacen(r#"{"tools": ["#, r#"{"tools": [{"name": "delete_all"}, "#, 1);
    let line = |diagnostic: &Diagnostic| {
        let line = LineColumn::of(policy.as_bytes(), diagnostic.span.start).line;
        format!(
            "{line} {}: {}\n  help: {}",
            diagnostic.code,
            diagnostic.message,
            diagnostic.help.as_deref().unwrap_or_default()
        )
    };
    let text: Vec<String> = diagnostics(policy, &offered).iter().map(line).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    5 shadowed: every tool matches `*`, so categories have no effect
      help: put rules for all tools into `all_tools`
    7 shadowed: `delete_all` is hidden, so this rule is never evaluated
      help: remove the rule, or the entry that hides the tool
    8 not-offered: the server has no tool `refund`
      help: the entry has no effect; correct or remove it
    12 unanchored-regex: the expression can match anywhere in the text, with anything around it
      help: write `^(?:refund|charge)$`, so that the whole text must match
    13 claim-alone: a client can report any name and version, and this rule checks nothing else
      help: check `grant.label` or `grant.labels`, which the gateway sets itself
    14 unknown-argument: in `pay`, there is no `args.amounts`
      help: did you mean `args.amount`?
    15 impossible-comparison: in `pay`, `args.note` is a string, and `lt` needs a number
      help: every call that has it is refused; compare it as a string
    17 absence-passes: without `args.currency` this does not hold, and the call passes
      help: add {"path": "args.currency", "op": "exists", "value": true} to `require`
    17 impossible-comparison: in `pay`, `args.currency` is never `"euro"`
      help: did you mean `eur`?
    18 absence-passes: without `args.amount` this does not hold, and the call passes
      help: add {"path": "args.amount", "op": "exists", "value": true} to `require`
    18 never-holds: in `pay`, `args.amount` is at most 500, so `gt 500` never holds
      help: correct the number, or remove the condition
    19 never-holds: `eq "sunday"` never holds for `time.weekday`
      help: it is one of `fri`, `mon`, `sat`, `sun`, `thu`, `tue`, `wed`
    21 absence-passes: without `args.count` this does not hold, and the call passes
      help: add {"path": "args.count", "op": "exists", "value": true} to `require`
    22 absence-passes: without `args.count` this does not hold, and the call passes
      help: add {"path": "args.count", "op": "exists", "value": true} to `require`
    22 never-holds: `args.count` cannot be `gt 5` and `lt 3` at once
      help: all conditions of a rule must hold; write two rules if one of them is enough
    23 shadowed: this rule never decides: an earlier rule has the same conditions
      help: remove one of the two
    23 absence-passes: without `args.amount` this does not hold, and the call passes
      help: add {"path": "args.amount", "op": "exists", "value": true} to `require`
    23 never-holds: in `pay`, `args.amount` is at most 500, so `gt 500` never holds
      help: correct the number, or remove the condition
    25 session-alone: a session limit alone does not limit an agent: each new session starts at zero
      help: add a second limit with "scope": "grant"
    26 shadowed: another limit on the same counter is always reached first
      help: remove one of the two, or give them different counters
    26 session-alone: a session limit alone does not limit an agent: each new session starts at zero
      help: add a second limit with "scope": "grant"
    "#);
}

#[test]
fn a_document_that_does_not_load_gives_its_errors_alone() {
    let policy = block("{require: [{path: args.x, op: regex, value: a}], nonsense: 1}");
    let diagnostics = lint(policy.as_bytes(), DocumentFormat::Yaml, None);
    assert_eq!(
        diagnostics.iter().map(|diagnostic| diagnostic.code).collect::<Vec<_>>(),
        [DiagnosticCode::UnknownField]
    );
}

#[test]
fn locations_in_json_are_reported() {
    let policy = r#"{
  "version": "1", "default": "deny",
  "tools": {"pay": {"require": [{"path": "args.é", "op": "regex", "value": "a"}]}}
}"#;
    let diagnostics = lint(policy.as_bytes(), DocumentFormat::Json, None);
    assert_eq!(summaries(policy, &diagnostics), [r#"unanchored-regex 3:76 "a""#]);
    assert_eq!(diagnostics[0].help.as_deref(), Some("write `^(?:a)$`, so that the whole text must match"));
}

#[test]
fn a_regex_in_require_must_be_anchored_at_both_ends() {
    let policy =
        block("{require: [{path: args.x, op: regex, value: ^a|b$}], deny_if: [{path: args.x, op: regex, value: a}]}");
    assert_eq!(warnings(&policy), ["unanchored-regex 4:52 ^a|b$"]);
}

#[test]
fn absence_passes_a_bound_unless_a_limit_charges_the_value() {
    let rules = "deny_if: [{path: args.n, op: gt, value: 5}], approve_if: [{path: args.n, op: lte, value: 1}]";
    assert_eq!(warnings(&block(&format!("{{{rules}}}"))), ["absence-passes 4:26 args.n", "absence-passes 4:74 args.n"]);
    let limits = "limits: [{counter: c, window: day, max: 9, amount: args.n}]";
    assert_eq!(warnings(&block(&format!("{{{rules}, {limits}}}"))), [""; 0]);
    let require = "require: [{path: args.n, op: gte, value: 0}]";
    assert_eq!(warnings(&block(&format!("{{{rules}, {require}}}"))), [""; 0]);
}

#[test]
fn absence_passes_a_deny_of_all_but_some_values() {
    let policy =
        block("{deny_if: [{path: args.to, op: not_in, value: [a]}], approve_if: [{path: args.b, op: neq, value: 1}]}");
    assert_eq!(warnings(&policy), ["absence-passes 4:26 args.to", "absence-passes 4:81 args.b"]);
    // Required itself or by a path below it, or denied when absent.
    for guard in [
        "require: [{path: args.to, op: exists, value: true}]",
        "require: [{path: 'args[\"to\"].x', op: eq, value: 1}]",
        "approve_if: [{path: args.to, op: exists, value: false}]",
        "validate_arguments: true",
    ] {
        let policy = block(&format!("{{deny_if: [{{path: args.to, op: neq, value: a}}], {guard}}}"));
        assert_eq!(warnings(&policy), [""; 0], "{guard}");
    }
    let policy =
        block("{deny_if: [{path: args.to, op: neq, value: a}], require: [{path: args.to, op: exists, value: false}]}");
    assert_eq!(warnings(&policy), ["absence-passes 4:26 args.to"]);
    let in_all = "version: \"1\"\ndefault: deny\nall_tools: {require: [{path: args.to, op: exists, value: true}]}\n";
    let policy = format!("{in_all}categories: {{read: {{deny_if: [{{path: args.to, op: neq, value: a}}]}}}}\n");
    assert_eq!(warnings(&policy), [""; 0]);
    let policy = format!("{in_all}prompts: {{x: {{deny_if: [{{path: args.to, op: neq, value: a}}]}}}}\n");
    assert_eq!(warnings(&policy), ["absence-passes 4:32 args.to"]);
}

#[test]
fn session_limit_without_a_longer_limit_is_reported() {
    let session = "{counter: a, window: hour, max: 1, scope: session}";
    assert_eq!(warnings(&block(&format!("{{limits: [{session}]}}"))), ["session-alone 4:60 session"]);
    assert_eq!(warnings(&block("{rate_limit: {max: 1, window: 60, scope: session}}")), ["session-alone 4:49 session"]);
    for scope in ["grant", "server", "organisation"] {
        let policy = block(&format!("{{limits: [{session}, {{counter: b, window: day, max: 9, scope: {scope}}}]}}"));
        assert_eq!(warnings(&policy), [""; 0]);
    }
    let policy = block(&format!("{{limits: [{session}]}}\nall_tools: {{rate_limit: 5/hour}}"));
    assert_eq!(warnings(&policy), [""; 0]);
}

#[test]
fn a_condition_on_client_claims_is_reported() {
    for part in ["require", "deny_if", "approve_if"] {
        let policy = block(&format!("{{{part}: [{{path: client.name, op: eq, value: x}}]}}"));
        let column = 19 + part.len();
        assert_eq!(warnings(&policy), [format!("claim-alone 4:{column} client.name")]);
    }
}

#[test]
fn rules_of_a_hidden_tool_are_reported() {
    let policy =
        "version: \"1\"\ndefault: deny\nhide: [pay, get_*]\ntools: {pay: {}, get_it: {}, get_all_*: {}, g*: {}}\n";
    assert_eq!(warnings(policy), ["shadowed 4:9 pay", "shadowed 4:18 get_it", "shadowed 4:30 get_all_*"]);
    let diagnostic = &lint(policy.as_bytes(), DocumentFormat::Yaml, None)[1];
    assert_eq!(diagnostic.related.as_ref().map(|(span, _)| &policy[span.clone()]), Some("get_*"));
}

#[test]
fn rules_after_an_unconditional_deny_are_reported() {
    let policy =
        block("{action: deny, require: [], deny_if: [{path: args.x, op: eq, value: 1}], rate_limit: 1/minute}");
    assert_eq!(warnings(&policy), ["shadowed 4:36 deny_if", "shadowed 4:81 rate_limit"]);
    let policy = block(
        "{deny_if: [{path: args.x, op: eq, value: 1}, {conditions: []}, {conditions: [{path: args.y, op: eq, value: 1}]}]}",
    );
    assert_eq!(warnings(&policy), ["shadowed 4:72 conditions"]);
}

#[test]
fn a_repeated_predicate_is_reported() {
    let (a, b) = ("{path: args.a, op: eq, value: 1}", "{path: 'args[\"b\"]', op: eq, value: 2}");
    let c = "{path: args.b, op: eq, value: 2}";
    let policy = block(&format!("{{deny_if: [{{conditions: [{a}, {b}]}}, {{conditions: [{c}, {a}]}}, {a}]}}"));
    assert_eq!(warnings(&policy), ["shadowed 4:109 conditions"]);
    let policy = block(&format!("{{deny_if: [{a}], approve_if: [{a}]}}"));
    assert_eq!(warnings(&policy), [""; 0]);
}

#[test]
fn categories_after_a_rule_for_all_tools_are_reported() {
    let policy =
        "version: \"1\"\ndefault: deny\ncategories: {read: {}, execute: hide}\ntools: {\"*\": {}, get_*: {}}\n";
    assert_eq!(warnings(policy), ["shadowed 3:14 read", "shadowed 3:24 execute"]);
}

#[test]
fn the_larger_of_two_limits_on_one_counter_is_reported() {
    let limit = |max: u32| format!("{{counter: a, window: hour, max: {max}}}");
    let policy = block(&format!("{{limits: [{}, {}, {}]}}", limit(30), limit(20), limit(20)));
    assert_eq!(warnings(&policy), ["shadowed 4:50 30", "shadowed 4:124 20"]);
    let all = |max: u32| format!("all_tools: {{limits: [{}]}}\n", limit(max));
    assert_eq!(warnings(&format!("{}{}", block(&format!("{{limits: [{}]}}", limit(9))), all(8))), ["shadowed 4:50 9"]);
    assert_eq!(warnings(&format!("{}{}", block(&format!("{{limits: [{}]}}", limit(9))), all(9))), [""; 0]);
}

#[test]
fn contradictory_conditions_are_reported() {
    let x = |rest: &str| format!("{{path: args.x, {rest}}}");
    let pairs = [
        ("op: gt, value: 5", "op: lt, value: 3", "3"),
        ("op: gt, value: 5", "op: lte, value: 5.0", "5.0"),
        ("op: lt, value: 9007199254740993", "op: gte, value: 9007199254740993", "9007199254740993"),
        ("op: eq, value: a", "op: eq, value: b", "b"),
        ("op: eq, value: a", "op: in, value: [b, c]", "in"),
        ("op: in, value: [a, b]", "op: not_in, value: [b, a]", "not_in"),
        ("op: eq, value: 7", "op: gt, value: 7", "7"),
        ("op: eq, value: abc", "op: regex, value: ^x", "^x"),
        ("op: eq, value: 1", "op: exists, value: false", "false"),
        ("op: starts_with, value: ab", "op: starts_with, value: ac", "ac"),
        ("op: ends_with, value: ab", "op: ends_with, value: b0", "b0"),
        ("op: gt, value: 1", "op: starts_with, value: a", "a"),
    ];
    for (first, second, underlined) in pairs {
        let found = condition_warnings(&format!("{}, {}", x(first), x(second)));
        assert_eq!(found.len(), 1, "{first} {second} {found:?}");
        assert!(found[0].starts_with("never-holds ") && found[0].ends_with(&format!(" {underlined}")), "{found:?}");
    }
    for (first, second) in [
        ("op: gt, value: 3", "op: lt, value: 5"),
        ("op: gte, value: 5", "op: lte, value: 5"),
        ("op: in, value: [a, b]", "op: not_in, value: [a]"),
        ("op: starts_with, value: ab", "op: starts_with, value: abc"),
        ("op: exists, value: true", "op: eq, value: 1"),
        ("op: length_lte, value: 3", "op: contains, value: a"),
        ("op: eq, value: 3", "op: exists, value: true"),
    ] {
        let require = format!("{{require: [{{conditions: [{}, {}]}}]}}", x(first), x(second));
        assert_eq!(warnings(&block(&require)), [""; 0], "{first} {second}");
    }
    let other_elements = "{path: 'args.x[*]', op: eq, value: 1}, {path: 'args.x[*]', op: eq, value: 2}";
    assert_eq!(condition_warnings(other_elements), [""; 0]);
}

#[test]
fn an_impossible_value_of_a_fact_is_reported() {
    for (condition, found) in [
        ("{path: time.hour, op: gt, value: 23}", "never-holds 66 23"),
        ("{path: time.hour, op: eq, value: 24}", "never-holds 66 24"),
        ("{path: time.hour, op: eq, value: 1.5}", "never-holds 66 1.5"),
        ("{path: time.hour, op: in, value: [22, 24]}", "impossible-comparison 71 24"),
        ("{path: time.hour, op: eq, value: '9'}", "impossible-comparison 66 '9'"),
        ("{path: time.weekday, op: eq, value: monday}", "never-holds 69 monday"),
        ("{path: time.weekday, op: gt, value: 1}", "impossible-comparison 58 gt"),
        ("{path: time.date, op: eq, value: '2026-02-30'}", "never-holds 66 '2026-02-30'"),
        ("{path: time.date, op: lt, value: 2026}", "impossible-comparison 55 lt"),
        ("{path: tool.category, op: eq, value: reed}", "never-holds 70 reed"),
        ("{path: tool.level, op: eq, value: extreme}", "never-holds 67 extreme"),
        ("{path: grant.label, op: eq, value: 5}", "impossible-comparison 68 5"),
    ] {
        assert_eq!(condition_warnings(condition), [found], "{condition}");
    }
}

#[test]
fn unknown_tool_is_reported_with_the_nearest_name() {
    let policy = "version: \"1\"\ndefault: deny\nhide: [pax, p*, x*]\ntools: {payy: {}, \"*z*\": {}}\n";
    let found = diagnostics(policy, PAY);
    let codes = ["not-offered 3:8 pax", "not-offered 3:17 x*", "not-offered 4:9 payy", "not-offered 4:19 \"*z*\""];
    let summaries: Vec<String> =
        summaries(policy, &found).into_iter().filter(|line| !line.starts_with("shadowed")).collect();
    assert_eq!(summaries, codes);
    assert_eq!(found[0].help.as_deref(), Some("did you mean `pay`?"));
}

const PHARO: [&str; 22] = [
    "eval",
    "get_class_source",
    "get_method_source",
    "get_class_comment",
    "search_classes_like",
    "search_methods_like",
    "search_traits_like",
    "search_implementors",
    "search_references",
    "search_references_to_class",
    "list_packages",
    "list_classes",
    "list_extended_classes",
    "list_methods",
    "export_package",
    "import_package",
    "install_project",
    "run_package_test",
    "run_class_test",
    "read_screen",
    "get_settings",
    "apply_settings",
];

#[test]
fn a_rule_for_a_tool_that_pharo_does_not_have_loads_with_a_warning() {
    let limit = |tool: &str| {
        let limit = format!(r#"{{"counter": "{tool}_rate", "window": "minute", "max": 10, "scope": "grant"}}"#);
        format!(r#"    "{tool}": {{"limits": [{limit}]}}"#)
    };
    let names = ["eval", "eval_code", "run_package_test", "run_class_test", "import_package", "export_package"];
    let blocks: Vec<String> = names.iter().map(|name| limit(name)).collect();
    let policy =
        format!("{{\n  \"version\": \"1\", \"default\": \"deny\",\n  \"tools\": {{\n{}\n}}}}", blocks.join(",\n"));
    let list: Vec<String> = PHARO.iter().map(|name| format!(r#"{{"name": "{name}", "inputSchema": {{}}}}"#)).collect();
    let offered = tools(&format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {{"tools": [{}]}}}}"#, list.join(",")));
    let found = lint(policy.as_bytes(), DocumentFormat::Json, Some(&offered));
    assert_eq!(summaries(&policy, &found), ["not-offered 5:5 \"eval_code\""]);
    assert_eq!(found[0].message, "the server has no tool `eval_code`");
}

/// Returns the warnings for one condition in `require` on the tool of [`PAY`], without their line.
fn typed(condition: &str) -> Vec<String> {
    let policy = block(&format!("{{require: [{{{condition}}}]}}"));
    let short = |line: String| {
        let mut words = line.split(' ');
        let (code, _) = (words.next().unwrap_or_default().to_owned(), words.next());
        format!("{code} {}", words.collect::<Vec<_>>().join(" "))
    };
    with(&policy, PAY).into_iter().map(short).collect()
}

#[test]
fn unknown_argument_is_reported() {
    let policy = block(
        "{require: [{path: args.amounts, op: gt, value: 1}], limits: [{counter: a, window: day, max: 1, amount: args.sum}]}",
    );
    let found = diagnostics(&policy, PAY);
    assert_eq!(summaries(&policy, &found), ["unknown-argument 4:26 args.amounts", "unknown-argument 4:111 args.sum"]);
    assert_eq!(found[0].message, "in `pay`, there is no `args.amounts`");
    assert_eq!(found[0].help.as_deref(), Some("did you mean `args.amount`?"));
    assert_eq!(typed("path: 'args.to[*].ibam', op: eq, value: x"), ["unknown-argument 'args.to[*].ibam'"]);
    assert_eq!(typed("path: args.from.name, op: eq, value: x"), ["unknown-argument args.from.name"]);
    for path in ["args.open.x", "args.extra.x", "args.any.x.y", "'args.any[0]'", "args"] {
        assert_eq!(typed(&format!("path: {path}, op: exists, value: true")), [""; 0], "{path}");
    }
}

#[test]
fn comparison_with_a_different_type_is_reported() {
    for (condition, found) in [
        ("path: args.note, op: gt, value: 1", "gt"),
        ("path: args.count, op: starts_with, value: a", "starts_with"),
        ("path: args.count, op: eq, value: '1'", "'1'"),
        ("path: args.count, op: in, value: ['1', '2']", "in"),
        ("path: args.amount, op: length_lte, value: 3", "length_lte"),
        ("path: args.note, op: subset_of, value: [a]", "subset_of"),
        ("path: args.to, op: eq, value: a", "a"),
        ("path: 'args.note[0]', op: eq, value: a", "'args.note[0]'"),
        ("path: 'args.from[*]', op: eq, value: a", "'args.from[*]'"),
        ("path: args.to.iban, op: eq, value: a", "args.to.iban"),
        ("path: 'args[0]', op: eq, value: a", "'args[0]'"),
        ("path: 'args.to[0].iban', op: lt, value: 1", "lt"),
        ("path: args.currency, op: in, value: [usd, gbp]", "gbp"),
        ("path: args.currency, op: neq, value: gbp", "gbp"),
    ] {
        assert_eq!(typed(condition), [format!("impossible-comparison {found}")], "{condition}");
    }
    for condition in [
        "path: args.note, op: contains, value: a",
        "path: args.to, op: contains, value: a",
        "path: args.count, op: in, value: ['1', 2]",
        "path: args.currency, op: length_lte, value: 3",
    ] {
        assert_eq!(typed(condition), [""; 0], "{condition}");
    }
    let policy = block("{limits: [{counter: a, window: day, max: 1, increment_from: args.note}]}");
    assert_eq!(with(&policy, PAY), ["impossible-comparison 4:68 args.note"]);
}

#[test]
fn a_comparison_beyond_the_declared_bounds_never_holds() {
    for (condition, found) in [
        ("path: args.amount, op: gt, value: 500.0", "500.0"),
        ("path: args.amount, op: gte, value: 501", "501"),
        ("path: args.amount, op: lt, value: 1", "1"),
        ("path: args.count, op: lte, value: 0", "0"),
        ("path: args.amount, op: eq, value: 501", "501"),
        ("path: args.currency, op: eq, value: gbp", "gbp"),
        ("path: args.currency, op: in, value: [gbp, chf]", "in"),
        ("path: args.currency, op: starts_with, value: x", "x"),
    ] {
        assert_eq!(typed(condition), [format!("never-holds {found}")], "{condition}");
    }
    for condition in [
        "path: args.amount, op: gte, value: 500",
        "path: args.amount, op: lte, value: 1",
        "path: args.count, op: lte, value: 0.5",
        "path: args.amount, op: lt, value: 501",
    ] {
        assert_eq!(typed(condition), [""; 0], "{condition}");
    }
}

#[test]
fn simple_schemas_are_followed() {
    let schemas = [
        // Each allows a number, or allows `x`.
        r##"{"properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"$ref": "#/$defs/n"}}}"##,
        r##"{"properties": {"x": {"$ref": "other.json"}}}"##,
        r##"{"properties": {"x": {"type": ["string", "integer"]}}}"##,
        r##"{"properties": {"x": {"oneOf": [{"type": "string"}, {"minimum": 3}]}}}"##,
        r##"{"properties": {"x": true}}"##,
        r##"{"properties": {"x": {"type": "long"}}}"##,
        r##"{"properties": {"y": {}}, "patternProperties": {"^x": {}}}"##,
        r##"{"properties": {"y": {}}, "anyOf": [{"properties": {"x": {}}}, {"required": ["y"]}]}"##,
        r##"{"anyOf": [{"properties": {"x": {"type": "string"}}}, {"type": "object"}]}"##,
        r##"{"properties": {"y": {}}, "if": {"required": ["y"]}, "then": {"properties": {"x": {}}}}"##,
        r##"{"properties": {"y": {}}, "allOf": [{"properties": {"x": {"type": "number"}}}]}"##,
        r##"{"$ref": "#/$defs/a", "properties": {"x": {}}, "$defs": {"a": {"properties": {"y": {}}}}}"##,
        r##"{"$ref": "#a", "properties": {"y": {}}}"##,
        r##"{"type": "object"}"##,
        r##"[]"##,
        r##"true"##,
    ];
    let policy = block("{require: [{path: args.x, op: gt, value: 1}]}");
    for schema in schemas {
        assert_eq!(with(&policy, &format!(r#"[{{"name": "pay", "inputSchema": {schema}}}]"#)), [""; 0], "{schema}");
    }
    for schema in [
        r##"{"properties": {"x": {"$ref": "#/definitions/s"}}, "definitions": {"s": {"type": "string"}}}"##,
        r##"{"properties": {"x": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}"##,
        r##"{"properties": {"x": {"type": ["string", "null"]}}}"##,
        r##"{"properties": {"x": {"allOf": [{"description": "x"}, {"type": "string"}]}}}"##,
        r##"{"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {"const": "y"}}}}}"##,
        r##"{"properties": {"x": {"oneOf": [{"type": "number", "maximum": 1}, {"type": "boolean"}]}}}"##,
    ] {
        let found = with(&policy, &format!(r#"[{{"name": "pay", "inputSchema": {schema}}}]"#));
        assert_eq!(found.len(), 1, "{schema} {found:?}");
    }
    let none = r#"[{"name": "pay", "inputSchema": {"type": "object", "properties": {}}}]"#;
    assert_eq!(with(&policy, none), ["unknown-argument 4:26 args.x"]);
}

#[test]
fn validation_needs_a_usable_schema() {
    let policy = block("{validate_arguments: true}");
    for (definition, why) in [
        (r#"{"name": "pay"}"#, "it has no input schema"),
        (r#"{"name": "pay", "inputSchema": []}"#, "the input schema is not an object"),
    ] {
        let found = diagnostics(&policy, &format!("[{definition}]"));
        assert_eq!(summaries(&policy, &found), ["no-schema 4:9 validate_arguments"]);
        let start = "the arguments of `pay` cannot be validated, so each call is denied";
        assert_eq!(found[0].message, format!("{start}: {why}"));
    }
    assert_eq!(with(&policy, PAY), [""; 0]);
}

#[test]
fn a_warning_for_a_glob_names_the_tools() {
    let tool = |name: &str, kind: &str| {
        format!(r#"{{"name": "{name}", "inputSchema": {{"properties": {{"x": {{"type": "{kind}"}}}}}}}}"#)
    };
    let mut list: Vec<String> =
        ["a", "b", "c", "d", "e"].iter().map(|name| tool(&format!("get_{name}"), "string")).collect();
    list.extend([tool("get_number", "integer"), tool("get_exact", "string"), tool("set_it", "string")]);
    let policy = "version: \"1\"\ndefault: deny\ntools:\n  get_exact: {}\n  get_*: {require: [{path: args.x, op: gt, value: 1}]}\n";
    let found = diagnostics(policy, &format!("[{}]", list.join(",")));
    assert_eq!(summaries(policy, &found), ["impossible-comparison 5:40 gt"]);
    assert_eq!(
        found[0].message,
        "in `get_a`, `get_b`, `get_c` and 2 more, `args.x` is a string, and `gt` needs a number"
    );
}

#[test]
fn tool_names_are_escaped_in_messages() {
    let name = format!(r"\u001b[31m\u202e{}", "x".repeat(10_000));
    let offered = format!(r#"[{{"name": "{name}", "inputSchema": {{"properties": {{"\u0007x": {{}}}}}}}}]"#);
    let found = diagnostics(
        "version: \"1\"\ndefault: deny\ntools: {\"*\": {require: [{path: args.y, op: eq, value: 1}]}}\n",
        &offered,
    );
    let text = format!("{}{}", found[0].message, found[0].help.as_deref().unwrap_or_default());
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}']) && text.len() < 2_000, "{text}");
}

#[test]
fn a_rule_for_all_tools_is_reported_only_if_no_tool_has_the_argument() {
    let list = r#"[{"name": "a", "inputSchema": {"properties": {"x": {"type": "string"}}}},
                   {"name": "b", "inputSchema": {"properties": {"y": {"type": "string"}}}}]"#;
    let policy = |path: &str, op: &str| {
        format!("version: \"1\"\ndefault: deny\nall_tools: {{require: [{{path: {path}, op: {op}, value: 1}}]}}\n")
    };
    assert_eq!(with(&policy("args.x", "length_lte"), list), [""; 0]);
    let found = diagnostics(&policy("args.z", "gt"), list);
    assert_eq!(found[0].message, "no tool has an argument `args.z`");
    assert_eq!(with(&policy("args.z", "gt"), list), ["unknown-argument 3:30 args.z"]);
    assert_eq!(with(&policy("args.x", "gt"), list), ["impossible-comparison 3:42 gt"]);
    let open = list.replace(r#""properties": {"y""#, r#""additionalProperties": true, "properties": {"y""#);
    assert_eq!(with(&policy("args.z", "gt"), &open), [""; 0]);
}

#[test]
fn tool_lists_are_read_in_three_forms_and_refused_with_locations() {
    for text in
        [r#"[]"#, r#"{"tools": []}"#, r#"{"jsonrpc": "2.0", "id": 1, "result": {"tools": [], "nextCursor": null}}"#]
    {
        assert!(ToolList::read(text.as_bytes()).is_ok(), "{text}");
    }
    for (text, code, start) in [
        ("", DiagnosticCode::Syntax, 0),
        ("1", DiagnosticCode::WrongType, 0),
        (r#"{"tool": []}"#, DiagnosticCode::MissingField, 0),
        (r#"{"tools": {}}"#, DiagnosticCode::WrongType, 10),
        (r#"{"result": []}"#, DiagnosticCode::WrongType, 11),
        (r#"{"error": {"code": 1}}"#, DiagnosticCode::MissingField, 10),
        (r#"{"tools": [], "nextCursor": "x"}"#, DiagnosticCode::BadValue, 28),
        (r#"[{"name": "a"}, {}]"#, DiagnosticCode::MissingField, 16),
        (r#"[{"name": 1}]"#, DiagnosticCode::WrongType, 10),
        (r#"[1]"#, DiagnosticCode::WrongType, 1),
        (r#"[{"name": "a"}, {"name": "\u0061"}]"#, DiagnosticCode::RepeatedKey, 25),
        (r#"[{"name": "a", "name": "b"}]"#, DiagnosticCode::RepeatedKey, 15),
    ] {
        let diagnostics = ToolList::read(text.as_bytes()).expect_err(text);
        assert_eq!((diagnostics[0].code, diagnostics[0].span.start), (code, start), "{text}");
    }
    assert_eq!(
        ToolList::read(br#"[{}, 1, {"name": "a"}, {"name": "a"}]"#).map_err(|diagnostics| diagnostics.len()).err(),
        Some(3)
    );
}

/// Without optimization, a tenth of the size is enough to show quadratic time.
const SHARE: usize = if cfg!(debug_assertions) { 10 } else { 1 };
const SOON: Duration = Duration::from_secs(30);

fn lint_within_time_limit(policy: &str, offered: &str) -> Vec<Diagnostic> {
    let tools = tools(offered);
    let start = Instant::now();
    let found = lint(policy.as_bytes(), DocumentFormat::Json, Some(&tools));
    assert!(found.iter().all(|diagnostic| diagnostic.severity == Severity::Warning), "{:?}", found.first());
    assert!(start.elapsed() < SOON, "{:?} for {} bytes", start.elapsed(), policy.len());
    found
}

fn policy_of(fields: &str) -> String {
    format!(r#"{{"version": "1", "default": "deny", {fields}}}"#)
}

fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count / SHARE).map(one).collect::<Vec<_>>().join(",")
}

#[test]
fn many_rules_and_many_tools_are_checked_in_bounded_time() {
    let offered = many(10_000, |at| {
        let schema = r#"{"type": "object", "properties": {"amount": {"type": "string"}, "to": {}}}"#;
        format!(r#"{{"name": "tool_number_{at}", "inputSchema": {schema}}}"#)
    });
    let offered = format!("[{offered}]");
    let condition = |at: usize| format!(r#"{{"path": "args.a{at}", "op": "gt", "value": {at}}}"#);
    // Each tool with its own rule, misspelled.
    let own = many(8_000, |at| {
        format!(r#""tool_numbers_{at}": {{"require": [{}], "validate_arguments": true}}"#, condition(at))
    });
    assert_eq!(
        lint_within_time_limit(&policy_of(&format!(r#""tools": {{{own}}}"#)), &offered).len(),
        1_000.min(8_000 / SHARE)
    );
    // Validation of all tools.
    lint_within_time_limit(&policy_of(r#""all_tools": {"validate_arguments": true}"#), &offered);
    // One glob for all tools, and a rule for all tools: more than can be compared.
    let rules = many(20_000, condition);
    let block = format!(r#"{{"deny_if": [{rules}]}}"#);
    let found =
        lint_within_time_limit(&policy_of(&format!(r#""all_tools": {block}, "tools": {{"*": {block}}}"#)), &offered);
    assert_eq!(found[0].code, DiagnosticCode::TooLarge);
    // One rule with all conditions.
    lint_within_time_limit(&policy_of(&format!(r#""all_tools": {{"deny_if": [{{"conditions": [{rules}]}}]}}"#)), "[]");
    // As many globs as a policy may have.
    let hide = many(2_500, |at| format!(r#""*h{at}_*""#));
    let globs = many(2_500, |at| format!(r#""*{at:05}*_x{at:05}": {{}}"#));
    lint_within_time_limit(&policy_of(&format!(r#""hide": [{hide}], "tools": {{{globs}}}"#)), &offered);
}

#[test]
fn large_schemas_and_lists_are_checked_in_bounded_time() {
    let properties = many(50_000, |at| format!(r#""p{at}": {{"type": "string"}}"#));
    let offered = format!(r#"[{{"name": "pay", "inputSchema": {{"properties": {{{properties}}}}}}}]"#);
    let rules = many(20_000, |at| format!(r#"{{"path": "args.p{at}", "op": "gt", "value": {at}}}"#));
    lint_within_time_limit(&policy_of(&format!(r#""tools": {{"pay": {{"deny_if": [{rules}]}}}}"#)), &offered);
    let members = many(100_000, |at| at.to_string());
    let list = format!(r#"{{"path": "args.x", "op": "in", "value": [{members}]}}"#);
    let offered = format!(r#"[{{"name": "pay", "inputSchema": {{"properties": {{"x": {{"enum": [{members}]}}}}}}}}]"#);
    lint_within_time_limit(
        &policy_of(&format!(r#""tools": {{"pay": {{"deny_if": [{{"conditions": [{list}, {list}]}}]}}}}"#)),
        &offered,
    );
    let both = r##"{"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}"##;
    let schema = format!(r#"{{"properties": {{"x": {both}}}, "$defs": {{"a": {both}}}}}"#);
    let offered = format!(r#"[{{"name": "pay", "inputSchema": {schema}}}]"#);
    let rules = many(5_000, |at| format!(r#"{{"path": "args.x.y", "op": "gt", "value": {at}}}"#));
    lint_within_time_limit(&policy_of(&format!(r#""tools": {{"pay": {{"deny_if": [{rules}]}}}}"#)), &offered);
    let deep = format!("args{}", ".x".repeat(100_000));
    let rule = format!(r#"{{"path": "{deep}", "op": "neq", "value": 1}}"#);
    lint_within_time_limit(
        &policy_of(&format!(r#""tools": {{"pay": {{"deny_if": [{rule}], "require": [{rule}]}}}}"#)),
        &offered,
    );
}
