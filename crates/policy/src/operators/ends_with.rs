//! `ends_with`: the value is a string that ends with the expected one.

use serde_json::{Value, json};

use super::ConditionOperator;
use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use super::value_restriction::ValueRestriction;
use crate::call::call_value::CallValue;

#[derive(Debug)]
pub(crate) struct EndsWithOperator(String);

impl ConditionOperator for EndsWithOperator {
    const WORD: &'static str = "ends_with";
    const HELP: &'static str = "A string ends with this.";

    fn value_schema() -> Value {
        json!({ "type": "string" })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_text().map(|text| Self(text.to_owned()))
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::STRING
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        Some(found.as_text()?.ends_with(&self.0))
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::Suffix(&self.0)
    }
}
