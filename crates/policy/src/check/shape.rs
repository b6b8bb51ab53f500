//! What is known of a value before any call: its kinds, its bounds, the values it can have.
//!
//! A shape never excludes a value that could come; where nothing is known, it is any value.

use std::cmp::Ordering;
use std::fmt;

use gatelodge_json::{Decimal, JsonKind};
use jiff::civil::Weekday;

use crate::call::Category;
use crate::call_path::PathRoot;
use crate::condition::{CompiledOperator, HOUR_TEXTS, weekday_name};
use crate::scalar::{DecimalText, ScalarSet};

/// A set of kinds. Null is none: it counts as not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub const NONE: Self = Self(0);
    pub const BOOL: Self = Self(1);
    pub const NUMBER: Self = Self(2);
    pub const STRING: Self = Self(4);
    pub const LIST: Self = Self(8);
    pub const OBJECT: Self = Self(16);
    pub const ALL: Self = Self(31);

    pub fn of(kind: JsonKind) -> Self {
        match kind {
            JsonKind::Null => Self::NONE,
            JsonKind::Bool => Self::BOOL,
            JsonKind::Number => Self::NUMBER,
            JsonKind::String => Self::STRING,
            JsonKind::Array => Self::LIST,
            JsonKind::Object => Self::OBJECT,
        }
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn has(self, other: Self) -> bool {
        !self.and(other).is_empty()
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [JsonKind::Bool, JsonKind::Number, JsonKind::String, JsonKind::Array, JsonKind::Object];
        let own = kinds.into_iter().filter(|kind| self.has(Self::of(*kind)));
        let words: Vec<&str> = own.map(JsonKind::with_article).collect();
        f.write_str(&words.join(" or "))
    }
}

/// The kinds that an operator can hold for. All others are a mismatch.
pub(super) fn accepted(test: &CompiledOperator) -> Kinds {
    match test {
        CompiledOperator::MemberOf { members, .. } => members.kinds().map(Kinds::of).fold(Kinds::NONE, Kinds::or),
        CompiledOperator::Less(_)
        | CompiledOperator::LessOrEqual(_)
        | CompiledOperator::Greater(_)
        | CompiledOperator::GreaterOrEqual(_) => Kinds::NUMBER,
        CompiledOperator::Contains(wanted) if wanted.first_text().is_some() => Kinds::STRING.or(Kinds::LIST),
        CompiledOperator::Contains(_) | CompiledOperator::SubsetOf(_) => Kinds::LIST,
        CompiledOperator::StartsWith(_) | CompiledOperator::EndsWith(_) | CompiledOperator::Regex(_) => Kinds::STRING,
        CompiledOperator::PathWithin(_) | CompiledOperator::HostIn(_) => Kinds::STRING,
        CompiledOperator::LengthAtMost(_) => Kinds::STRING.or(Kinds::LIST),
        CompiledOperator::Exists(_) => Kinds::ALL,
    }
}

/// One end of a range of numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound<'d> {
    pub number: Decimal<'d>,
    /// The number as it is written.
    pub text: &'d str,
    /// Whether the number itself lies outside.
    pub is_open: bool,
}

/// Which values can come.
#[derive(Debug)]
pub(super) enum Values {
    Any,
    /// Only these.
    Listed(ScalarSet),
    /// Texts such as `2026-11-15`.
    Dates,
}

/// What is known of a value.
#[derive(Debug)]
pub(super) struct Shape<'d> {
    pub kinds: Kinds,
    pub values: Values,
    pub minimum: Option<Bound<'d>>,
    pub maximum: Option<Bound<'d>>,
}

impl<'d> Shape<'d> {
    pub const ANY: Self = Self { kinds: Kinds::ALL, values: Values::Any, minimum: None, maximum: None };

