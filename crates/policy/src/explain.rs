//! `explain`: one call against one policy, with every rule that was looked at and the values it compared.

mod decision_trace;
mod path_values;

use gatelodge_json::quote_into;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::call::Call;
use crate::compiled_policy::Policy;
use crate::decide::decide;
use crate::decision::Decision;
use crate::limit::{Align, Amount, Charge, LimitWindow, Scope};

/// A decision told in full.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// `allow`, `deny` or `approve`.
    pub decision: &'static str,
    /// Which step refused; none for the others.
    pub code: Option<&'static str>,
    /// The rule that decided, as a JSON Pointer; for an allow, the block used.
    pub rule: Option<String>,
    /// The counter, where a limit or its amount refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
    /// What is said to the agent or the approver.
    pub message: Option<String>,
    /// What the call takes from counters.
    pub charges: Vec<ChargeExplanation>,
    /// Every step, in the order of judgement; the first that refuses decides.
    pub trace: Vec<TraceStep>,
}

/// A charge, as it is told.
#[derive(Debug, Serialize)]
pub struct ChargeExplanation {
    /// The limit, as a JSON Pointer.
    pub rule: String,
    /// The counter's name.
    pub counter: String,
    /// Whose counter it is.
    pub scope: &'static str,
    /// The window's word, or its seconds.
    pub window: Box<RawValue>,
    /// When the window begins.
    pub align: &'static str,
    /// What the counter may reach.
    pub max: Box<RawValue>,
    /// What the call adds.
    pub amount: Box<RawValue>,
}

impl ChargeExplanation {
    /// A field by its name, as JSON.
    pub(crate) fn field_json(&self, name: &str) -> Option<String> {
        let text = |own: &str| {
            let mut out = String::new();
            quote_into(own, &mut out);
            out
        };
        match name {
            "rule" => Some(text(&self.rule)),
            "counter" => Some(text(&self.counter)),
            "scope" => Some(text(self.scope)),
            "window" => Some(self.window.get().to_owned()),
            "align" => Some(text(self.align)),
            "max" => Some(self.max.get().to_owned()),
            "amount" => Some(self.amount.get().to_owned()),
            _ => None,
        }
    }
}

/// One step of the judgement.
#[derive(Debug, Serialize)]
pub struct TraceStep {
    /// What was looked at: `standing`, `offered`, `action`, `accepted`, `validate_arguments`, `require`, `deny_if`,
    /// `approve_if`, `limit`, `uri` or `method`.
    pub step: &'static str,
    /// The rule, as a JSON Pointer.
    pub rule: Option<String>,
    /// `pass`, `refuse`, `ask` or `charge`.
    pub outcome: &'static str,
    /// The code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// In words.
    pub note: String,
    /// The conditions of a predicate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionExplanation>,
}

/// One condition, and what it found.
#[derive(Debug, Serialize)]
pub struct ConditionExplanation {
    /// Where it looked.
    pub path: String,
    /// The operator.
    pub op: &'static str,
    /// The value in the rule.
    pub value: Box<RawValue>,
    /// The values found, as JSON, cut where they are long; empty if nothing was there.
    pub found: Vec<String>,
    /// What it says.
    pub answer: &'static str,
}

/// Explains the decision on one call.
pub fn explain(policy: &Policy, call: &Call<'_>, at: Timestamp) -> Explanation {
    let trace = decision_trace::trace_steps(policy, call, at);
    match decide(policy, call, at) {
        Decision::Deny(reason) => Explanation {
            decision: "deny",
            code: Some(reason.code.as_str()),
            rule: reason.rule.as_deref().map(Into::into),
            counter: reason.counter.as_deref().map(Into::into),
            message: Some(reason.message.as_ref().into()),
            charges: Vec::new(),
            trace,
        },
        Decision::Allow(terms) => {
            let charges = terms.charges.iter().map(explain_charge).collect();
            let (decision, rule, message) = match &terms.approval {
                None => ("allow", terms.rule.as_deref(), None),
                Some(question) => {
                    let message = question.message.as_deref().unwrap_or("the policy asks a person first");
                    ("approve", Some(&*question.rule), Some(message))
                }
            };
            Explanation {
                decision,
                code: None,
                rule: rule.map(Into::into),
                counter: None,
                message: message.map(Into::into),
                charges,
                trace,
            }
        }
    }
}

fn explain_charge(charge: &Charge) -> ChargeExplanation {
    ChargeExplanation {
        rule: charge.rule().to_string(),
        counter: charge.counter().to_string(),
        scope: Scope::as_str(charge.scope()),
        window: window_json(charge.window()),
        align: Align::as_str(charge.align()),
        max: amount_json(charge.max()),
        amount: amount_json(charge.amount()),
    }
}

fn window_json(window: LimitWindow) -> Box<RawValue> {
    match (window.word(), window.seconds()) {
        (Some(word), _) => raw_json(format!("\"{word}\"")),
        (None, seconds) => raw_json(seconds.unwrap_or_default().to_string()),
    }
}

fn amount_json(amount: Amount) -> Box<RawValue> {
    raw_json(amount.to_string())
}

/// Takes a text over that is JSON.
fn raw_json(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
