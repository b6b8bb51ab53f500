//! `eq`, `neq`, `in` and `not_in`: the value equals a scalar or a member of a list, or does not.
//!
//! They share a file because all four look up a value in a set; they differ in how the set is written, and in whether
//! being a member is what is wanted. A value that has the type of no member is a mismatch, for `neq` and `not_in` as
//! well.

use serde_json::Value;

use super::ConditionOperator;
use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use super::scalar_set::ScalarSet;
use super::value_restriction::ValueRestriction;
use super::value_schema::{SCALAR_DEFINITION, SCALARS_DEFINITION, ref_schema};
use crate::call::call_value::CallValue;

#[derive(Debug)]
pub(crate) struct EqOperator(ScalarSet);

impl ConditionOperator for EqOperator {
    const WORD: &'static str = "eq";
    const HELP: &'static str = "Equal to a string, number or boolean.";

    fn value_schema() -> Value {
        ref_schema(SCALAR_DEFINITION)
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_scalar().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        self.0.kind_set()
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        self.0.contains(found)
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::Member(&self.0)
    }
}

#[derive(Debug)]
pub(crate) struct NeqOperator(ScalarSet);

impl ConditionOperator for NeqOperator {
    const WORD: &'static str = "neq";
    const HELP: &'static str = "Not equal to a string, number or boolean.";

    fn value_schema() -> Value {
        ref_schema(SCALAR_DEFINITION)
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_scalar().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        self.0.kind_set()
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        self.0.contains(found).map(|is_member| !is_member)
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::NoMember
    }
}

#[derive(Debug)]
pub(crate) struct InOperator(ScalarSet);

impl ConditionOperator for InOperator {
    const WORD: &'static str = "in";
    const HELP: &'static str = "Equal to a member of a list.";

    fn value_schema() -> Value {
        ref_schema(SCALARS_DEFINITION)
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_scalars().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        self.0.kind_set()
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        self.0.contains(found)
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::Member(&self.0)
    }
}

#[derive(Debug)]
pub(crate) struct NotInOperator(ScalarSet);

impl ConditionOperator for NotInOperator {
    const WORD: &'static str = "not_in";
    const HELP: &'static str = "Equal to no member of a list.";

    fn value_schema() -> Value {
        ref_schema(SCALARS_DEFINITION)
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        reader.read_scalars().map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        self.0.kind_set()
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        self.0.contains(found).map(|is_member| !is_member)
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::NoMember
    }
}
