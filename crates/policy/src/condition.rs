//! Conditions: an operator held against what a path finds, with three answers besides true.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use gatelodge_json::{Decimal, JsonKind, JsonValue};
use gatelodge_mutants::mutant;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use regex::Regex;

use crate::call::{Call, CallTarget};
use crate::call_path::{CallPath, PathRoot, PathSegment};
use crate::host_in::{HostPattern, host_in};
use crate::limit::string_enum;
use crate::path_within::DirectoryPath;
use crate::scalar::{DecimalText, Operand, ScalarSet};

/// One `{"path", "op", "value"}`.
#[derive(Debug)]
pub(crate) struct Condition {
    /// Shared by all conditions that look there: tools often have arguments of the same name.
    pub path: Arc<CallPath>,
    pub operator: Operator,
    pub compiled: CompiledOperator,
    /// The value as JSON, for people.
    pub expected_json: Box<str>,
    /// Where it stands in the document.
    pub span: Range<usize>,
}

string_enum! {
    /// The operators, by their words.
    Operator {
        /// Equal.
        Eq = "eq",
        /// Not equal.
        Neq = "neq",
        /// Equal to a member.
        In = "in",
        /// Equal to no member.
        NotIn = "not_in",
        /// Less.
        Lt = "lt",
        /// Less or equal.
        Lte = "lte",
        /// More.
        Gt = "gt",
        /// More or equal.
        Gte = "gte",
        /// A string in a string, or a scalar in a list.
        Contains = "contains",
        /// The beginning of a string.
        StartsWith = "starts_with",
        /// The end of a string.
        EndsWith = "ends_with",
        /// Found anywhere in a string.
        Regex = "regex",
        /// Present and not null, or not.
        Exists = "exists",
        /// Code points of a string, or elements of a list.
        LengthLte = "length_lte",
        /// Every element of a list is a member.
        SubsetOf = "subset_of",
        /// A file path in a directory.
        PathWithin = "path_within",
        /// The host of a URL is a member.
        HostIn = "host_in",
    }
}

/// What an operator tests, with its value made ready.
#[derive(Debug)]
pub(crate) enum CompiledOperator {
    /// `eq`, `in`; with `negated`, `neq`, `not_in`.
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
    /// What a condition or a predicate says of a call.
    Answer {
        /// It holds.
        True = "true",
        /// It does not hold.
        False = "false",
        /// What it looks at is not there.
        Absent = "absent",
        /// What it looks at cannot be compared.
        Mismatch = "mismatch",
    }
}

/// Whether all elements under a `[*]` must hold, or one is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    /// `require`.
    All,
    /// `deny_if`, `approve_if`.
    Any,
}

impl Answer {
    fn of(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }

    /// False wins over mismatch, mismatch over absent, absent over true.
    pub(crate) fn and(self, other: Self) -> Self {
        let rank = |answer| match answer {
            Self::Mismatch if mutant!("mismatch-wins-over-false") => -1,
            Self::False => 0,
            Self::Mismatch => 1,
            Self::Absent => 2,
            Self::True => 3,
        };
        if rank(other) < rank(self) { other } else { self }
    }

    /// Mismatch wins over true, true over absent, absent over false.
    fn or(self, other: Self) -> Self {
        let rank = |answer| match answer {
            Self::True if mutant!("true-wins-over-mismatch") => -1,
            Self::Mismatch => 0,
            Self::True => 1,
            Self::Absent => 2,
            Self::False => 3,
        };
        if rank(other) < rank(self) { other } else { self }
    }
}

/// When a call is judged, and in which zone its `time` facts are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EvaluationTime<'a> {
    pub at: Timestamp,
    pub time_zone: &'a TimeZone,
}

/// More elements than this are not looked at for one condition: what would cost too much to judge is a mismatch. A call
/// can hold two million, and a block hundreds of conditions on them.
const MAX_ELEMENTS: usize = 50_000;

