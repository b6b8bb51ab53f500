//! Drafted policies: they load, allow every recorded call, and contain no superfluous block.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{
    Call, CallLogDraft, CallLogDraftBuilder, CallTarget, CalledTool, Category, ClientFacts, CompletionReference,
    Decision, DefinitionStatus, DocumentFormat, ObservedCall, Policy, decide, format, parse,
};
use insta::assert_snapshot;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;

/// Owned version of [`ObservedCall`].
#[derive(Debug, Clone)]
struct RecordedCall {
    method: &'static str,
    target: Option<String>,
    at: i64,
    arguments: String,
    is_logged: bool,
    objection: Option<&'static str>,
}

/// Noon of a day, in seconds. Times in the tests are relative to it.
const NOON: i64 = 1_794_744_000;

fn recorded_call(method: &'static str, target: &str, at: i64, arguments: &str) -> RecordedCall {
    let target = Some(target.to_owned()).filter(|target| !target.is_empty());
    RecordedCall { method, target, at: NOON + at, arguments: arguments.to_owned(), is_logged: true, objection: None }
}

fn draft(all: &[RecordedCall]) -> CallLogDraft {
    let mut draft = CallLogDraftBuilder::default();
    for recorded in all {
        let document = read(recorded.arguments.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
        let names: Vec<String> =
            document.root().members().filter_map(|(key, _)| key.as_str().map(|key| key.into_owned())).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        draft.add(&ObservedCall {
            method: recorded.method,
            target: recorded.target.as_deref(),
            at: Timestamp::from_second(recorded.at).expect("a time"),
            argument_names: &names,
            arguments: recorded.is_logged.then(|| document.root()),
            reason_code: recorded.objection,
        });
    }
    draft.write("what grant `ci` did at `books`").expect("a policy")
}

fn load(text: &str) -> Policy {
    parse(text.as_bytes(), DocumentFormat::Json).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}\n{text}"))
}

