//! Import of Intercept policies: the result, its notes, and that no call is allowed that the source denies.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "import/intercept.rs"]
mod intercept;
#[path = "import/sources.rs"]
mod sources;

use std::collections::BTreeMap;

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{
    Call, CallTarget, CalledTool, Category, ClientFacts, Decision, DefinitionStatus, Diagnostic, DiagnosticCode,
    DocumentFormat, ImportedPolicy, Policy, decide, import_intercept, parse,
};
use insta::assert_snapshot;
use intercept::Intercept;
use proptest::prelude::*;
use serde_json::{Value, json};
use sources::{calls, sources};

fn imported(text: &str) -> ImportedPolicy {
    import_intercept(text.as_bytes()).expect("a policy of Intercept")
}

fn policy(text: &str) -> Policy {
    parse(imported(text).policy.as_bytes(), DocumentFormat::Json).expect("a policy")
}

fn diagnostics(text: &str) -> Vec<Diagnostic> {
    import_intercept(text.as_bytes()).expect_err("faults")
}

/// Returns the notes, each with the text it refers to.
fn notes(text: &str) -> String {
    let line = |note: &gatelodge_policy::ImportNote| {
        format!("{} `{}`: {}\n", note.kind, &text[note.span.clone()], note.message)
    };
    imported(text).notes.iter().map(line).collect()
}

/// Returns a policy with one rule for the tool `t`.
fn with_rule(rule: &str) -> String {
    format!("version: '1'\ndefault: deny\ntools: {{t: {{rules: [{rule}]}}}}\n")
}

/// State of the gateway between calls: the amount of each counter, in billionths.
#[derive(Default)]
struct Counters(BTreeMap<String, i128>);

/// Decides a call and charges it. An approval request counts as a refusal.
fn passes(policy: &Policy, counters: &mut Counters, tool: &str, arguments: &Value) -> bool {
    passes_text(policy, counters, tool, &arguments.to_string())
}

/// Like [`passes`], for arguments with all their digits.
fn passes_text(policy: &Policy, counters: &mut Counters, tool: &str, arguments: &str) -> bool {
    let document = read(arguments.as_bytes(), &JsonLimits::REQUEST).expect("arguments");
    let tool =
        CalledTool { name: tool, category: Category::Unknown, definition: DefinitionStatus::Accepted, schema: None };
    let call = Call {
        target: CallTarget::Tool(tool),
        arguments: Some(document.root()),
        server: None,
        client: ClientFacts::default(),
        session: None,
    };
    let at = "2026-11-15T12:00:00Z".parse().expect("a time");
    let Decision::Allow(terms) = decide(policy, &call, at) else { return false };
    let used = |charge: &gatelodge_policy::Charge| counters.0.get(&**charge.counter()).copied().unwrap_or_default();
    let has_room =
        |charge: &gatelodge_policy::Charge| used(charge) + charge.amount().billionths() <= charge.max().billionths();
    if terms.approval.is_some() || !terms.charges.iter().all(has_room) {
        return false;
    }
    for charge in &terms.charges {
        *counters.0.entry(charge.counter().to_string()).or_default() += charge.amount().billionths();
    }
    true
}

/// Returns how many of the calls pass, one after the other.
fn count_passes(text: &str, tool: &str, arguments: &[Value]) -> usize {
    let (policy, mut counters) = (policy(text), Counters::default());
    arguments.iter().filter(|arguments| passes(&policy, &mut counters, tool, arguments)).count()
}

const SHOP: &str = r#"
version: "1"
description: "Shop tools"
tools:
  create_payment:
    rules:
      - name: "largest payment"
        conditions:
          - path: "args.amount"
            op: "lte"
            value: 50000
        on_deny: "One payment is at most 500.00"
      - name: "daily spend"
        conditions:
          - path: "state.create_payment.spend"
            op: "lt"
            value: 1000000
        state: {counter: spend, window: day, increment_from: args.amount}
      - name: "reference"
        conditions: [{path: args.reference, op: regex, value: '^R-\d{4}$'}]
  list_payments:
    rules: []
  open_ticket:
    rules:
      - {name: "a few an hour", rate_limit: 5/hour, on_deny: "Slowly"}
      - {name: "not many a day", rate_limit: 20/day}
  delete_shop:
    rules:
      - {name: "never", action: deny, on_deny: "No"} # really
  refund:
    rules:
      - {name: "a person looks", action: require_approval, approval_timeout: 10m}
  "*":
    rules:
      - {name: "global", rate_limit: 60/minute}
