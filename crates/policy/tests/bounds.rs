//! Size limits of documents: a document at the limit loads, and one more is refused with its location.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{CallFile, CaseFile, DiagnosticCode, DocumentFormat, explain, parse};
use support::place;

/// Formats each diagnostic as `code line:column`.
fn diagnostics(text: &str, format: DocumentFormat) -> Vec<String> {
    let line = |diagnostic: &gatelodge_policy::Diagnostic| {
        format!("{} {}", diagnostic.code, place(text.as_bytes(), diagnostic.span.start))
    };
    parse(text.as_bytes(), format).err().unwrap_or_default().iter().map(line).collect()
}

fn json(text: &str) -> Vec<String> {
    diagnostics(text, DocumentFormat::Json)
}

const NONE: [&str; 0] = [];
const HEAD: &str = r#"{"version":"1","default":"deny","#;

/// Returns a policy with a part of `lines` lines, each made from its number.
fn document(open: &str, lines: usize, line: &dyn Fn(usize) -> String, close: &str) -> String {
    let lines: Vec<String> = (0..lines).map(line).collect();
    format!("{HEAD}{open}\n{}\n{close}}}", lines.join(",\n"))
}

/// Returns the diagnostic at the bracket that opens the lines of such a document.
fn too_large(open: &str) -> [String; 1] {
    [format!("too-large 1:{}", HEAD.len() + open.len())]
}

