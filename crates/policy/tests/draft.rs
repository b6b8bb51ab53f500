//! Drafted policies: they load, allow all they were drafted from, and nothing in them could be left out.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{
    Call, CallTarget, CalledTool, Category, ClientFacts, CompletionReference, Decision, DefinitionStatus,
    DocumentFormat, DraftBuilder, DraftPolicy, ObservedCall, Policy, decide, format, parse,
};
use insta::assert_snapshot;
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;

/// A deed that owns its texts.
#[derive(Debug, Clone)]
struct Done {
    method: &'static str,
    target: Option<String>,
    at: i64,
    arguments: String,
    is_logged: bool,
    objection: Option<&'static str>,
}

/// At noon of a day, and so many seconds.
const NOON: i64 = 1_794_744_000;

fn done(method: &'static str, target: &str, at: i64, arguments: &str) -> Done {
    let target = Some(target.to_owned()).filter(|target| !target.is_empty());
    Done { method, target, at: NOON + at, arguments: arguments.to_owned(), is_logged: true, objection: None }
}

fn draft(all: &[Done]) -> DraftPolicy {
    let mut draft = DraftBuilder::default();
    for done in all {
        let document = read(done.arguments.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
        let names: Vec<String> =
            document.root().members().filter_map(|(key, _)| key.as_str().map(|key| key.into_owned())).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        draft.add(&ObservedCall {
            method: done.method,
            target: done.target.as_deref(),
            at: Timestamp::from_second(done.at).expect("a time"),
            argument_names: &names,
            arguments: done.is_logged.then(|| document.root()),
            reason_code: done.objection,
        });
    }
    draft.write("what grant `ci` did at `books`").expect("a policy")
}

fn load(text: &str) -> Policy {
    parse(text.as_bytes(), DocumentFormat::Json).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"))
}

fn judge(policy: &Policy, done: &Done) -> Decision {
    let document = read(done.arguments.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
    let target = done.target.as_deref().unwrap_or_default();
    let subject = match done.method {
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
    decide(policy, &call, Timestamp::from_second(done.at).expect("a time"))
}

fn allows(policy: &Policy, done: &Done) -> bool {
    matches!(judge(policy, done), Decision::Allow(terms) if terms.approval.is_none())
}

/// Whether the draft says that it does not cover this.
fn is_left_out(drafted: &DraftPolicy, done: &Done) -> bool {
    let target = done.target.as_ref().map(|target| format!(" {target}")).unwrap_or_default();
    let what = format!("{}{target}", done.method);
    drafted.uncovered.iter().any(|left| left.description == what)
}

/// The text without its comments, which all stand on lines of their own.
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
        all.push(done("tools/call", "create_charge", call * 20, &arguments));
    }
    all.push(Done { objection: Some("not_listed"), ..done("tools/call", "list_charges", 90_000, "{}") });
    all.push(Done { objection: Some("deny_if"), ..done("tools/call", "list_charges", 90_000, "{}") });
    all.push(done("resources/read", "note://desk/1", 5, "{}"));
    all.push(done("resources/subscribe", "note://desk/1", 65, "{}"));
    all.push(done("prompts/get", "greet", 5, r#"{"x.name":"ann"}"#));
    all.push(done("completion/complete", "greet", 5, "{}"));
    all.push(done("completion/complete", "other", 5, "{}"));
    all.push(done("vendor/status", "", 7, "{}"));
    all.push(done("elicitation/create", "", 7, "{}"));
    all.push(done("tasks/get", "", 7, "{}"));
    all.push(done("tools/call", "get_*", 7, "{}"));
    all.push(done("tools/list", "", 7, "{}"));
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
fn foreign_text_cannot_leave_its_comment_or_hide_in_it() {
    let name = "x\n\"evil\": {}, // \u{202e}*/";
    let arguments = serde_json::json!({ name: "a\u{2028}b" }).to_string();
    let all: Vec<Done> = (0..4).map(|at| done("tools/call", "odd\r\n\u{200b}", at, &arguments)).collect();
    let mut drafted = draft(&all);
    assert_eq!(bare(&drafted.policy)["tools"].as_object().expect("tools").len(), 1);
    assert!(allows(&load(&drafted.policy), &all[0]));
    assert!(drafted.policy.is_ascii(), "{}", drafted.policy);
    drafted.policy = drafted.policy.replace("// \"require\"", "\"require\"");
    assert!(allows(&load(&drafted.policy), &all[0]), "{}", drafted.policy);
}

#[test]
fn values_are_offered_only_where_every_call_had_one_of_few_and_no_secret_is_among_them() {
    let offers = |arguments: &[&str]| {
        let all: Vec<Done> =
            (0..4).flat_map(|_| arguments.iter().map(|text| done("tools/call", "t", 0, text))).collect();
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
    let mut all: Vec<Done> = (0..8).map(|at| done("tools/call", "t", at, r#"{"a":"x"}"#)).collect();
    all[3].is_logged = false;
    assert!(draft(&all).blocks[0].suggested_conditions.is_empty(), "one call did not say");
    assert!(draft(&all[..3]).blocks[0].suggested_conditions.is_empty(), "three calls say little");
}

#[test]
fn too_much_for_a_policy_is_refused() {
    let mut draft = DraftBuilder::default();
    let at = Timestamp::from_second(NOON).expect("a time");
    for number in 0..100_001 {
        let uri = format!("n:{number}");
        let (method, target) = ("resources/read", Some(uri.as_str()));
        draft.add(&ObservedCall { method, target, at, argument_names: &[], arguments: None, reason_code: None });
    }
    let faults = draft.write("much").expect_err("too much");
    assert_eq!(faults[0].code.as_str(), "too-large");
}

fn deeds() -> impl Strategy<Value = Vec<Done>> {
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
        Done { method, target, at: NOON + at, arguments: arguments.to_owned(), is_logged, objection }
    });
    proptest::collection::vec(call, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_draft_loads_in_the_usual_layout_and_allows_all_it_was_drafted_from(all in deeds()) {
        let drafted = draft(&all);
        let policy = load(&drafted.policy);
        prop_assert_eq!(&format(drafted.policy.as_bytes(), DocumentFormat::Json).expect("JSON").text, &drafted.policy);
        for done in &all {
            // By the log a completion of a resource looks like one of a prompt.
            let is_completion = done.method == "completion/complete";
            prop_assert!(
                allows(&policy, done) != is_left_out(&drafted, done) || is_completion, "{:?}\n{}", done, drafted.policy
            );
        }
        prop_assert!(!drafted.policy.contains("s3cret"));
    }

    #[test]
    fn a_draft_with_what_it_offers_still_allows_all(all in deeds()) {
        let drafted = draft(&all);
        let policy = load(&drafted.policy.replace("// \"require\"", "\"require\""));
        for done in all.iter().filter(|done| done.method != "completion/complete") {
            prop_assert!(allows(&policy, done) != is_left_out(&drafted, done), "{:?}\n{}", done, drafted.policy);
        }
    }

    #[test]
    fn no_block_of_a_draft_could_be_left_out(all in deeds()) {
        let drafted = draft(&all);
        let whole = bare(&drafted.policy);
        for used in &drafted.blocks {
            let mut less = whole.clone();
            let part = less[used.section.as_str()].as_object_mut().expect("a part");
            prop_assert!(part.remove(&used.name).is_some(), "{}", used.name);
            let less = load(&less.to_string());
            let policy = load(&drafted.policy);
            prop_assert!(all.iter().any(|done| allows(&policy, done) && !allows(&less, done)), "{:?}", used);
        }
        let blocks: usize = whole.as_object().expect("an object").values().filter_map(|part| part.as_object()).map(|part| part.len()).sum();
        prop_assert_eq!(blocks, drafted.blocks.len());
    }

    #[test]
    fn the_rates_of_a_draft_have_room_for_all_it_was_drafted_from(all in deeds()) {
        let drafted = draft(&all);
        let policy = load(&drafted.policy);
        let mut counted: BTreeMap<(String, i64), i128> = BTreeMap::new();
        for done in &all {
            let Decision::Allow(terms) = judge(&policy, done) else { continue };
            for charge in &terms.charges {
                prop_assert_eq!(charge.window().word(), Some("hour"));
                let used = counted.entry((charge.counter().to_string(), done.at / 3_600)).or_default();
                *used += 1;
                prop_assert!(*used * 2 <= charge.max().to_string().parse::<i128>().expect("a number"));
            }
        }
    }

    #[test]
    fn the_order_of_the_log_does_not_matter(all in deeds()) {
        let turned: Vec<Done> = all.iter().rev().cloned().collect();
        prop_assert_eq!(draft(&turned), draft(&all));
    }
}
