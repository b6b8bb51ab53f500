//! `length_lte`: the value is a string of at most so many code points, or a list of at most so many elements.

use serde_json::{Value, json};

use super::ConditionOperator;
use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use crate::call::call_value::CallValue;
use crate::syntax::diagnostic::DiagnosticCode;

const BILLIONTHS_PER_UNIT: i128 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct LengthLteOperator(u64);

impl ConditionOperator for LengthLteOperator {
    const WORD: &'static str = "length_lte";
    const HELP: &'static str = "Maximum number of code points of a string, or elements of a list.";

    fn value_schema() -> Value {
        json!({ "type": "integer", "minimum": 0 })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        let number = reader.read_number()?;
        let decimal = number.value();
        if decimal.is_negative() || !decimal.is_integer() {
            let message = "the value of `length_lte` must be a non-negative whole number";
            reader.report(DiagnosticCode::BadValue, message, "write a number such as 200");
            return None;
        }
        let length = decimal.billionths().and_then(|billionths| u64::try_from(billionths / BILLIONTHS_PER_UNIT).ok());
        // Any larger number is longer than every text.
        Some(Self(length.unwrap_or(u64::MAX)))
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::STRING.or(JsonKindSet::LIST)
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        match found {
            CallValue::Text(text) => Some(text.chars().count() as u64 <= self.0),
            CallValue::List(list) => {
                let max = usize::try_from(self.0).unwrap_or(usize::MAX);
                Some(list.elements().nth(max).is_none())
            }
            CallValue::Number(_) | CallValue::Bool(_) | CallValue::Other => None,
        }
    }
}
