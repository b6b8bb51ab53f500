//! Conditions: an operator applied to the value at a path. The result is true, false, absent or mismatch.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use gatelodge_json::{Decimal, JsonKind, JsonValue};
use gatelodge_mutants::mutant;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use regex::Regex;

use crate::call::{Call, CallTarget};
use crate::call_path::{CallPath, CallPathRoot, CallPathSegment};
use crate::host_in::{HostPattern, host_in};
use crate::path_within::DirectoryPath;
use crate::scalar::{CallValue, DecimalText, ScalarSet};
use crate::string_enum::string_enum;

/// One condition, written as `{"path": …, "op": …, "value": …}`.
#[derive(Debug)]
pub(crate) struct Condition {
    /// The path. Conditions with equal paths share it, because different tools often have arguments of the same name.
    pub path: Arc<CallPath>,
    pub operator: Operator,
    pub compiled: CompiledOperator,
    /// The expected value as JSON, for display.
    pub expected_json: Box<str>,
    /// Location of the condition in the policy document.
    pub span: Range<usize>,
}

string_enum! {
    /// Operators of conditions.
    Operator {
        /// Equal to the value.
        Eq = "eq",
        /// Not equal to the value.
        Neq = "neq",
        /// Equal to a member of the list.
        In = "in",
        /// Equal to no member of the list.
        NotIn = "not_in",
        /// Less than the value.
        Lt = "lt",
        /// Less than or equal to the value.
        Lte = "lte",
        /// Greater than the value.
        Gt = "gt",
        /// Greater than or equal to the value.
        Gte = "gte",
        /// A string contains a substring, or a list contains a scalar.
        Contains = "contains",
        /// A string starts with the value.
        StartsWith = "starts_with",
        /// A string ends with the value.
        EndsWith = "ends_with",
        /// A regular expression matches somewhere in a string.
        Regex = "regex",
        /// With `true`, the value is present and not null. With `false`, it is absent or null.
        Exists = "exists",
        /// Maximum length: code points of a string, or elements of a list.
        LengthLte = "length_lte",
        /// Every element of the list at the path is a member of the given list.
        SubsetOf = "subset_of",
        /// A file path is inside a directory.
        PathWithin = "path_within",
        /// The host of a URL is a member of the list.
        HostIn = "host_in",
    }
}

/// An operator with its parsed value.
#[derive(Debug)]
pub(crate) enum CompiledOperator {
    /// `eq` and `in`; if `negated` is set, `neq` and `not_in`.
    MemberOf {
        members: ScalarSet,
        negated: bool,
    },
    Less(DecimalText),
    LessOrEqual(DecimalText),
    Greater(DecimalText),
    GreaterOrEqual(DecimalText),
    Contains(ScalarSet),
    StartsWith(String),
    EndsWith(String),
    Regex(Box<Regex>),
    Exists(bool),
    LengthAtMost(u64),
    SubsetOf(ScalarSet),
    PathWithin(DirectoryPath),
    HostIn(Vec<HostPattern>),
}

string_enum! {
    /// Result of a condition or a predicate.
    ConditionResult {
        /// The condition or predicate holds.
        True = "true",
        /// The condition or predicate does not hold.
        False = "false",
        /// The value at the path is missing or null.
        Absent = "absent",
        /// The value has a type that the operator cannot compare.
        Mismatch = "mismatch",
    }
}

/// Whether a condition on a path with `[*]` must hold for all elements or for at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    /// The condition must hold for all elements; used for `require`.
    All,
    /// The condition must hold for at least one element; used for `deny_if` and `approve_if`.
    Any,
}

impl ConditionResult {
    fn of(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }

    /// Combines two results that must both be true. If they differ, the one that comes first in this order is returned:
    /// false, mismatch, absent, true.
    pub(crate) fn and(self, other: Self) -> Self {
        let rank = |result| match result {
            Self::Mismatch if mutant!("mismatch-wins-over-false") => -1,
            Self::False => 0,
            Self::Mismatch => 1,
            Self::Absent => 2,
            Self::True => 3,
        };
        if rank(other) < rank(self) { other } else { self }
    }

