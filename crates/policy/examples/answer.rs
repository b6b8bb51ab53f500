//! Judges calls line by line, for comparison with the reference evaluator.
//!
//! In: `{"policy": …, "calls": […]}`. Out: `{"load": "ok", "answers": […]}` or `{"load": "refused"}`.
#![allow(clippy::expect_used, reason = "a broken harness should stop")]

use std::fmt::Write as _;
use std::io::{BufRead, Write as _};

use gatelodge_json::{JsonLimits, JsonValue, quote_into, read};
use gatelodge_policy::{CallFile, Decision, DocumentFormat, Policy, decide, parse};

const REFUSED: &str = r#"{"load":"refused"}"#;

fn main() {
    let (input, mut output) = (std::io::stdin().lock(), std::io::BufWriter::new(std::io::stdout().lock()));
    for line in input.split(b'\n') {
        let line = line.expect("standard input is readable");
        // Faults that the reader itself refuses, such as a repeated key, are planted in the policy.
        let mut out = match read(&line, &JsonLimits::REPLY) {
            Ok(document) => answer(document.root()),
            Err(_) => REFUSED.into(),
        };
        out.push('\n');
        output.write_all(out.as_bytes()).expect("standard output takes the answer");
        output.flush().expect("standard output takes the answer");
    }
}

fn answer(request: JsonValue<'_>) -> String {
    let policy = request.get("policy").expect("a policy");
    let Ok(policy) = parse(policy.raw().as_bytes(), DocumentFormat::Json) else { return REFUSED.into() };
    let calls = request.get("calls").expect("calls");
    let answers: Vec<String> = calls.elements().map(|call| answer_call(&policy, call)).collect();
    format!(r#"{{"load":"ok","answers":[{}]}}"#, answers.join(","))
}

fn answer_call(policy: &Policy, call: JsonValue<'_>) -> String {
    let file = CallFile::new(call).expect("a call");
    let decision = decide(policy, &file.call(), file.at().expect("a time"));
    let (word, code, rule, charges) = match &decision {
        Decision::Deny(reason) => ("deny", Some(reason.code.as_str()), reason.rule.as_deref(), &[][..]),
        Decision::Allow(terms) => match &terms.approval {
            None => ("allow", None, terms.rule.as_deref(), terms.charges.as_slice()),
            Some(question) => ("approve", None, Some(&*question.rule), terms.charges.as_slice()),
        },
    };
    let mut out = format!(r#"{{"decision":"{word}","code":{},"rule":{},"charges":["#, text(code), text(rule));
    for (at, charge) in charges.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        let window = match charge.window() {
            window if window.word().is_some() => text(window.word()),
            window => window.seconds().unwrap_or_default().to_string(),
        };
        let (rule, counter) = (text(Some(charge.rule())), text(Some(charge.counter())));
        let _ = write!(
            out,
            r#"{{"rule":{rule},"counter":{counter},"scope":"{}","window":{window},"align":"{}","max":{},"amount":{}}}"#,
            charge.scope(),
            charge.align(),
            charge.max(),
            charge.amount()
        );
    }
    out.push_str("]}");
    out
}

fn text(text: Option<&str>) -> String {
    let mut out = String::new();
    match text {
        None => out.push_str("null"),
        Some(text) => quote_into(text, &mut out),
    }
    out
}
