//! Evaluates conditions: follows a path into a call and applies the operator to the values there.

use gatelodge_json::{JsonKind, JsonValue};
use gatelodge_mutants::mutant;

use crate::call::call_path::{CallPathRoot, CallPathSegment};
use crate::call::call_value::CallValue;
use crate::call::{Call, CallTarget};
use crate::compile::compiled_policy::Predicate;
use crate::compile::condition::Condition;
use crate::eval::call_fact::{EvaluationTime, call_fact};
use crate::operators::MAX_ELEMENTS;
use crate::operators::condition_result::ConditionResult;

/// Whether a condition on a path with `[*]` must hold for all elements or for at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    /// The condition must hold for all elements; used for `require`.
    All,
    /// The condition must hold for at least one element; used for `deny_if` and `approve_if`.
    Any,
}

impl Predicate {
    pub fn evaluate(&self, call: &Call<'_>, moment: EvaluationTime<'_>, quantifier: Quantifier) -> ConditionResult {
        let answers = self.conditions.iter().map(|condition| condition.evaluate(call, moment, quantifier));
        answers.fold(ConditionResult::True, ConditionResult::and)
    }
}

impl Condition {
    pub fn evaluate(&self, call: &Call<'_>, time: EvaluationTime<'_>, quantifier: Quantifier) -> ConditionResult {
        if self.path.root != CallPathRoot::Args {
            let found = call_fact(&self.path.root, call, time);
            return self.operator.evaluate(found.as_ref());
        }
        let segments = self.path.segments.as_slice();
        match (call.target, call.arguments) {
            (CallTarget::Resource { uri }, _) => self.evaluate_resource(uri, segments),
            (_, Some(arguments)) => {
                let mut examined = 0;
                let result = self.evaluate_at(arguments, segments, quantifier, &mut examined);
                if examined > MAX_ELEMENTS { ConditionResult::Mismatch } else { result }
            }
            (_, None) => self.evaluate_missing(segments),
        }
    }

    /// Follows the path from `value` and applies the operator to the value that it leads to. Null counts as absent, and
    /// so does any value whose path leads through null.
    fn evaluate_at(
        &self,
        value: JsonValue<'_>,
        segments: &[CallPathSegment],
        quantifier: Quantifier,
        examined: &mut usize,
    ) -> ConditionResult {
        let is_kept_null = mutant!("null-treated-as-value") && segments.is_empty();
        if value.kind() == JsonKind::Null && !is_kept_null {
            return self.operator.evaluate(None);
        }
        let Some((segment, rest)) = segments.split_first() else {
            return self.operator.evaluate(Some(&CallValue::of(value)));
        };
        let next = match (segment, value.kind()) {
            (CallPathSegment::Name(name), JsonKind::Object) if mutant!("dotted-key-read-as-path") => {
                name.split('.').try_fold(value, |value, part| value.get(part))
            }
            (CallPathSegment::Name(name), JsonKind::Object) => value.get(name),
            (CallPathSegment::Index(index), JsonKind::Array) => value.elements().nth(*index),
            (CallPathSegment::Wildcard, JsonKind::Array) => {
                return self.evaluate_elements(value, rest, quantifier, examined);
            }
            _ => return ConditionResult::Mismatch,
        };
        match next {
            Some(next) => self.evaluate_at(next, rest, quantifier, examined),
            None => self.operator.evaluate(None),
        }
    }

    /// Evaluates the condition for every element of a list. The result for an empty list is false. Stops once more than
    /// [`MAX_ELEMENTS`] have been examined; the caller then discards the result.
    fn evaluate_elements(
        &self,
        list: JsonValue<'_>,
        rest: &[CallPathSegment],
        quantifier: Quantifier,
        examined: &mut usize,
    ) -> ConditionResult {
        let mut all: Option<ConditionResult> = None;
        for element in list.elements() {
            *examined += 1;
            if *examined > MAX_ELEMENTS {
                break;
            }
            let result = self.evaluate_at(element, rest, quantifier, examined);
            all = Some(match (all, quantifier) {
                (None, _) => result,
                (Some(others), Quantifier::All) => others.and(result),
                (Some(others), Quantifier::Any) => others.or(result),
            });
        }
        all.unwrap_or(if mutant!("empty-list-matches") { ConditionResult::True } else { ConditionResult::False })
    }

    /// Evaluates the condition for a resource, whose arguments are `{"uri": …}`.
    fn evaluate_resource(&self, uri: &str, segments: &[CallPathSegment]) -> ConditionResult {
        match segments {
            [CallPathSegment::Name(name)] if **name == *"uri" => {
                self.operator.evaluate(Some(&CallValue::Text(uri.into())))
            }
            [CallPathSegment::Name(name), ..] if **name == *"uri" => ConditionResult::Mismatch,
            other => self.evaluate_missing(other),
        }
    }

    /// Evaluates the condition for a call without arguments, as if the arguments were an empty object.
    fn evaluate_missing(&self, segments: &[CallPathSegment]) -> ConditionResult {
        match segments.first() {
            None => self.operator.evaluate(Some(&CallValue::Other)),
            Some(CallPathSegment::Name(_)) => self.operator.evaluate(None),
            Some(CallPathSegment::Index(_) | CallPathSegment::Wildcard) => ConditionResult::Mismatch,
        }
    }
}