    /// Combines two results, at least one of which must be true. If they differ, the one that comes first in this order
    /// is returned: mismatch, true, absent, false.
    fn or(self, other: Self) -> Self {
        let rank = |result| match result {
            Self::True if mutant!("true-wins-over-mismatch") => -1,
            Self::Mismatch => 0,
            Self::True => 1,
            Self::Absent => 2,
            Self::False => 3,
        };
        if rank(other) < rank(self) { other } else { self }
    }
}

/// Time of the evaluation, and the time zone for `time` facts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EvaluationTime<'a> {
    pub at: Timestamp,
    pub time_zone: &'a TimeZone,
}

/// Maximum number of list elements that one condition examines; longer lists give a mismatch. This bounds the cost: a
/// call can contain two million elements, and a block can have hundreds of conditions on them.
const MAX_ELEMENTS: usize = 50_000;

impl Condition {
    pub fn evaluate(&self, call: &Call<'_>, time: EvaluationTime<'_>, quantifier: Quantifier) -> ConditionResult {
        if self.path.root != CallPathRoot::Args {
            let found = call_fact(&self.path.root, call, time);
            return self.compiled.evaluate(found.as_ref());
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
            return self.compiled.evaluate(None);
        }
        let Some((segment, rest)) = segments.split_first() else {
            return self.compiled.evaluate(Some(&CallValue::of(value)));
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
            None => self.compiled.evaluate(None),
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
                self.compiled.evaluate(Some(&CallValue::Text(uri.into())))
            }
            [CallPathSegment::Name(name), ..] if **name == *"uri" => ConditionResult::Mismatch,
            other => self.evaluate_missing(other),
        }
    }

    /// Evaluates the condition for a call without arguments, as if the arguments were an empty object.
    fn evaluate_missing(&self, segments: &[CallPathSegment]) -> ConditionResult {
        match segments.first() {
            None => self.compiled.evaluate(Some(&CallValue::Other)),
            Some(CallPathSegment::Name(_)) => self.compiled.evaluate(None),
            Some(CallPathSegment::Index(_) | CallPathSegment::Wildcard) => ConditionResult::Mismatch,
        }
    }
}

pub(crate) const HOUR_TEXTS: [&str; 24] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20",
    "21", "22", "23",
];

/// Looks up a fact about the call other than an argument. `None` if the fact is unknown.
pub(crate) fn call_fact<'a>(root: &CallPathRoot, call: &Call<'a>, time: EvaluationTime<'_>) -> Option<CallValue<'a>> {
    let text = |text: &'a str| CallValue::Text(Cow::Borrowed(text));
    let zoned = || time.at.to_zoned(time.time_zone.clone());
    match (root, call.target) {
        (CallPathRoot::Args, _) => None,
        (CallPathRoot::ToolName, CallTarget::Tool(tool)) => Some(text(tool.name)),
        (CallPathRoot::ToolCategory, CallTarget::Tool(tool)) => Some(text(tool.effective_category().as_str())),
        (CallPathRoot::ToolLevel, CallTarget::Tool(tool)) => Some(text(tool.effective_category().level())),
        (CallPathRoot::ToolName | CallPathRoot::ToolCategory | CallPathRoot::ToolLevel, _) => None,
        (CallPathRoot::ServerName, _) => call.server.map(text),
        (CallPathRoot::GrantLabel, _) => call.client.grant_label.map(text),
        (CallPathRoot::GrantLabels(key), _) => {
            call.client.grant_labels.and_then(|labels| labels.get(&**key)).map(|label| text(label))
        }
        (CallPathRoot::ClientName, _) => call.client.client_name.map(text),
        (CallPathRoot::ClientVersion, _) => call.client.client_version.map(text),
        (CallPathRoot::TimeHour, _) => {
            let hour = HOUR_TEXTS.get(usize::try_from(zoned().hour()).unwrap_or_default())?;
            Decimal::new(hour).map(CallValue::Number)
        }
        (CallPathRoot::TimeWeekday, _) => Some(text(weekday_name(zoned().weekday()))),
        (CallPathRoot::TimeDate, _) => Some(CallValue::Text(zoned().date().to_string().into())),
    }
}

