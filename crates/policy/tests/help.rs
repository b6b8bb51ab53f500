//! Help texts of diagnostics: following them fixes the problem.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_policy::{CaseFile, Diagnostic, DiagnosticCode, DocumentFormat, import_intercept, parse};

/// Returns a policy with one rule block for the tool `a`.
fn with_block(block: &str) -> String {
    format!(r#"{{"version":"1","default":"deny","tools":{{"a":{block}}}}}"#)
}

fn with_condition(condition: &str) -> String {
    with_block(&format!(r#"{{"require":[{{{condition}}}]}}"#))
}

/// Returns code, message and help of the only diagnostic.
fn only(diagnostics: Result<(), Vec<Diagnostic>>) -> (DiagnosticCode, String, String) {
    let diagnostics = diagnostics.expect_err("a diagnostic");
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    (diagnostics[0].code, diagnostics[0].message.clone(), diagnostics[0].help.clone().expect("a help text"))
}

fn of_policy(text: &str) -> (DiagnosticCode, String, String) {
    only(parse(text.as_bytes(), DocumentFormat::Json).map(drop))
}

#[test]
fn a_misspelled_operator_suggests_one_that_begins_alike_and_is_not_negated() {
    for (word, operator) in [
        ("path_in", "path_within"),
        ("regexp", "regex"),
        ("starts", "starts_with"),
        ("not_inn", "not_in"),
        ("on_in", "in"),
    ] {
        let (code, _, help) = of_policy(&with_condition(&format!(r#""path":"args.x","op":"{word}","value":"/a""#)));
        assert_eq!(code, DiagnosticCode::UnknownOperator);
        assert!(
            help.contains(&format!("`{operator}`")) && (word == "not_inn" || !help.starts_with("did you mean `n")),
            "{help}"
        );
    }
}

#[test]
fn two_limits_of_one_block_on_one_counter_need_another_name() {
    let text = with_block(r#"{"rate_limit":"5/day","limits":[{"counter":"a_rate","window":"day","max":5}]}"#);
    let (code, message, help) = of_policy(&text);
    assert_eq!(
        (code, message.as_str()),
        (DiagnosticCode::CounterClash, "the block's own `rate_limit` also uses the counter `a_rate`")
    );
    assert_eq!(help, "remove one of the two, or rename this counter, for example to `a_rate_2`");
    let renamed = text.replace("a_rate", "a_rate_2");
    assert!(parse(renamed.as_bytes(), DocumentFormat::Json).is_ok());
}

#[test]
fn too_many_digits_do_not_suggest_a_deny() {
    let max = |max: &str| {
        of_policy(&with_block(&format!(
            r#"{{"limits":[{{"counter":"c","window":"day","max":{max},"amount":"args.n"}}]}}"#
        )))
        .2
    };
    assert!(max("1234567890123456789").contains("fewer digits"), "{}", max("1234567890123456789"));
    assert!(max("0.0000000001").contains("fewer digits"));
    assert!(max("0").contains("action: deny") && max("-5").contains("action: deny"));
}

#[test]
fn a_huge_index_a_backslash_and_a_long_exponent_are_explained() {
    let (_, message, _) = of_policy(&with_condition(r#""path":"args.x[99999999999999999999999]","op":"eq","value":1"#));
    assert_eq!(message, "the index is larger than any list");
    let (_, message, _) = of_policy(&with_condition(r#""path":"args.x","op":"path_within","value":"C:\\files""#));
    assert_eq!(message, r"`C:\files` has a backslash in it");
    let (code, message, help) =
        of_policy(&with_condition(&format!(r#""path":"args.x","op":"eq","value":0e{}"#, "9".repeat(30))));
    assert_eq!(code, DiagnosticCode::BadNumber);
    assert!(message.contains("exponent") && help.contains("exponent"), "{message}: {help}");
}

#[test]
fn the_suggested_classes_of_a_large_regex_load() {
    let text = |class: &str| with_condition(&format!(r#""path":"args.x","op":"regex","value":"^{class}{{1,5000}}$""#));
    let (code, _, help) = of_policy(&text(r"\\w"));
    assert_eq!(code, DiagnosticCode::LargeRegex);
    assert!(help.contains("`[0-9A-Za-z_]`"), "{help}");
    assert!(parse(text("[0-9A-Za-z_]").as_bytes(), DocumentFormat::Json).is_ok());
}

#[test]
fn an_alias_without_its_anchor_is_reported_as_an_alias() {
    let (code, message, help) =
        only(parse(b"version: \"1\"\ndefault: deny\nhide: [*x]\n", DocumentFormat::Yaml).map(drop));
    assert_eq!((code, message.as_str()), (DiagnosticCode::YamlFeature, "aliases are not allowed"));
    assert!(help.contains("in quotes"), "{help}");
}

#[test]
fn case_file_errors_show_an_example() {
    let of = |text: &str| only(CaseFile::read(text.as_bytes(), DocumentFormat::Yaml).map(drop));
    let policy = "policy: {version: \"1\", default: deny}\n";
    let (code, message, help) = of(&format!("{policy}cases: []\n"));
    assert_eq!((code, message.as_str()), (DiagnosticCode::EmptyList, "`cases` is empty, so nothing would be tested"));
    assert!(help.contains("expect: allow"), "{help}");
    let (code, message, _) = of(&format!("{policy}cases: [{{call: {{tool: a}}, expect: null}}]\n"));
    assert_eq!(
        (code, message.as_str()),
        (DiagnosticCode::WrongType, "`expect` must be a decision or an object, not null")
    );
    let (_, message, help) = of("");
    assert!(message == "the text is empty" && help.contains("`cases`"), "{help}");
    let (_, _, help) = only(import_intercept(b"").map(drop));
    assert!(help.contains("Intercept"), "{help}");
}

#[test]
fn unicode_classes_can_be_repeated_as_often_as_a_name_is_long() {
    let text = |pattern: &str| with_condition(&format!(r#""path":"args.x","op":"regex","value":"{pattern}""#));
    for pattern in [r"^\\w{1,64}$", r"^[\\w.-]{1,255}$"] {
        assert!(parse(text(pattern).as_bytes(), DocumentFormat::Json).is_ok(), "{pattern}");
    }
    // These would be searched for at every position of a text of megabytes.
    for pattern in [r"\\w{1,64}!", r"^.*[\\w.-]{1,255}$"] {
        assert_eq!(of_policy(&text(pattern)).0, DiagnosticCode::LargeRegex, "{pattern}");
    }
}

#[test]
fn large_regexes_share_one_budget() {
    let rule = r#"{"path":"args.x","op":"regex","value":"^[\\w.-]{1,255}$"}"#;
    let rules = |count: usize| with_block(&format!(r#"{{"require":[{}]}}"#, vec![rule; count].join(",")));
    assert!(parse(rules(3).as_bytes(), DocumentFormat::Json).is_ok());
    let diagnostics = parse(rules(14).as_bytes(), DocumentFormat::Json).expect_err("more than the budget");
    assert!(diagnostics.iter().all(|diagnostic| diagnostic.code == DiagnosticCode::LargeRegex), "{diagnostics:?}");
}
