//! `lt`, `lte`, `gt` and `gte`: the value is a number less than, at most, more than or at least another one.
//!
//! They share a file because they differ only in direction, which is easier to compare when they are next to each other.
//! Numbers are compared exactly, whatever their notation.

use serde_json::{Value, json};

use super::ConditionOperator;
use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use super::scalar_set::DecimalText;
use super::value_restriction::{NumericLimit, ValueRestriction};
use crate::call::call_value::CallValue;

#[derive(Debug)]
pub(crate) struct LtOperator(DecimalText);

impl ConditionOperator for LtOperator {
    const WORD: &'static str = "lt";
    const HELP: &'static str = "Less than a number.";

    fn value_schema() -> Value {
        json!({ "type": "number" })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_number().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::NUMBER
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        Some(found.as_number()? < self.0.value())
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::AtMost(NumericLimit { number: &self.0, is_exclusive: true })
    }
}

#[derive(Debug)]
pub(crate) struct LteOperator(DecimalText);

impl ConditionOperator for LteOperator {
    const WORD: &'static str = "lte";
    const HELP: &'static str = "Less than or equal to a number.";

    fn value_schema() -> Value {
        json!({ "type": "number" })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_number().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::NUMBER
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        Some(found.as_number()? <= self.0.value())
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::AtMost(NumericLimit { number: &self.0, is_exclusive: false })
    }
}

#[derive(Debug)]
pub(crate) struct GtOperator(DecimalText);

impl ConditionOperator for GtOperator {
    const WORD: &'static str = "gt";
    const HELP: &'static str = "Greater than a number.";

    fn value_schema() -> Value {
        json!({ "type": "number" })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_number().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::NUMBER
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        Some(found.as_number()? > self.0.value())
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::AtLeast(NumericLimit { number: &self.0, is_exclusive: true })
    }
}

#[derive(Debug)]
pub(crate) struct GteOperator(DecimalText);

impl ConditionOperator for GteOperator {
    const WORD: &'static str = "gte";
    const HELP: &'static str = "Greater than or equal to a number.";

    fn value_schema() -> Value {
        json!({ "type": "number" })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_number().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::NUMBER
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        Some(found.as_number()? >= self.0.value())
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::AtLeast(NumericLimit { number: &self.0, is_exclusive: false })
    }
}