impl Condition {
    pub fn evaluate(&self, call: &Call<'_>, moment: EvaluationTime<'_>, polarity: Quantifier) -> Answer {
        if self.path.root != PathRoot::Args {
            let found = call_fact(&self.path.root, call, moment);
            return self.compiled.evaluate(found.as_ref());
        }
        let segments = self.path.segments.as_slice();
        match (call.target, call.arguments) {
            (CallTarget::Resource { uri }, _) => self.evaluate_resource(uri, segments),
            (_, Some(arguments)) => {
                let mut looked_at = 0;
                let answer = self.evaluate_at(arguments, segments, polarity, &mut looked_at);
                if looked_at > MAX_ELEMENTS { Answer::Mismatch } else { answer }
            }
            (_, None) => self.evaluate_missing(segments),
        }
    }

    /// Goes down the path; null counts as not there, and so does everything beneath it.
    fn evaluate_at(
        &self,
        value: JsonValue<'_>,
        segments: &[PathSegment],
        polarity: Quantifier,
        looked_at: &mut usize,
    ) -> Answer {
        let is_kept_null = mutant!("null-treated-as-value") && segments.is_empty();
        if value.kind() == JsonKind::Null && !is_kept_null {
            return self.compiled.evaluate(None);
        }
        let Some((segment, rest)) = segments.split_first() else {
            return self.compiled.evaluate(Some(&Operand::of(value)));
        };
        let next = match (segment, value.kind()) {
            (PathSegment::Name(name), JsonKind::Object) if mutant!("dotted-key-read-as-path") => {
                name.split('.').try_fold(value, |value, part| value.get(part))
            }
            (PathSegment::Name(name), JsonKind::Object) => value.get(name),
            (PathSegment::Index(index), JsonKind::Array) => value.elements().nth(*index),
            (PathSegment::Wildcard, JsonKind::Array) => {
                return self.evaluate_elements(value, rest, polarity, looked_at);
            }
            _ => return Answer::Mismatch,
        };
        match next {
            Some(next) => self.evaluate_at(next, rest, polarity, looked_at),
            None => self.compiled.evaluate(None),
        }
    }

    /// Over an empty list nothing holds. Beyond [`MAX_ELEMENTS`] the answer means nothing.
    fn evaluate_elements(
        &self,
        list: JsonValue<'_>,
        rest: &[PathSegment],
        polarity: Quantifier,
        looked_at: &mut usize,
    ) -> Answer {
        let mut all: Option<Answer> = None;
        for element in list.elements() {
            *looked_at += 1;
            if *looked_at > MAX_ELEMENTS {
                break;
            }
            let answer = self.evaluate_at(element, rest, polarity, looked_at);
            all = Some(match (all, polarity) {
                (None, _) => answer,
                (Some(others), Quantifier::All) => others.and(answer),
                (Some(others), Quantifier::Any) => others.or(answer),
            });
        }
        all.unwrap_or(if mutant!("empty-list-matches") { Answer::True } else { Answer::False })
    }

    /// A resource's arguments are `{"uri": …}`.
    fn evaluate_resource(&self, uri: &str, segments: &[PathSegment]) -> Answer {
        match segments {
            [PathSegment::Name(name)] if **name == *"uri" => self.compiled.evaluate(Some(&Operand::Text(uri.into()))),
            [PathSegment::Name(name), ..] if **name == *"uri" => Answer::Mismatch,
            other => self.evaluate_missing(other),
        }
    }

    /// Arguments that are not there are an empty object.
    fn evaluate_missing(&self, segments: &[PathSegment]) -> Answer {
        match segments.first() {
            None => self.compiled.evaluate(Some(&Operand::Other)),
            Some(PathSegment::Name(_)) => self.compiled.evaluate(None),
            Some(PathSegment::Index(_) | PathSegment::Wildcard) => Answer::Mismatch,
        }
    }
}

pub(crate) const HOUR_TEXTS: [&str; 24] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20",
    "21", "22", "23",
];

