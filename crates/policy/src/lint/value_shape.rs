//! What is known about a value before any call is made: its types, bounds and possible values.
//!
//! A shape never excludes a value that is possible. If nothing is known about a value, its shape allows anything.

use std::cmp::Ordering;

use gatelodge_json::Decimal;
use jiff::civil::Weekday;

use crate::call::Category;
use crate::call::call_path::CallPathRoot;
use crate::eval::call_fact::{HOUR_TEXTS, weekday_name};
use crate::operators::json_kind_set::JsonKindSet;
use crate::operators::scalar_set::{DecimalText, ScalarSet};

/// One end of a range of numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumericBound<'d> {
    pub number: Decimal<'d>,
    /// The number as written.
    pub text: &'d str,
    /// Whether the number itself is outside the range.
    pub is_exclusive: bool,
}

/// The values that a fact or an argument can have.
#[derive(Debug)]
pub(super) enum PossibleValues {
    Any,
    /// Only the values in this set.
    OneOf(ScalarSet),
    /// Dates, which are strings such as `2026-11-15`.
    Dates,
}

/// What is known about a value before any call is made.
#[derive(Debug)]
pub(super) struct ValueShape<'d> {
    pub kinds: JsonKindSet,
    pub values: PossibleValues,
    pub minimum: Option<NumericBound<'d>>,
    pub maximum: Option<NumericBound<'d>>,
}

impl<'d> ValueShape<'d> {
    pub const ANY: Self = Self { kinds: JsonKindSet::ALL, values: PossibleValues::Any, minimum: None, maximum: None };

    /// Returns the shape of a fact other than an argument. `None` for arguments.
    pub fn of_fact(root: &CallPathRoot) -> Option<Self> {
        let categories = || Category::WORDS.iter().filter_map(|word| Category::from_word(word));
        let (kinds, values) = match root {
            CallPathRoot::Args => return None,
            CallPathRoot::TimeHour => {
                let mut hours = ScalarSet::default();
                HOUR_TEXTS.iter().filter_map(|hour| DecimalText::new(hour)).for_each(|hour| hours.add_number(hour));
                (JsonKindSet::NUMBER, PossibleValues::OneOf(hours.sorted()))
            }
            CallPathRoot::TimeWeekday => {
                (JsonKindSet::STRING, values_from_words(Weekday::Monday.cycle_forward().take(7).map(weekday_name)))
            }
            CallPathRoot::TimeDate => (JsonKindSet::STRING, PossibleValues::Dates),
            CallPathRoot::ToolCategory => (JsonKindSet::STRING, values_from_words(categories().map(Category::as_str))),
            CallPathRoot::ToolLevel => (JsonKindSet::STRING, values_from_words(categories().map(Category::level))),
            CallPathRoot::ToolName
            | CallPathRoot::ServerName
            | CallPathRoot::GrantLabel
            | CallPathRoot::GrantLabels(_) => (JsonKindSet::STRING, PossibleValues::Any),
            CallPathRoot::ClientName | CallPathRoot::ClientVersion => (JsonKindSet::STRING, PossibleValues::Any),
        };
        Some(Self { kinds, values, ..ValueShape::ANY })
    }

    /// Returns whether a number is within the bounds.
    pub fn is_within(&self, number: Decimal<'_>) -> bool {
        let is_in = |bound: NumericBound<'_>, outside| match number.cmp(&bound.number) {
            Ordering::Equal => !bound.is_exclusive,
            order => order != outside,
        };
        self.minimum.is_none_or(|bound| is_in(bound, Ordering::Less))
            && self.maximum.is_none_or(|bound| is_in(bound, Ordering::Greater))
    }

    /// Returns the shape of values that satisfy both shapes.
    pub fn and(self, other: Self) -> Self {
        Self {
            kinds: self.kinds.and(other.kinds),
            values: match (self.values, other.values) {
                (PossibleValues::Any, values) | (values, _) => values,
            },
            minimum: narrower_bound(self.minimum, other.minimum, Ordering::Greater),
            maximum: narrower_bound(self.maximum, other.maximum, Ordering::Less),
        }
    }

    /// Returns the shape of values that satisfy at least one of the two shapes. A shape without kinds allows only null
    /// and is ignored.
    pub fn or(self, other: Self) -> Self {
        if self.kinds.is_empty() {
            return other;
        }
        if other.kinds.is_empty() {
            return self;
        }
        let (minimum, maximum) = match (self.kinds.has(JsonKindSet::NUMBER), other.kinds.has(JsonKindSet::NUMBER)) {
            (true, false) => (self.minimum, self.maximum),
            (false, true) => (other.minimum, other.maximum),
            _ => (
                wider_bound(self.minimum, other.minimum, Ordering::Less),
                wider_bound(self.maximum, other.maximum, Ordering::Greater),
            ),
        };
        let values = match (self.values, other.values) {
            (PossibleValues::OneOf(values), PossibleValues::OneOf(more)) => PossibleValues::OneOf(values.union(more)),
            _ => PossibleValues::Any,
        };
        Self { kinds: self.kinds.or(other.kinds), values, minimum, maximum }
    }
}

fn values_from_words(words: impl Iterator<Item = &'static str>) -> PossibleValues {
    let mut texts = ScalarSet::default();
    words.for_each(|word| texts.add_text(word));
    PossibleValues::OneOf(texts.sorted())
}

/// Returns the bound that allows fewer numbers. If both have the same number, an exclusive one takes precedence.
fn narrower_bound<'d>(
    a: Option<NumericBound<'d>>,
    b: Option<NumericBound<'d>>,
    wins: Ordering,
) -> Option<NumericBound<'d>> {
    let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
    Some(match first.number.cmp(&second.number) {
        Ordering::Equal => NumericBound { is_exclusive: first.is_exclusive || second.is_exclusive, ..first },
        order if order == wins => first,
        _ => second,
    })
}

/// Returns the bound that allows more numbers. `None` if either bound is missing.
fn wider_bound<'d>(
    a: Option<NumericBound<'d>>,
    b: Option<NumericBound<'d>>,
    wins: Ordering,
) -> Option<NumericBound<'d>> {
    let (first, second) = (a?, b?);
    Some(match first.number.cmp(&second.number) {
        Ordering::Equal => NumericBound { is_exclusive: first.is_exclusive && second.is_exclusive, ..first },
        order if order == wins => first,
        _ => second,
    })
}
