//! What a policy answers to a call, in a form that can be compared.

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{CallFile, Decision, DocumentFormat, Policy, decide, parse};
use jiff::Timestamp;
use serde_json::Value;

/// The more, the more is let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Deny,
    Approve,
    Allow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    pub code: Option<&'static str>,
    pub rule: Option<String>,
    pub charges: Vec<String>,
    pub message: Option<String>,
}

impl Outcome {
    fn of(decision: &Decision) -> Self {
        let owned = |text: &str| text.to_owned();
        match decision {
            Decision::Deny(reason) => Self {
                verdict: Verdict::Deny,
                code: Some(reason.code.as_str()),
                rule: reason.rule.as_deref().map(owned),
                charges: Vec::new(),
                message: Some(owned(&reason.message)),
            },
            Decision::Allow(terms) => Self {
                verdict: if terms.approval.is_some() { Verdict::Approve } else { Verdict::Allow },
                code: None,
                rule: terms
                    .approval
                    .as_ref()
                    .map(|question| &question.rule)
                    .or(terms.rule.as_ref())
                    .map(|rule| owned(rule)),
                charges: terms.charges.iter().map(written).collect(),
                message: terms.approval.as_ref().and_then(|question| question.message.as_deref()).map(owned),
            },
        }
    }

    /// Whether the rule that decided is the one pointed to, or lies in it.
    pub fn is_by(&self, pointer: &str) -> bool {
        let inside = self.rule.as_deref().and_then(|rule| rule.strip_prefix(pointer));
        inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The same answer from a block that stands elsewhere.
    pub fn moved(self, from: &str, to: &str) -> Self {
        let moved = |rule: String| match rule.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
            _ => rule,
        };
        let charges = self.charges.into_iter().map(moved).collect();
        Self { rule: self.rule.map(moved), charges, ..self }
    }
}

/// The rule first.
fn written(charge: &gatelodge_policy::Charge) -> String {
    let (window, align, scope) = (charge.window(), charge.align(), charge.scope());
    let (max, amount, counter) = (charge.max(), charge.amount(), charge.counter());
    format!("{}/ {counter} {scope} {window} {align} {amount} of {max}", charge.rule())
}

/// Compiles a document that must load.
pub fn load(document: &Value) -> Policy {
    load_text(&document.to_string(), DocumentFormat::Json)
}

pub fn load_text(text: &str, format: DocumentFormat) -> Policy {
    parse(text.as_bytes(), format).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"))
}

/// Judges a call as users do: from the text of a call file.
pub fn judge(policy: &Policy, call: &Value) -> Outcome {
    let text = call.to_string();
    let document = read(text.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
    let file = CallFile::new(document.root()).expect("a call");
    Outcome::of(&decide(policy, &file.call(), file.at().unwrap_or(Timestamp::UNIX_EPOCH)))
}
