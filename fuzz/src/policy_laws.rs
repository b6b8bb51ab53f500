//! Invariants of policy documents: refusals have a location, a loaded policy decides every call, and `decide`,
//! `explain` and `format` agree.

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{CallFile, Decision, DocumentFormat, Policy, decide, explain, format, lint, parse};

/// Calls of every kind, with values of every type.
const SAMPLE_CALLS: &[&str] = &[
    r#"{"tool":"read_file"}"#,
    r#"{"tool":"read_file","category":"read","arguments":{"a":1,"b":{"c":[1,"x",null,{"d":2.5}]},"url":"https://example.com:8443/x"}}"#,
    r#"{"tool":"pay","category":"financial","arguments":{"a":"99","amount":10,"list":[],"path":"/srv/../etc"},"session":"s"}"#,
    r#"{"tool":"pay","arguments":{"a":[true],"amount":-0.5,"b":"c"},"input_schema":{"type":"object"},"grant":{"label":"g","labels":{"team":"x"}}}"#,
    r#"{"tool":"x","accepted":"new"}"#,
    r#"{"tool":"x","accepted":"changed","category":"write"}"#,
    r#"{"tool":"x","accepted":"not_offered"}"#,
    r#"{"resource":"file:///a/../b"}"#,
    r#"{"resource":"note://x/1"}"#,
    r#"{"prompt":"greet","arguments":{"a":"b"}}"#,
    r#"{"method":"completion/complete","arguments":{"ref":{"type":"ref/resource","uri":"note://{id}"}}}"#,
    r#"{"method":"sampling/createMessage"}"#,
    r#"{"method":"vendor/x"}"#,
];

/// Checks the invariants of one document. Returns whether it loaded.
pub fn check_document(text: &[u8], language: DocumentFormat) -> bool {
    let findings = lint(text, language, None);
    let policy = match parse(text, language) {
        Ok(policy) => policy,
        Err(diagnostics) => {
            assert!(!diagnostics.is_empty(), "a refusal without a reason");
            for error in diagnostics {
                assert!(error.span.start <= error.span.end && error.span.start <= text.len(), "{error:?}");
                assert!(!error.message.is_empty());
            }
            return false;
        }
    };
    for finding in findings {
        assert!(finding.span.start <= finding.span.end && finding.span.end <= text.len(), "{finding:?}");
    }
    let formatted =
        format(text, language).unwrap_or_else(|diagnostics| panic!("cannot format a valid policy: {diagnostics:?}"));
    let again = parse(formatted.text.as_bytes(), DocumentFormat::Json)
        .unwrap_or_else(|diagnostics| panic!("the formatted policy does not load: {diagnostics:?}"));
    for call in SAMPLE_CALLS {
        assert_eq!(
            decide_and_explain(&policy, call),
            decide_and_explain(&again, call),
            "formatting changed the meaning"
        );
    }
    true
}

/// Returns the decision on a call, after checking that `decide` and `explain` agree.
fn decide_and_explain(policy: &Policy, call: &str) -> String {
    let document = read(call.as_bytes(), &JsonLimits::REQUEST).unwrap_or_else(|error| panic!("{error}"));
    let file = CallFile::new(document.root()).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    let at = "2026-11-15T12:00:00Z".parse().unwrap_or_default();
    let (decision, explanation) = (decide(policy, &file.call(), at), explain(policy, &file.call(), at));
    let refusal = explanation.trace.iter().find(|step| step.outcome == "refuse");
    match &decision {
        Decision::Deny(reason) => {
            assert_eq!(explanation.code, Some(reason.code.as_str()));
            let step = refusal.unwrap_or_else(|| panic!("a refusal that no step explains: {explanation:?}"));
            assert_eq!(
                (step.code, &step.rule),
                (explanation.code, &explanation.rule),
                "the first step that refuses decides: {explanation:?}"
            );
        }
        Decision::Allow(terms) => {
            assert!(refusal.is_none(), "a step refuses what is allowed: {explanation:?}");
            assert_eq!(explanation.charges.len(), terms.charges.len());
        }
    }
    format!("{} {:?} {:?} {:?}", explanation.decision, explanation.code, explanation.rule, explanation.charges)
}
