//! `exists`: with `true`, the value is present and not null; with `false`, it is absent or null.
//!
//! It is the only operator for which an absent value is not a result of its own.

use serde_json::{Value, json};

use super::ConditionOperator;
use super::condition_result::ConditionResult;
use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use super::value_restriction::ValueRestriction;
use crate::call::call_value::CallValue;

/// Holds whether the value must be present.
#[derive(Debug)]
pub(crate) struct ExistsOperator(bool);

impl ConditionOperator for ExistsOperator {
    const WORD: &'static str = "exists";
    const HELP: &'static str = "Whether the value is present and not null.";

    fn value_schema() -> Value {
        json!({ "type": "boolean" })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_bool().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::ALL
    }

    fn holds(&self, _: &CallValue<'_>) -> Option<bool> {
        Some(self.0)
    }

    fn absent_result(&self) -> ConditionResult {
        ConditionResult::of(!self.0)
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        if self.0 { ValueRestriction::Presence } else { ValueRestriction::Absence }
    }
}
