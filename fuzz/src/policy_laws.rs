//! Policy documents: what is refused says where, what loads judges every call, and all that tells agrees.

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

/// Holds the laws against one document. Says whether it loaded.
pub fn check_document(text: &[u8], language: DocumentFormat) -> bool {
    let findings = lint(text, language, None);
    let policy = match parse(text, language) {
        Ok(policy) => policy,
        Err(faults) => {
            assert!(!faults.is_empty(), "a refusal without a reason");
            for fault in faults {
                assert!(fault.span.start <= fault.span.end && fault.span.start <= text.len(), "{fault:?}");
                assert!(!fault.message.is_empty());
            }
            return false;
        }
    };
    for finding in findings {
        assert!(finding.span.start <= finding.span.end && finding.span.end <= text.len(), "{finding:?}");
    }
    let laid_out = format(text, language).unwrap_or_else(|faults| panic!("what loads is laid out: {faults:?}"));
    let again = parse(laid_out.text.as_bytes(), DocumentFormat::Json)
        .unwrap_or_else(|faults| panic!("it still loads: {faults:?}"));
    for call in SAMPLE_CALLS {
        assert_eq!(
            decide_and_explain(&policy, call),
            decide_and_explain(&again, call),
            "the layout changed the meaning"
        );
    }
    true
}

/// The decision on a call, told by `decide` and by `explain`.
fn decide_and_explain(policy: &Policy, call: &str) -> String {
    let document = read(call.as_bytes(), &JsonLimits::REQUEST).unwrap_or_else(|fault| panic!("{fault}"));
    let file = CallFile::new(document.root()).unwrap_or_else(|faults| panic!("{faults:?}"));
    let at = "2026-11-15T12:00:00Z".parse().unwrap_or_default();
    let (decision, told) = (decide(policy, &file.call(), at), explain(policy, &file.call(), at));
    let refusal = told.trace.iter().find(|step| step.outcome == "refuse");
    match &decision {
        Decision::Deny(reason) => {
            assert_eq!(told.code, Some(reason.code.as_str()));
            let step = refusal.unwrap_or_else(|| panic!("a refusal that no step explains: {told:?}"));
            assert_eq!(
                (step.code, &step.rule),
                (told.code, &told.rule),
                "the first step that refuses decides: {told:?}"
            );
        }
        Decision::Allow(terms) => {
            assert!(refusal.is_none(), "a step refuses what is allowed: {told:?}");
            assert_eq!(told.charges.len(), terms.charges.len());
        }
    }
    format!("{} {:?} {:?} {:?}", told.decision, told.code, told.rule, told.charges)
}