    /// The shape of a fact outside the arguments.
    pub fn of_fact(root: &PathRoot) -> Option<Self> {
        let categories = || Category::WORDS.iter().filter_map(|word| Category::from_word(word));
        let (kinds, values) = match root {
            PathRoot::Args => return None,
            PathRoot::TimeHour => {
                let mut hours = ScalarSet::default();
                HOUR_TEXTS.iter().filter_map(|hour| DecimalText::new(hour)).for_each(|hour| hours.add_number(hour));
                (Kinds::NUMBER, Values::Listed(hours.sorted()))
            }
            PathRoot::TimeWeekday => (Kinds::STRING, words(Weekday::Monday.cycle_forward().take(7).map(weekday_name))),
            PathRoot::TimeDate => (Kinds::STRING, Values::Dates),
            PathRoot::ToolCategory => (Kinds::STRING, words(categories().map(Category::as_str))),
            PathRoot::ToolLevel => (Kinds::STRING, words(categories().map(Category::level))),
            PathRoot::ToolName | PathRoot::ServerName | PathRoot::GrantLabel | PathRoot::GrantLabels(_) => {
                (Kinds::STRING, Values::Any)
            }
            PathRoot::ClientName | PathRoot::ClientVersion => (Kinds::STRING, Values::Any),
        };
        Some(Self { kinds, values, ..Shape::ANY })
    }

    /// Whether a number lies within the bounds.
    pub fn is_within(&self, number: Decimal<'_>) -> bool {
        let is_in = |bound: Bound<'_>, outside| match number.cmp(&bound.number) {
            Ordering::Equal => !bound.is_open,
            order => order != outside,
        };
        self.minimum.is_none_or(|bound| is_in(bound, Ordering::Less))
            && self.maximum.is_none_or(|bound| is_in(bound, Ordering::Greater))
    }

    /// What satisfies both.
    pub fn and(self, other: Self) -> Self {
        Self {
            kinds: self.kinds.and(other.kinds),
            values: match (self.values, other.values) {
                (Values::Any, values) | (values, _) => values,
            },
            minimum: narrower(self.minimum, other.minimum, Ordering::Greater),
            maximum: narrower(self.maximum, other.maximum, Ordering::Less),
        }
    }

    /// What satisfies one of the two. A shape without kinds is null alone, and adds nothing.
    pub fn or(self, other: Self) -> Self {
        if self.kinds.is_empty() {
            return other;
        }
        if other.kinds.is_empty() {
            return self;
        }
        let (minimum, maximum) = match (self.kinds.has(Kinds::NUMBER), other.kinds.has(Kinds::NUMBER)) {
            (true, false) => (self.minimum, self.maximum),
            (false, true) => (other.minimum, other.maximum),
            _ => (
                wider(self.minimum, other.minimum, Ordering::Less),
                wider(self.maximum, other.maximum, Ordering::Greater),
            ),
        };
        let values = match (self.values, other.values) {
            (Values::Listed(values), Values::Listed(more)) => Values::Listed(values.union(more)),
            _ => Values::Any,
        };
        Self { kinds: self.kinds.or(other.kinds), values, minimum, maximum }
    }
}

fn words(words: impl Iterator<Item = &'static str>) -> Values {
    let mut texts = ScalarSet::default();
    words.for_each(|word| texts.add_text(word));
    Values::Listed(texts.sorted())
}

/// The bound that leaves less: the one that compares so, and of equals an open one.
fn narrower<'d>(a: Option<Bound<'d>>, b: Option<Bound<'d>>, wins: Ordering) -> Option<Bound<'d>> {
    let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
    Some(match first.number.cmp(&second.number) {
        Ordering::Equal => Bound { is_open: first.is_open || second.is_open, ..first },
        order if order == wins => first,
        _ => second,
    })
}

/// The bound that leaves more: none if one of them is not there.
fn wider<'d>(a: Option<Bound<'d>>, b: Option<Bound<'d>>, wins: Ordering) -> Option<Bound<'d>> {
    let (first, second) = (a?, b?);
    Some(match first.number.cmp(&second.number) {
        Ordering::Equal => Bound { is_open: first.is_open && second.is_open, ..first },
        order if order == wins => first,
        _ => second,
    })
}
