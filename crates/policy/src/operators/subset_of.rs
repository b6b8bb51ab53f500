//! `subset_of`: the value is a list that is not empty and whose elements are all members of the expected list.

use serde_json::Value;

use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use super::scalar_set::ScalarSet;
use super::value_schema::{SCALARS_DEFINITION, ref_schema};
use super::{ConditionOperator, MAX_ELEMENTS, exceeds_max_elements};
use crate::call::call_value::CallValue;

#[derive(Debug)]
pub(crate) struct SubsetOfOperator(ScalarSet);

impl ConditionOperator for SubsetOfOperator {
    const WORD: &'static str = "subset_of";
    const HELP: &'static str = "A non-empty list whose elements are all members.";

    fn value_schema() -> Value {
        ref_schema(SCALARS_DEFINITION)
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_scalars().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::LIST
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        let CallValue::List(list) = found else { return None };
        let is_empty = list.elements().next().is_none();
        let is_subset = list.elements().take(MAX_ELEMENTS).all(|element| self.0.contains_element(element));
        (!is_subset || !exceeds_max_elements(list)).then_some(!is_empty && is_subset)
    }
}
