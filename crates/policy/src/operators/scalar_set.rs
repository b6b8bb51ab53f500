//! Scalars in policies: exact numbers, and sets of strings, numbers and booleans.

use std::borrow::Cow;

use gatelodge_json::{Decimal, JsonValue};

use super::json_kind_set::JsonKindSet;
use crate::call::call_value::CallValue;

/// The text of a valid decimal number.
#[derive(Debug, Clone)]
pub(crate) struct DecimalText(Box<str>);

impl DecimalText {
    pub fn new(text: &str) -> Option<Self> {
        Decimal::new(text).map(|_| Self(text.into()))
    }

    pub fn value(&self) -> Decimal<'_> {
        // INVARIANT: the constructor checked that the text is a number.
        Decimal::new(&self.0).unwrap_or(Decimal::ZERO)
    }
}

/// A set of scalars to compare values with, grouped by kind.
#[derive(Debug, Default)]
pub(crate) struct ScalarSet {
    texts: Vec<Box<str>>,
    numbers: Vec<DecimalText>,
    has_true: bool,
    has_false: bool,
}

impl ScalarSet {
    pub fn add_text(&mut self, text: &str) {
        self.texts.push(text.into());
    }

    pub fn add_number(&mut self, number: DecimalText) {
        self.numbers.push(number);
    }

    pub fn add_bool(&mut self, value: bool) {
        if value {
            self.has_true = true;
        } else {
            self.has_false = true;
        }
    }

    /// Sorts the members for binary search.
    pub fn sorted(mut self) -> Self {
        self.texts.sort_unstable();
        self.numbers.sort_unstable_by(|a, b| a.value().cmp(&b.value()));
        self
    }

    /// Returns whether the operand is a member. `None` if no member has the same kind as the operand.
    pub fn contains(&self, operand: &CallValue<'_>) -> Option<bool> {
        match operand {
            CallValue::Text(text) if !self.texts.is_empty() => {
                Some(self.texts.binary_search_by(|own| (**own).cmp(text)).is_ok())
            }
            CallValue::Number(number) if !self.numbers.is_empty() => {
                Some(self.numbers.binary_search_by(|own| own.value().cmp(number)).is_ok())
            }
            CallValue::Bool(true) if self.has_true || self.has_false => Some(self.has_true),
            CallValue::Bool(false) if self.has_true || self.has_false => Some(self.has_false),
            _ => None,
        }
    }

    pub fn contains_element(&self, element: JsonValue<'_>) -> bool {
        self.contains(&CallValue::of(element)) == Some(true)
    }

    /// Returns the first string in the set. For `contains` on a string, it is the substring to look for.
    pub fn first_text(&self) -> Option<&str> {
        self.texts.first().map(|text| &**text)
    }

    /// Returns the members as values that operators can be applied to.
    pub fn operands(&self) -> impl Iterator<Item = CallValue<'_>> {
        let texts = self.texts.iter().map(|text| CallValue::Text(Cow::Borrowed(text)));
        let numbers = self.numbers.iter().map(|number| CallValue::Number(number.value()));
        let bools = [(true, self.has_true), (false, self.has_false)];
        let bools = bools.into_iter().filter(|(_, has)| *has).map(|(value, _)| CallValue::Bool(value));
        texts.chain(numbers).chain(bools)
    }

    /// Returns the members as written, without quotes.
    pub fn member_texts(&self) -> impl Iterator<Item = &str> {
        let texts = self.texts.iter().map(|text| &**text);
        let numbers = self.numbers.iter().map(|number| &*number.0);
        let bools = [("true", self.has_true), ("false", self.has_false)];
        texts.chain(numbers).chain(bools.into_iter().filter(|(_, has)| *has).map(|(word, _)| word))
    }

    /// Returns the union of the two sets, sorted.
    pub fn union(mut self, other: Self) -> Self {
        self.texts.extend(other.texts);
        self.numbers.extend(other.numbers);
        self.has_true |= other.has_true;
        self.has_false |= other.has_false;
        self.sorted()
    }

    /// Returns the kinds of the members.
    pub fn kind_set(&self) -> JsonKindSet {
        let texts = (!self.texts.is_empty()).then_some(JsonKindSet::STRING);
        let numbers = (!self.numbers.is_empty()).then_some(JsonKindSet::NUMBER);
        let bools = (self.has_true || self.has_false).then_some(JsonKindSet::BOOL);
        [texts, numbers, bools].into_iter().flatten().fold(JsonKindSet::NONE, JsonKindSet::or)
    }
}