fn decide_call(policy: &Policy, recorded: &RecordedCall) -> Decision {
    let document = read(recorded.arguments.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
    let target = recorded.target.as_deref().unwrap_or_default();
    let subject = match recorded.method {
        "tools/call" => CallTarget::Tool(CalledTool {
            name: target,
            category: Category::Unknown,
            definition: DefinitionStatus::Accepted,
            schema: None,
        }),
        "prompts/get" => CallTarget::Prompt { name: target },
        "completion/complete" => CallTarget::Completion(CompletionReference::Prompt(target)),
        method if method.starts_with("resources/") => CallTarget::Resource { uri: target },
        name => CallTarget::Method { name },
    };
    let call = Call {
        target: subject,
        arguments: Some(document.root()),
        server: None,
        client: ClientFacts::default(),
        session: None,
    };
    decide(policy, &call, Timestamp::from_second(recorded.at).expect("a time"))
}

fn allows(policy: &Policy, recorded: &RecordedCall) -> bool {
    matches!(decide_call(policy, recorded), Decision::Allow(terms) if terms.approval.is_none())
}

/// Returns whether the draft reports that it does not cover a call.
fn is_left_out(drafted: &CallLogDraft, recorded: &RecordedCall) -> bool {
    let target = recorded.target.as_ref().map(|target| format!(" {target}")).unwrap_or_default();
    let what = format!("{}{target}", recorded.method);
    drafted.uncovered.iter().any(|left| left.description == what)
}

/// Returns the policy without comments, which are all on separate lines.
fn bare(text: &str) -> serde_json::Value {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    serde_json::from_str(&lines.join("\n")).expect("JSON")
}

#[test]
fn draft_reports_counts_times_and_arguments() {
    let mut all = Vec::new();
    for call in 0..12 {
        let currency = if call % 3 == 0 { "usd" } else { "eur" };
        let note = if call == 5 { r#","note":"hello""# } else { "" };
        let arguments = format!(r#"{{"amount":{call},"currency":"{currency}","api_key":"k"{note}}}"#);
        all.push(recorded_call("tools/call", "create_charge", call * 20, &arguments));
    }
    all.push(RecordedCall {
        objection: Some("not_listed"),
        ..recorded_call("tools/call", "list_charges", 90_000, "{}")
    });
    all.push(RecordedCall { objection: Some("deny_if"), ..recorded_call("tools/call", "list_charges", 90_000, "{}") });
    all.push(recorded_call("resources/read", "note://desk/1", 5, "{}"));
    all.push(recorded_call("resources/subscribe", "note://desk/1", 65, "{}"));
    all.push(recorded_call("prompts/get", "greet", 5, r#"{"x.name":"ann"}"#));
    all.push(recorded_call("completion/complete", "greet", 5, "{}"));
    all.push(recorded_call("completion/complete", "other", 5, "{}"));
    all.push(recorded_call("vendor/status", "", 7, "{}"));
    all.push(recorded_call("elicitation/create", "", 7, "{}"));
    all.push(recorded_call("tasks/get", "", 7, "{}"));
    all.push(recorded_call("tools/call", "get_*", 7, "{}"));
    all.push(recorded_call("tools/list", "", 7, "{}"));
    let drafted = draft(&all);
    assert_snapshot!(drafted.policy);
    let left: Vec<String> =
        drafted.uncovered.iter().map(|left| format!("{} x{}: {}", left.description, left.calls, left.reason)).collect();
    assert_snapshot!(left.join("\n"), @r"
    completion/complete other x1: a completion is allowed if its prompt or resource is, and neither was used
    tasks/get x1: a task follows the rule of the call that created it
    tools/call get_* x1: a policy would read the `*` in its name as a wildcard
    ");
}

#[test]
fn recorded_text_cannot_escape_from_its_comment_or_hide_in_it() {
    let name = "x\n\"evil\": {}, // \u{202e}*/";
    let arguments = serde_json::json!({ name: "a\u{2028}b" }).to_string();
    let all: Vec<RecordedCall> =
        (0..4).map(|at| recorded_call("tools/call", "odd\r\n\u{200b}", at, &arguments)).collect();
    let mut drafted = draft(&all);
    assert_eq!(bare(&drafted.policy)["tools"].as_object().expect("tools").len(), 1);
    assert!(allows(&load(&drafted.policy), &all[0]));
    assert!(drafted.policy.is_ascii(), "{}", drafted.policy);
    drafted.policy = drafted.policy.replace("// \"require\"", "\"require\"");
    assert!(allows(&load(&drafted.policy), &all[0]), "{}", drafted.policy);
}

#[test]
fn values_are_suggested_only_if_few_occur_and_none_is_a_secret() {
    let offers = |arguments: &[&str]| {
        let all: Vec<RecordedCall> =
            (0..4).flat_map(|_| arguments.iter().map(|text| recorded_call("tools/call", "t", 0, text))).collect();
        draft(&all).blocks[0].suggested_conditions.join(" ")
    };
    assert_snapshot!(offers(&[r#"{"a":"x"}"#, r#"{"a":"y"}"#]), @r#"{ "path": "args.a", "op": "in", "value": ["x", "y"] }"#);
    assert_snapshot!(offers(&[r#"{"a":1,"b.c":true}"#]), @r#"{ "path": "args.a", "op": "in", "value": [1] } { "path": "args[\"b.c\"]", "op": "in", "value": [true] }"#);
    for none in [
        &[r#"{"a":"x"}"#, "{}"][..],
        &[r#"{"a":"x"}"#, r#"{"a":1}"#],
        &[r#"{"a":null}"#],
        &[r#"{"a":["x"]}"#],
        &[r#"{"a":"my ***"}"#],
        &[r#"{"Password":"x","authToken":"x","privateKey":"x","session_id":"x"}"#],
        &[r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#, r#"{"a":4}"#, r#"{"a":5}"#, r#"{"a":6}"#],
    ] {
        assert_eq!(offers(none), "", "{none:?}");
    }
    let mut all: Vec<RecordedCall> = (0..8).map(|at| recorded_call("tools/call", "t", at, r#"{"a":"x"}"#)).collect();
    all[3].is_logged = false;
    assert!(draft(&all).blocks[0].suggested_conditions.is_empty(), "one call did not say");
    assert!(draft(&all[..3]).blocks[0].suggested_conditions.is_empty(), "three calls say little");
}

#[test]
fn a_draft_larger_than_a_policy_is_refused() {
    let mut draft = CallLogDraftBuilder::default();
    let at = Timestamp::from_second(NOON).expect("a time");
    for number in 0..100_001 {
        let uri = format!("n:{number}");
        let (method, target) = ("resources/read", Some(uri.as_str()));
        draft.add(&ObservedCall { method, target, at, argument_names: &[], arguments: None, reason_code: None });
    }
    let diagnostics = draft.write("much").expect_err("too much");
    assert_eq!(diagnostics[0].code.as_str(), "too-large");
}

fn recorded_calls() -> impl Strategy<Value = Vec<RecordedCall>> {
    let names = vec!["read", "pay", "get_*", "a\"b", "line\nbreak", "Ünï", "note://a/../b", "note://a/1", "", " "];
    let methods = vec![
        "tools/call",
        "tools/call",
        "tools/call",
        "resources/read",
        "resources/unsubscribe",
        "prompts/get",
        "completion/complete",
        "vendor/status",
        "odd*method",
        "tasks/get",
        "roots/list",
        "sampling/createMessage",
        "tools/list",
    ];
    let arguments =
        vec![r#"{}"#, r#"{"a":"x","b":1}"#, r#"{"a":"y","b":1.0,"token":"s3cret"}"#, r#"{"a":"x","q\n\"]":true}"#];
    let call = (select(methods), select(names), 0..20_000_i64, select(arguments), any::<bool>(), any::<bool>());
    let call = call.prop_map(|(method, name, at, arguments, is_logged, is_refused)| {
        let has_target =
            ["tools/", "resources/", "prompts/", "completion/"].iter().any(|part| method.starts_with(part));
        let target = (has_target && method != "tools/list").then(|| name.to_owned());
        let objection = is_refused.then_some("require");
        RecordedCall { method, target, at: NOON + at, arguments: arguments.to_owned(), is_logged, objection }
    });
    proptest::collection::vec(call, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_draft_loads_in_canonical_layout_and_allows_every_recorded_call(all in recorded_calls()) {
        let drafted = draft(&all);
        let policy = load(&drafted.policy);
        prop_assert_eq!(&format(drafted.policy.as_bytes(), DocumentFormat::Json).expect("JSON").text, &drafted.policy);
        for recorded in &all {
            // In the log, a completion of a resource looks like one of a prompt.
            let is_completion = recorded.method == "completion/complete";
            prop_assert!(
                allows(&policy, recorded) != is_left_out(&drafted, recorded) || is_completion, "{:?}\n{}", recorded, drafted.policy
            );
        }
        prop_assert!(!drafted.policy.contains("s3cret"));
    }

    #[test]
    fn a_draft_with_its_suggestions_allows_every_recorded_call(all in recorded_calls()) {
        let drafted = draft(&all);
        let policy = load(&drafted.policy.replace("// \"require\"", "\"require\""));
        for recorded in all.iter().filter(|recorded| recorded.method != "completion/complete") {
            prop_assert!(allows(&policy, recorded) != is_left_out(&drafted, recorded), "{:?}\n{}", recorded, drafted.policy);
        }
    }

    #[test]
    fn every_block_of_a_draft_is_needed(all in recorded_calls()) {
        let drafted = draft(&all);
        let whole = bare(&drafted.policy);
        for used in &drafted.blocks {
            let mut less = whole.clone();
            let part = less[used.section.as_str()].as_object_mut().expect("a part");
            prop_assert!(part.remove(&used.name).is_some(), "{}", used.name);
            let less = load(&less.to_string());
            let policy = load(&drafted.policy);
            prop_assert!(all.iter().any(|recorded| allows(&policy, recorded) && !allows(&less, recorded)), "{:?}", used);
        }
        let blocks: usize = whole.as_object().expect("an object").values().filter_map(|part| part.as_object()).map(|part| part.len()).sum();
        prop_assert_eq!(blocks, drafted.blocks.len());
    }

    #[test]
    fn the_rate_limits_of_a_draft_allow_every_recorded_call(all in recorded_calls()) {
        let drafted = draft(&all);
        let policy = load(&drafted.policy);
        let mut counted: BTreeMap<(String, i64), i128> = BTreeMap::new();
        for recorded in &all {
            let Decision::Allow(terms) = decide_call(&policy, recorded) else { continue };
            for charge in &terms.charges {
                prop_assert_eq!(charge.window().word(), Some("hour"));
                let used = counted.entry((charge.counter().to_string(), recorded.at / 3_600)).or_default();
                *used += 1;
                prop_assert!(*used * 2 <= charge.max().to_string().parse::<i128>().expect("a number"));
            }
        }
    }

    #[test]
    fn the_order_of_the_log_does_not_matter(all in recorded_calls()) {
        let turned: Vec<RecordedCall> = all.iter().rev().cloned().collect();
        prop_assert_eq!(draft(&turned), draft(&all));
    }
}
