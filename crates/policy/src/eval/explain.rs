//! Explains a decision: shows every rule that was evaluated and the values that it compared.

mod decision_trace;
mod path_values;

use gatelodge_json::quote_into;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::call::Call;
use crate::compile::compiled_policy::Policy;
use crate::compile::limit::{Amount, Charge, LimitScope, LimitWindow, WindowAlignment};
use crate::eval::decide::decide;
use crate::eval::decision::Decision;

/// A decision with all steps that led to it.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The decision: `allow`, `deny` or `approve`.
    pub decision: &'static str,
    /// Code of the step that refused the call. `None` for `allow` and `approve`.
    pub code: Option<&'static str>,
    /// JSON Pointer of the rule that decided or, for `allow`, of the block that applies.
    pub rule: Option<String>,
    /// Name of the counter, if the call was refused because it exceeds a limit or has no valid amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
    /// Message for the agent or the approver.
    pub message: Option<String>,
    /// The call's charges.
    pub charges: Vec<ChargeExplanation>,
    /// Every step, in order of evaluation. The first one that refuses the call decides.
    pub trace: Vec<DecisionTraceStep>,
}

/// A charge, as it is serialized in an explanation.
#[derive(Debug, Serialize)]
pub struct ChargeExplanation {
    /// JSON Pointer of the limit.
    pub rule: String,
    /// Name of the counter.
    pub counter: String,
    /// Scope of the counter.
    pub scope: &'static str,
    /// Name of the window, or its length in seconds.
    pub window: Box<RawValue>,
    /// Alignment of the window.
    pub align: &'static str,
    /// Maximum value of the counter.
    pub max: Box<RawValue>,
    /// Amount that the call adds.
    pub amount: Box<RawValue>,
}

impl ChargeExplanation {
    /// Returns a field by name, as JSON.
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

/// One step of the evaluation.
#[derive(Debug, Serialize)]
pub struct DecisionTraceStep {
    /// Name of the step: `standing`, `offered`, `action`, `accepted`, `validate_arguments`, `require`, `deny_if`,
    /// `approve_if`, `limit`, `uri` or `method`.
    pub step: &'static str,
    /// JSON Pointer of the rule.
    pub rule: Option<String>,
    /// Outcome of the step: `pass`, `refuse`, `ask` or `charge`.
    pub outcome: &'static str,
    /// Reason code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Explanation of the outcome, in words.
    pub note: String,
    /// Conditions of a predicate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionExplanation>,
}

/// One condition and the values it found.
#[derive(Debug, Serialize)]
pub struct ConditionExplanation {
    /// Path of the value.
    pub path: String,
    /// Operator of the condition.
    pub op: &'static str,
    /// Value given in the rule.
    pub value: Box<RawValue>,
    /// Values found at the path, as JSON, truncated if long. Empty if there are none.
    pub found: Vec<String>,
    /// Result of the condition.
    pub answer: &'static str,
}

/// Explains the decision on one call.
///
/// # Examples
/// ```
/// use gatelodge_policy::{Call, CallTarget, ClientFacts, DocumentFormat, explain, parse};
///
/// let text = br#"{"version": "1", "default": "deny", "prompts": {"greet": {"action": "approve"}}}"#;
/// let policy = parse(text, DocumentFormat::Json).expect("a policy");
/// let target = CallTarget::Prompt { name: "greet" };
/// let call = Call { target, arguments: None, server: None, client: ClientFacts::default(), session: None };
/// let explanation = explain(&policy, &call, jiff::Timestamp::UNIX_EPOCH);
/// assert_eq!(explanation.decision, "approve");
/// assert_eq!(explanation.rule.as_deref(), Some("/prompts/greet"));
/// ```
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
                Some(approval) => {
                    let message = approval.message.as_deref().unwrap_or("the policy requires approval");
                    ("approve", Some(&*approval.rule), Some(message))
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
        scope: LimitScope::as_str(charge.scope()),
        window: window_json(charge.window()),
        align: WindowAlignment::as_str(charge.align()),
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

/// Wraps text that is known to be valid JSON.
fn raw_json(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