pub(crate) fn weekday_name(day: jiff::civil::Weekday) -> &'static str {
    use jiff::civil::Weekday;
    match day {
        Weekday::Monday => "mon",
        Weekday::Tuesday => "tue",
        Weekday::Wednesday => "wed",
        Weekday::Thursday => "thu",
        Weekday::Friday => "fri",
        Weekday::Saturday => "sat",
        Weekday::Sunday => "sun",
    }
}

impl CompiledOperator {
    /// Applies the operator to the value at the path. `None` means that there is no value.
    fn evaluate(&self, found: Option<&CallValue<'_>>) -> ConditionResult {
        if let Self::Exists(expected) = self {
            return ConditionResult::of(found.is_some() == *expected);
        }
        let Some(operand) = found else { return ConditionResult::Absent };
        self.holds(operand).map_or(ConditionResult::Mismatch, ConditionResult::of)
    }

    /// Returns whether the operator holds, or `None` if it cannot compare this type of operand.
    pub(crate) fn holds(&self, operand: &CallValue<'_>) -> Option<bool> {
        match (self, operand) {
            (Self::MemberOf { members, negated }, operand) => {
                members.contains(operand).map(|is_member| is_member != *negated)
            }
            (Self::Less(bound), CallValue::Number(number)) => Some(*number < bound.value()),
            (Self::LessOrEqual(bound), CallValue::Number(number)) => Some(*number <= bound.value()),
            (Self::Greater(bound), CallValue::Number(number)) => Some(*number > bound.value()),
            (Self::GreaterOrEqual(bound), CallValue::Number(number)) => Some(*number >= bound.value()),
            (Self::Contains(wanted), CallValue::List(list)) => {
                let found = list.elements().take(MAX_ELEMENTS).any(|element| wanted.contains_element(element));
                // A match could follow after the elements that were examined.
                (found || !exceeds_max_elements(list)).then_some(found)
            }
            (Self::Contains(wanted), CallValue::Text(text)) => wanted.first_text().map(|part| text.contains(part)),
            (Self::StartsWith(start), CallValue::Text(text)) => Some(text.starts_with(start)),
            (Self::EndsWith(end), CallValue::Text(text)) => Some(text.ends_with(end)),
            (Self::Regex(regex), CallValue::Text(text)) => Some(regex.is_match(text)),
            (Self::LengthAtMost(max), CallValue::Text(text)) => Some(text.chars().count() as u64 <= *max),
            (Self::LengthAtMost(max), CallValue::List(list)) => {
                let max = usize::try_from(*max).unwrap_or(usize::MAX);
                Some(list.elements().nth(max).is_none())
            }
            (Self::SubsetOf(set), CallValue::List(list)) => {
                let is_empty = list.elements().next().is_none();
                let is_subset = list.elements().take(MAX_ELEMENTS).all(|element| set.contains_element(element));
                (!is_subset || !exceeds_max_elements(list)).then_some(!is_empty && is_subset)
            }
            (Self::PathWithin(directory), CallValue::Text(text)) => directory.contains(text),
            (Self::HostIn(members), CallValue::Text(text)) => host_in(text, members),
            (
                Self::Less(_)
                | Self::LessOrEqual(_)
                | Self::Greater(_)
                | Self::GreaterOrEqual(_)
                | Self::Contains(_)
                | Self::StartsWith(_)
                | Self::EndsWith(_)
                | Self::Regex(_)
                | Self::Exists(_)
                | Self::LengthAtMost(_)
                | Self::SubsetOf(_)
                | Self::PathWithin(_)
                | Self::HostIn(_),
                _,
            ) => None,
        }
    }
}

/// Returns whether a list has more than [`MAX_ELEMENTS`] elements.
fn exceeds_max_elements(list: &JsonValue<'_>) -> bool {
    list.elements().nth(MAX_ELEMENTS).is_some()
}
