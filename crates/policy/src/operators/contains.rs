//! `contains`: the value is a string with the expected string in it, or a list with the expected scalar as an element.

use serde_json::Value;

use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use super::scalar_set::ScalarSet;
use super::value_schema::{SCALAR_DEFINITION, ref_schema};
use super::{ConditionOperator, MAX_ELEMENTS, exceeds_max_elements};
use crate::call::call_value::CallValue;

#[derive(Debug)]
pub(crate) struct ContainsOperator(ScalarSet);

impl ConditionOperator for ContainsOperator {
    const WORD: &'static str = "contains";
    const HELP: &'static str = "A string contains a string, or a list contains a string, number or boolean.";

    fn value_schema() -> Value {
        ref_schema(SCALAR_DEFINITION)
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_scalar().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        match self.0.first_text() {
            Some(_) => JsonKindSet::STRING.or(JsonKindSet::LIST),
            None => JsonKindSet::LIST,
        }
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        match found {
            CallValue::List(list) => {
                let is_found = list.elements().take(MAX_ELEMENTS).any(|element| self.0.contains_element(element));
                // A match could follow after the elements that were examined.
                (is_found || !exceeds_max_elements(list)).then_some(is_found)
            }
            CallValue::Text(text) => self.0.first_text().map(|part| text.contains(part)),
            CallValue::Number(_) | CallValue::Bool(_) | CallValue::Other => None,
        }
    }
}
