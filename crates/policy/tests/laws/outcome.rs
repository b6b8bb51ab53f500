//! Decision on a call, in a comparable form.

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{CallFile, Decision, DocumentFormat, Policy, decide, parse};
use jiff::Timestamp;
use serde_json::Value;

/// Ordered from the most to the least restrictive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecisionKind {
    Deny,
    Approve,
    Allow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub kind: DecisionKind,
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
                kind: DecisionKind::Deny,
                code: Some(reason.code.as_str()),
                rule: reason.rule.as_deref().map(owned),
                charges: Vec::new(),
                message: Some(owned(&reason.message)),
            },
            Decision::Allow(terms) => Self {
                kind: if terms.approval.is_some() { DecisionKind::Approve } else { DecisionKind::Allow },
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

    /// Returns whether the deciding rule is at the pointer or below it.
    pub fn is_by(&self, pointer: &str) -> bool {
        let inside = self.rule.as_deref().and_then(|rule| rule.strip_prefix(pointer));
        inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the same outcome for a block at another pointer.
    pub fn moved(self, from: &str, to: &str) -> Self {
        let moved = |rule: String| match rule.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
            _ => rule,
        };
        let charges = self.charges.into_iter().map(moved).collect();
        Self { rule: self.rule.map(moved), charges, ..self }
    }
}

/// Formats a charge, with its rule first.
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
    parse(text.as_bytes(), format).unwrap_or_else(|diagnostics| panic!("{text}\n{diagnostics:#?}"))
}

/// Decides a call from the text of a call file, as users do.
pub fn decide_call(policy: &Policy, call: &Value) -> Outcome {
    let text = call.to_string();
    let document = read(text.as_bytes(), &JsonLimits::REQUEST).expect("JSON");
    let file = CallFile::new(document.root()).expect("a call");
    Outcome::of(&decide(policy, &file.call(), file.at().unwrap_or(Timestamp::UNIX_EPOCH)))
}
