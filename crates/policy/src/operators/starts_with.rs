//! `starts_with`: the value is a string that starts with the expected one.

use serde_json::{Value, json};

use super::ConditionOperator;
use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use super::value_restriction::ValueRestriction;
use crate::call::call_value::CallValue;

#[derive(Debug)]
pub(crate) struct StartsWithOperator(String);

impl ConditionOperator for StartsWithOperator {
    const WORD: &'static str = "starts_with";
    const HELP: &'static str = "A string starts with this.";

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
        Some(found.as_text()?.starts_with(&self.0))
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::Prefix(&self.0)
    }
}