/// Looks a fact up; none if it is not known.
pub(crate) fn call_fact<'a>(root: &PathRoot, call: &Call<'a>, moment: EvaluationTime<'_>) -> Option<Operand<'a>> {
    let text = |text: &'a str| Operand::Text(Cow::Borrowed(text));
    let time = || moment.at.to_zoned(moment.time_zone.clone());
    match (root, call.target) {
        (PathRoot::Args, _) => None,
        (PathRoot::ToolName, CallTarget::Tool(tool)) => Some(text(tool.name)),
        (PathRoot::ToolCategory, CallTarget::Tool(tool)) => Some(text(tool.effective_category().as_str())),
        (PathRoot::ToolLevel, CallTarget::Tool(tool)) => Some(text(tool.effective_category().level())),
        (PathRoot::ToolName | PathRoot::ToolCategory | PathRoot::ToolLevel, _) => None,
        (PathRoot::ServerName, _) => call.server.map(text),
        (PathRoot::GrantLabel, _) => call.client.grant_label.map(text),
        (PathRoot::GrantLabels(key), _) => {
            call.client.grant_labels.and_then(|labels| labels.get(&**key)).map(|label| text(label))
        }
        (PathRoot::ClientName, _) => call.client.client_name.map(text),
        (PathRoot::ClientVersion, _) => call.client.client_version.map(text),
        (PathRoot::TimeHour, _) => {
            let hour = HOUR_TEXTS.get(usize::try_from(time().hour()).unwrap_or_default())?;
            Decimal::new(hour).map(Operand::Number)
        }
        (PathRoot::TimeWeekday, _) => Some(text(weekday_name(time().weekday()))),
        (PathRoot::TimeDate, _) => Some(Operand::Text(time().date().to_string().into())),
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
    /// Holds the operator against what was found; none if nothing was there.
    fn evaluate(&self, found: Option<&Operand<'_>>) -> Answer {
        if let Self::Exists(expected) = self {
            return Answer::of(found.is_some() == *expected);
        }
        let Some(operand) = found else { return Answer::Absent };
        self.holds(operand).map_or(Answer::Mismatch, Answer::of)
    }

    /// Whether the operator holds; none if the operand is of a kind it cannot compare.
    pub(crate) fn holds(&self, operand: &Operand<'_>) -> Option<bool> {
        match (self, operand) {
            (Self::MemberOf { members, negated }, operand) => {
                members.contains(operand).map(|is_member| is_member != *negated)
            }
            (Self::Less(bound), Operand::Number(number)) => Some(*number < bound.value()),
            (Self::LessOrEqual(bound), Operand::Number(number)) => Some(*number <= bound.value()),
            (Self::Greater(bound), Operand::Number(number)) => Some(*number > bound.value()),
            (Self::GreaterOrEqual(bound), Operand::Number(number)) => Some(*number >= bound.value()),
            (Self::Contains(wanted), Operand::List(list)) => {
                let found = list.elements().take(MAX_ELEMENTS).any(|element| wanted.contains_element(element));
                // Behind what was looked at it may stand all the same.
                (found || !exceeds_max_elements(list)).then_some(found)
            }
            (Self::Contains(wanted), Operand::Text(text)) => wanted.first_text().map(|part| text.contains(part)),
            (Self::StartsWith(start), Operand::Text(text)) => Some(text.starts_with(start)),
            (Self::EndsWith(end), Operand::Text(text)) => Some(text.ends_with(end)),
            (Self::Regex(regex), Operand::Text(text)) => Some(regex.is_match(text)),
            (Self::LengthAtMost(max), Operand::Text(text)) => Some(text.chars().count() as u64 <= *max),
            (Self::LengthAtMost(max), Operand::List(list)) => {
                let max = usize::try_from(*max).unwrap_or(usize::MAX);
                Some(list.elements().nth(max).is_none())
            }
            (Self::SubsetOf(set), Operand::List(list)) => {
                let is_empty = list.elements().next().is_none();
                let is_subset = list.elements().take(MAX_ELEMENTS).all(|element| set.contains_element(element));
                (!is_subset || !exceeds_max_elements(list)).then_some(!is_empty && is_subset)
            }
            (Self::PathWithin(directory), Operand::Text(text)) => directory.contains(text),
            (Self::HostIn(members), Operand::Text(text)) => host_in(text, members),
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

/// Whether a list has more elements than are looked at.
fn exceeds_max_elements(list: &JsonValue<'_>) -> bool {
    list.elements().nth(MAX_ELEMENTS).is_some()
}
