//! Conditions: an operator applied to the value at a path. The result is true, false, absent or mismatch.

use std::ops::Range;
use std::sync::Arc;

use gatelodge_json::JsonValue;
use regex::Regex;

use crate::call::call_path::CallPath;
use crate::operators::condition_result::ConditionResult;
use crate::operators::host_in::{HostPattern, host_in};
use crate::operators::path_within::DirectoryPath;
use crate::operators::scalar::{CallValue, DecimalText, ScalarSet};
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

/// Maximum number of list elements that one condition examines; longer lists give a mismatch. This bounds the cost: a
/// call can contain two million elements, and a block can have hundreds of conditions on them.
pub(crate) const MAX_ELEMENTS: usize = 50_000;

impl CompiledOperator {
    /// Applies the operator to the value at the path. `None` means that there is no value.
    pub(crate) fn evaluate(&self, found: Option<&CallValue<'_>>) -> ConditionResult {
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