#[test]
fn a_hundred_limits_fit_in_a_block_and_one_more_is_refused() {
    let limit = |at: usize| format!(r#"{{"counter":"c{at}","window":"day","max":1}}"#);
    for (open, close) in [
        (r#""all_tools":{"limits":["#, "]}"),
        (r#""tools":{"a":{"limits":["#, "]}}"),
        (r#""categories":{"read":{"limits":["#, "]}}"),
        (r#""resources":{"*":{"limits":["#, "]}}"),
        (r#""prompts":{"p":{"limits":["#, "]}}"),
    ] {
        assert_eq!(json(&document(open, 100, &limit, close)), NONE, "{open}");
        assert_eq!(json(&document(open, 101, &limit, close)), too_large(open), "{open}");
    }
}

#[test]
fn five_thousand_globs_fit_in_a_map_and_one_more_is_refused() {
    let (name, block) = (|at: usize| format!(r#""t{at:05}*""#), |at: usize| format!(r#""t{at:05}*":{{}}"#));
    let hide = r#""hide":["#;
    assert_eq!(json(&document(hide, 5_000, &name, "]")), NONE);
    assert_eq!(json(&document(hide, 5_001, &name, "]")), too_large(hide));
    for open in [r#""tools":{"#, r#""resources":{"#, r#""prompts":{"#] {
        assert_eq!(json(&document(open, 5_000, &block, "}")), NONE, "{open}");
        assert_eq!(json(&document(open, 5_001, &block, "}")), too_large(open), "{open}");
    }
    let exact = |at: usize| format!(r#""t{at:05}":{{}}"#);
    assert_eq!(json(&document(r#""tools":{"#, 6_000, &exact, "}")), NONE, "names are no globs");
}

#[test]
fn a_regex_over_the_size_limit_is_refused_at_its_pattern() {
    let pattern = |count: usize| {
        document(
            r#""tools":{"t":{"require":["#,
            1,
            &|_| format!(r#"{{"path":"args.a","op":"regex","value":"[ab]{{{count}}}"}}"#),
            "]}}",
        )
    };
    assert_eq!(json(&pattern(10_000)), NONE);
    assert_eq!(json(&pattern(60_000)), ["large-regex 2:39"]);
}

#[test]
fn regexes_are_refused_when_their_total_size_exceeds_the_limit() {
    let regex = |_: usize| r#"{"path":"args.a","op":"regex","value":"[ab]{5000}"}"#.to_owned();
    let several = |count: usize| document(r#""tools":{"t":{"require":["#, count, &regex, "]}}");
    assert_eq!(json(&several(200)), NONE);
    let found = json(&several(300));
    assert!(
        found.iter().all(|diagnostic| diagnostic.starts_with("large-regex ") && diagnostic.ends_with(":39")),
        "{found:?}"
    );
    assert_eq!(found.last().map(String::as_str), Some("large-regex 301:39"));
    assert!((1..=100).contains(&found.len()), "{} of 300", found.len());
}

#[test]
fn an_object_with_too_many_members_is_refused_in_json_and_yaml() {
    let member = |at: usize| format!(r#""t{at}":{{}}"#);
    assert_eq!(json(&document(r#""tools":{"#, 100_000, &member, "}")), NONE);
    assert_eq!(json(&document(r#""tools":{"#, 100_001, &member, "}")), ["too-large 100002:1"]);
    let yaml = |count: usize| {
        let members: String = (0..count).map(|at| format!("  t{at}: {{}}\n")).collect();
        diagnostics(&format!("version: \"1\"\ndefault: deny\ntools:\n{members}"), DocumentFormat::Yaml)
    };
    assert_eq!(yaml(100_000), NONE);
    assert_eq!(yaml(100_001), ["too-large 100004:3"]);
}

#[test]
fn a_document_over_eight_megabytes_is_refused_in_json_and_yaml() {
    let padded = |text: &str, filling: &str, length: usize| format!("{text}{}", filling.repeat(length - text.len()));
    let (json, yaml) = (r#"{"version":"1","default":"deny"}"#, "version: \"1\"\ndefault: deny\n#");
    for (text, filling, format) in [(json, " ", DocumentFormat::Json), (yaml, "x", DocumentFormat::Yaml)] {
        assert!(parse(padded(text, filling, 8 << 20).as_bytes(), format).is_ok(), "{format:?}");
        let refused = parse(padded(text, filling, (8 << 20) + 1).as_bytes(), format).expect_err("refused");
        assert!(refused.len() == 1 && refused[0].code == DiagnosticCode::TooLarge, "{refused:?}");
    }
}

#[test]
fn only_the_first_two_hundred_diagnostics_are_reported() {
    let assert_truncated = |open: &str, line: &dyn Fn(usize) -> String, close: &str| {
        let found = json(&document(open, 1_000, line, close));
        assert!(found.len() == 201 && found[200].starts_with("more-faults "), "{open}: {found:?}");
        assert!(found[0].contains(" 2:") && found[199].contains(" 201:"), "{open}: {found:?}");
    };
    assert_truncated(r#""hide":["#, &|_| "1".into(), "]");
    assert_truncated(r#""tools":{"a":{"#, &|at| format!(r#""x{at}":1"#), "}}");
    assert_truncated(r#""tools":{"a":{"deny_if":["#, &|_| r#"{"conditions":1}"#.into(), "]}}");
    let yaml = format!("version: \"1\"\ndefault: deny\nhide:\n{}", "  - !x a\n".repeat(1_000));
    assert_eq!(diagnostics(&yaml, DocumentFormat::Yaml).len(), 201);
    let few = json(&document(r#""hide":["#, 200, &|_| "1".into(), "]"));
    assert!(few.len() == 200 && !few[199].starts_with("more-faults"), "{few:?}");
}

#[test]
fn a_case_that_could_not_fail_is_refused() {
    let read = |expect: &str| {
        let text = format!(r#"{{"cases":[{{"policy":"p","call":{{"tool":"a"}},"expect":{expect}}}]}}"#);
        CaseFile::read(text.as_bytes(), DocumentFormat::Json).err().unwrap_or_default()
    };
    let codes = |expect: &str| read(expect).iter().map(|diagnostic| diagnostic.code).collect::<Vec<_>>();
    assert_eq!(codes("{}"), [DiagnosticCode::MissingField]);
    assert!(read("{}")[0].message.contains("could not fail"));
    assert_eq!(codes(r#"{"decision":null}"#), [DiagnosticCode::UnknownWord]);
    assert_eq!(codes(r#"{"charges":[{}]}"#), [DiagnosticCode::WrongType]);
    assert_eq!(codes(r#"{"charges":{}}"#), [DiagnosticCode::WrongType]);
    for expect in [r#""deny""#, r#"{"code":null}"#, r#"{"charges":[]}"#] {
        assert_eq!(codes(expect), [], "{expect}");
    }
}

/// Returns the decision on `args.v` by one condition, and its code.
fn decision(rule: &str, list: &str) -> (&'static str, Option<&'static str>) {
    let policy = format!(r#"{HEAD}"tools":{{"a":{{{rule}}}}}}}"#);
    let policy = parse(policy.as_bytes(), DocumentFormat::Json).expect("a policy");
    let text = format!(r#"{{"tool":"a","arguments":{{"v":{list}}}}}"#);
    let document = read(text.as_bytes(), &JsonLimits::REQUEST).expect("a call");
    let file = CallFile::new(document.root()).expect("a call");
    let explanation = explain(&policy, &file.call(), "2026-01-01T00:00:00Z".parse().expect("a time"));
    (explanation.decision, explanation.code)
}

#[test]
fn a_list_too_long_to_be_evaluated_is_denied_whatever_the_rule() {
    let list = |length: usize| format!("[{}]", vec!["1"; length].join(","));
    // Two hundred rows of 250; each row is an element as well.
    let rows = |length: usize| format!("[{}]", vec![list(249); length].join(","));
    let refused = ("deny", Some("type_mismatch"));
    for (rule, path, op, value) in [
        ("deny_if", "args.v[*]", "gt", "1"),
        ("approve_if", "args.v[*]", "gt", "1"),
        ("require", "args.v[*]", "eq", "1"),
        ("deny_if", "args.v", "contains", "2"),
        ("require", "args.v", "subset_of", "[1]"),
    ] {
        let rule = format!(r#""{rule}":[{{"path":"{path}","op":"{op}","value":{value}}}]"#);
        assert_eq!(decision(&rule, &list(50_000)), ("allow", None), "{rule}");
        assert_eq!(decision(&rule, &list(50_001)), refused, "{rule}");
    }
    let nested = r#""deny_if":[{"path":"args.v[*][*]","op":"gt","value":1}]"#;
    assert_eq!(decision(nested, &rows(200)), ("allow", None));
    assert_eq!(decision(nested, &rows(201)), refused);
}

#[test]
fn a_list_of_any_length_is_evaluated_if_the_first_elements_decide() {
    let list = |last: &str| format!("[2,{}{last}]", "1,".repeat(60_000));
    let rule =
        |rule: &str, op: &str, value: &str| format!(r#""{rule}":[{{"path":"args.v","op":"{op}","value":{value}}}]"#);
    assert_eq!(decision(&rule("deny_if", "contains", "2"), &list("1")), ("deny", Some("deny_if")));
    assert_eq!(decision(&rule("deny_if", "contains", "3"), &list("3")), ("deny", Some("type_mismatch")));
    assert_eq!(decision(&rule("require", "subset_of", "[1]"), &list("1")), ("deny", Some("require")));
    assert_eq!(decision(&rule("require", "length_lte", "60002"), &list("1")), ("allow", None));
    assert_eq!(decision(&rule("require", "length_lte", "60001"), &list("1")), ("deny", Some("require")));
}