approvals: {webhook: {url: "https://example.com"}}
"#;

#[test]
fn a_policy_is_imported_rule_by_rule() {
    assert_snapshot!(imported(SHOP).policy, @r#"
    {
      "version": "1",
      "description": "Shop tools",
      "default": "allow",
      "all_tools": {
        "limits": [
          // global
          { "counter": "_global._rate_minute", "window": "minute", "max": 60, "scope": "server" }
        ]
      },
      "tools": {
        "create_payment": {
          "require": [
            // largest payment
            {
              "conditions": [{ "path": "args.amount", "op": "lte", "value": 50000 }],
              "on_deny": "One payment is at most 500.00"
            },
            // reference
            { "conditions": [{ "path": "args.reference", "op": "regex", "value": "^R-[0-9]{4}$" }] }
          ],
          "limits": [
            // daily spend
            {
              "counter": "create_payment.spend",
              "window": "day",
              "max": 999999,
              "scope": "server",
              "amount": "args.amount"
            }
          ]
        },
        "list_payments": {},
        "open_ticket": {
          "limits": [
            // a few an hour
            {
              "counter": "open_ticket._rate_hour",
              "window": "hour",
              "max": 5,
              "scope": "server",
              "on_deny": "Slowly"
            },
            // not many a day
            { "counter": "open_ticket._rate_day", "window": "day", "max": 20, "scope": "server" }
          ]
        },
        "delete_shop": {
          // never
          "action": "deny",
          "reason": "No"
        },
        "refund": {
          // a person looks
          "action": "approve"
        }
      }
    }
    "#);
}

#[test]
fn changed_meaning_is_noted() {
    assert_snapshot!(notes(SHOP), @r#"
    dropped ``: a comment is not imported; copy what you want to keep by hand
    exact ``: without `default`, tools that are not listed are allowed; the import states that explicitly: consider `deny`
    changed `50000`: numbers were compared as floats with about 16 digits; here every digit counts. Numbers that are equal as floats, such as 10.0000000000000001 and 10, satisfied `lte`, `gte`, `eq` and `in`, and now fail them
    exact `spend`: `lt 1000000` let the counter reach 999999, which is now `max`
    changed `spend`: amounts were truncated to integers, and negative ones decreased the counter; here decimals count in full and negative amounts are denied
    changed `spend`: counters were shared by all agents, so the scope is `server`; write `grant` for one counter per grant. Here, a call that returns an error still counts
    exact `'^R-\d{4}$'`: `^R-\d{4}$` is written as `^R-[0-9]{4}$`, which matches the same texts here
    dropped `10m`: `approval_timeout` is not imported; the timeout is configured in the gateway
    exact `"*"`: the rules of `*` become `all_tools`; as before, they do not allow tools that are not listed
    dropped `approvals`: `approvals` is not imported; approvers are configured in the gateway
    "#);
}

#[test]
fn all_diagnostics_are_reported_at_once() {
    let text = r#"
version: "2"
default: maybe
hide: ["", a, a]
extra: 1
tools:
  a:
    rules:
      - conditions: [{path: args.x, op: like, value: 1}]
      - {name: b, action: allow}
      - {name: c, action: deny, conditions: [{path: args.x, op: eq, value: 1}]}
      - {name: d}
      - {name: e, conditions: [{path: arg.x, op: eq, value: 1}]}
      - {name: f, conditions: [{path: args.x, op: in, value: x}, {path: args.x, op: lt, value: "1"}]}
      - {name: g, conditions: [{path: args.x, op: exists, value: 1}, {path: args.x, op: regex, value: "a("}]}
      - {name: h, conditions: [{path: state.a.n, op: lt, value: 1}], state: {counter: "", window: week}}
      - {name: i, conditions: [{path: state.b.n, op: lt, value: 1}]}
      - {name: j, rate_limit: 5/week}
      - {name: k, rate_limit: 0/hour}
      - {name: l, rate_limit: 5/hour, state: {counter: m, window: hour, increment_from: x, increment: -1}}
      - {name: m, rate_limit: 5/hour, action: deny}
      - {name: n, rate_limit: 5/day}
      - {name: o, rate_limit: 6/day}
      - {name: p, rate_limit: 6/minute, on_denny: x}
"#;
    let diagnostic_lines: String = diagnostics(text)
        .iter()
        .map(|diagnostic| {
            format!(
                "{} `{}`: {}\n",
                diagnostic.code,
                &text[diagnostic.span.clone()].lines().next().unwrap_or_default(),
                diagnostic.message
            )
        })
        .collect();
    assert_snapshot!(diagnostic_lines, @r#"
    unknown-word `"2"`: unknown version `2`
    unknown-word `maybe`: `maybe` is not a valid value for `default`
    empty-text `""`: an entry of `hide` is empty
    repeated-key `a`: `a` is hidden twice
    unknown-field `extra`: `extra` is not a field of a policy; Intercept ignores it
    missing-field `c`: `name` is missing
    unknown-word `like`: `like` is not a valid value for `op`
    unknown-word `allow`: `allow` is not a valid value for `action`
    field-clash `[{path: args.x, op: eq, value: 1}]`: a rule with `action: deny` has conditions
    empty-list `{`: the rule `d` has no conditions
    bad-path `arg.x`: `arg.x` is not a valid path
    wrong-type `x`: the value of `in` must be a list, not a string
    wrong-type `"1"`: the value of `lt` must be a number, not a string
    wrong-type `1`: the value of `exists` must be true or false, not a number
    bad-regex `"a("`: this is not a regular expression: unclosed group
    bad-path `state.a.n`: no rule increments `state.a.n`
    missing-field `{`: `counter` is missing
    bad-window `week`: `week` is not a window
    bad-path `state.b.n`: no rule increments `state.b.n`
    bad-window `5/week`: `week` is not a window
    bad-number `0/hour`: `0/hour` is not a rate
    field-clash `5/hour`: `rate_limit` cannot be combined with `conditions` or `state`
    bad-path `x`: `x` is not a path into the arguments
    bad-number `-1`: `increment` must be a whole number above 0
    field-clash `5/hour`: `rate_limit` has no effect in a rule that denies every call
    counter-clash `6/day`: the counter `a._rate_day` is incremented twice
    unknown-field `on_denny`: `on_denny` is not a field of a rule; Intercept ignores it
    "#);
}

#[test]
fn a_result_that_would_not_load_is_a_diagnostic() {
    let text = "version: '1'\ntools: {'a*c*': {}, 'a*b*': {}}";
    let diagnostics = diagnostics(text);
    assert_eq!(diagnostics[0].code, DiagnosticCode::TiedGlobs);
    assert!(diagnostics[0].message.contains("would not load"), "{}", diagnostics[0].message);
}

#[test]
fn less_than_a_bound_becomes_at_most_one_less() {
    let rule = "{name: r, conditions: [{path: state.t.n, op: OP, value: 3}], state: {counter: n, window: day}}";
    let calls = vec![json!({}); 9];
    assert_eq!(count_passes(&with_rule(&rule.replace("OP", "lt")), "t", &calls), 2);
    assert_eq!(count_passes(&with_rule(&rule.replace("OP", "lte")), "t", &calls), 3);
}

#[test]
fn a_call_that_counts_several_times_uses_up_the_limit_sooner() {
    let rule = "{name: r, conditions: [{path: state.t.n, op: lte, value: 10}], state: {counter: n, window: day, increment: 3}}";
    assert_eq!(count_passes(&with_rule(rule), "t", &vec![json!({}); 9]), 3);
}

#[test]
fn a_counter_with_a_maximum_of_zero_denies_every_call() {
    let rule = "{name: r, conditions: [{path: state.t.n, op: lt, value: 1}], state: {counter: n, window: day}}";
    assert_eq!(count_passes(&with_rule(rule), "t", &[json!({})]), 0);
}

#[test]
fn counters_of_the_same_name_stay_distinct() {
    let rule = |tool: &str| {
        format!(
            "{{rules: [{{name: r, conditions: [{{path: state.{tool}.n, op: lte, value: 1}}], state: {{counter: n, window: day}}}}]}}"
        )
    };
    let text = format!("version: '1'\ntools: {{a: {}, b: {}}}", rule("a"), rule("b"));
    let (policy, mut counters) = (policy(&text), Counters::default());
    assert!(passes(&policy, &mut counters, "a", &json!({})));
    assert!(passes(&policy, &mut counters, "b", &json!({})));
    assert!(!passes(&policy, &mut counters, "a", &json!({})));
}

#[test]
fn the_wildcard_counts_all_tools_together_and_lists_none() {
    let text = "version: '1'\ndefault: deny\ntools: {a: {}, b: , '*': {rules: [{name: r, rate_limit: 2/day}]}}";
    let (policy, mut counters) = (policy(text), Counters::default());
    assert!(!passes(&policy, &mut counters, "c", &json!({})));
    let tools = ["a", "b", "a"].map(|tool| passes(&policy, &mut counters, tool, &json!({})));
    assert_eq!(tools, [true, true, false]);
}

#[test]
fn a_counter_that_cannot_be_expressed_denies() {
    for condition in [
        "{path: state.t.n, op: gte, value: 1}",
        "{path: state.t.n, op: exists, value: true}",
        "{path: state.t.m, op: lt, value: 5}",
    ] {
        let reader = format!("{{name: reads, conditions: [{condition}], state: {{counter: n, window: day}}}}");
        let writer = "{name: m, conditions: [{path: state.t.m, op: lt, value: 9}], state: {counter: m, window: day}}";
        let text = with_rule(&format!("{reader}, {writer}"));
        assert_eq!(count_passes(&text, "t", &[json!({})]), 0, "{condition}");
        assert!(notes(&text).contains("denies every call here"), "{condition}");
    }
}

#[test]
fn approval_is_required_for_every_call_whatever_the_conditions() {
    let text = with_rule("{name: r, action: require_approval, conditions: [{path: args.x, op: gt, value: 5}]}");
    assert_eq!(count_passes(&text, "t", &[json!({"x": 1}), json!({"x": 9}), json!({})]), 0);
    assert!(imported(&text).policy.contains(r#""action": "approve""#));
    assert!(notes(&text).contains("approve_if"));
}

#[test]
fn a_deny_wins_over_an_approval() {
    let text = with_rule("{name: a, action: require_approval, on_deny: ask}, {name: b, action: deny, on_deny: never}");
    assert!(
        imported(&text).policy.contains(
            r#""action": "deny",
      "reason": "never""#
        ),
        "{}",
        imported(&text).policy
    );
}

#[test]
fn a_name_with_a_star_never_allows_a_tool() {
    let rules = "{'do_*': {rules: []}, '*': {rules: []}}";
    let denied = policy(&format!("version: '1'\ndefault: deny\ntools: {rules}"));
    assert!(!passes(&denied, &mut Counters::default(), "do_it", &json!({})));
    let stricter = policy("version: '1'\ntools: {'do_*': {rules: [{name: r, action: deny}]}}");
    assert!(!passes(&stricter, &mut Counters::default(), "do_it", &json!({})));
}

#[test]
fn classes_of_a_regex_stay_ascii() {
    let text = with_rule(r"{name: r, conditions: [{path: args.x, op: regex, value: '^\d$'}]}");
    assert_eq!(count_passes(&text, "t", &[json!({"x": "5"}), json!({"x": "٥"})]), 1);
}

#[test]
fn list_of_several_types_is_not_matched_by_an_equal_value_of_another_type() {
    let text = with_rule(r#"{name: r, conditions: [{path: args.x, op: not_in, value: ["5", 7]}]}"#);
    assert_eq!(count_passes(&text, "t", &[json!({"x": 5}), json!({"x": "7"})]), 0);
}

#[test]
fn an_amount_is_required_even_if_it_is_not_limited() {
    let rule = "{name: r, conditions: [{path: args.x, op: exists, value: true}], \
                state: {counter: n, window: day, increment_from: args.n}}";
    assert_eq!(count_passes(&with_rule(rule), "t", &[json!({"x": 1}), json!({"x": 1, "n": 2})]), 1);
}

/// These are equal as floats, so Intercept refuses each of them.
#[test]
fn numbers_that_are_equal_as_floats_pass_only_with_a_note() {
    for (condition, near) in [
        ("{path: args.x, op: lt, value: 10}", "9.99999999999999999"),
        ("{path: args.x, op: gt, value: 9007199254740992}", "9007199254740993"),
        ("{path: args.x, op: neq, value: 0.1}", "0.10000000000000000001"),
        ("{path: args.x, op: not_in, value: [1, 2]}", "2.00000000000000000001"),
    ] {
        let text = with_rule(&format!("{{name: r, conditions: [{condition}]}}"));
        let arguments = format!("{{\"x\": {near}}}");
        assert!(passes_text(&policy(&text), &mut Counters::default(), "t", &arguments), "{condition}");
        assert!(notes(&text).contains("looser `"), "{condition}: {}", notes(&text));
    }
    for (condition, near) in [
        ("{path: args.x, op: lte, value: 10}", "10.00000000000000001"),
        ("{path: args.x, op: gte, value: 9007199254740993}", "9007199254740992"),
        ("{path: args.x, op: eq, value: 0.1}", "0.10000000000000000001"),
        ("{path: args.x, op: in, value: [1, 2]}", "2.00000000000000000001"),
    ] {
        let text = with_rule(&format!("{{name: r, conditions: [{condition}]}}"));
        let arguments = format!("{{\"x\": {near}}}");
        assert!(!passes_text(&policy(&text), &mut Counters::default(), "t", &arguments), "{condition}");
        let notes = notes(&text);
        assert!(notes.contains("compared as floats") && !notes.contains("looser"), "{condition}: {notes}");
    }
    let texts = with_rule("{name: r, conditions: [{path: args.x, op: neq, value: a}]}");
    assert!(!notes(&texts).contains("floats"), "{}", notes(&texts));
}

#[test]
fn rounded_large_amounts_are_noted() {
    let rule = |bound: &str| {
        with_rule(&format!(
            "{{name: r, conditions: [{{path: state.t.n, op: lte, value: {bound}}}], state: {{counter: n, window: day, increment_from: args.x}}}}"
        ))
    };
    assert!(notes(&rule("123456789012345678")).contains("looser `n`"), "{}", notes(&rule("123456789012345678")));
    assert!(!notes(&rule("1000000")).contains("looser"), "{}", notes(&rule("1000000")));
}

#[test]
fn unsupported_regex_flag_denies_and_is_noted() {
    let text = with_rule("{name: r, conditions: [{path: args.x, op: regex, value: '(?x)^a b$'}]}");
    assert_eq!(count_passes(&text, "t", &[json!({"x": "ab"}), json!({"x": "a b"})]), 0);
    assert!(notes(&text).contains("which Intercept does not support"), "{}", notes(&text));
}

#[test]
fn a_note_gives_the_true_reason() {
    let diagnostic_lines = notes(&with_rule(r"{name: r, conditions: [{path: args.x, op: regex, value: 'a{,2}'}]}"));
    assert!(diagnostic_lines.contains("matches the same") && !diagnostic_lines.contains("ASCII"), "{diagnostic_lines}");
    let diagnostic_lines = notes(&with_rule("{name: r, conditions: [{path: args.x..y, op: eq, value: a}]}"));
    assert!(diagnostic_lines.contains("an empty key") && !diagnostic_lines.contains("brackets"), "{diagnostic_lines}");
}

#[test]
fn brackets_in_a_path_stay_part_of_a_key() {
    let text = with_rule(r#"{name: r, conditions: [{path: 'args.a[0].b c', op: eq, value: x}]}"#);
    assert_eq!(count_passes(&text, "t", &[json!({"a": [{"b c": "x"}]}), json!({"a[0]": {"b c": "x"}})]), 1);
}

#[test]
fn the_name_of_a_rule_cannot_escape_from_its_comment() {
    let text = with_rule(r#"{name: "x\n\"action\": \"allow\" /*", rate_limit: 1/day}"#);
    assert!(imported(&text).policy.contains("// x \"action\": \"allow\" /*\n"), "{}", imported(&text).policy);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_call_that_intercept_refuses_does_not_pass(source in sources(), calls in calls()) {
        let policy = policy(&source.to_string());
        let (mut counters, mut there) = (Counters::default(), Intercept::new(source));
        for (tool, arguments) in calls {
            // Both have the same history: a call that this policy refuses is charged in neither.
            if passes(&policy, &mut counters, tool, &arguments) {
                prop_assert!(there.passes(tool, &arguments), "{tool} {arguments}");
            }
        }
    }
}
