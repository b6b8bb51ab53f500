//! Operators of conditions: the table of all operators, and what each of them defines.
//!
//! Each operator is a type in a file of its own, which holds its word, how its value is compiled, how it is evaluated,
//! and its help and JSON Schema. Operators that differ only in direction share a file: [`equality`] and [`order`].
//! `docs/dev/extending.md` lists what else a new operator needs.
//!
//! The table expands to enums whose methods match on the operator. Evaluation therefore needs no virtual calls, and
//! compiled conditions need no allocation of their own for the operator.

pub(crate) mod condition_result;
mod contains;
mod ends_with;
mod equality;
mod exists;
mod expected_value_reader;
mod host_in;
pub(crate) mod json_kind_set;
mod length_lte;
mod operator_table;
mod order;
mod path_within;
mod regex;
pub(crate) mod scalar_set;
mod starts_with;
mod subset_of;
pub(crate) mod value_restriction;
pub(crate) mod value_schema;

use gatelodge_json::JsonValue;
use serde_json::Value;

use crate::call::call_value::CallValue;
use condition_result::ConditionResult;
pub(crate) use expected_value_reader::ExpectedValueReader;
use json_kind_set::JsonKindSet;
use operator_table::operator_table;
pub(crate) use regex::RegexBudget;
use value_restriction::ValueRestriction;

// The order is that of documentation, schema and error messages.
operator_table! {
    Eq = equality::EqOperator,
    Neq = equality::NeqOperator,
    In = equality::InOperator,
    NotIn = equality::NotInOperator,
    Lt = order::LtOperator,
    Lte = order::LteOperator,
    Gt = order::GtOperator,
    Gte = order::GteOperator,
    Contains = contains::ContainsOperator,
    StartsWith = starts_with::StartsWithOperator,
    EndsWith = ends_with::EndsWithOperator,
    Regex = regex::RegexOperator,
    Exists = exists::ExistsOperator,
    LengthLte = length_lte::LengthLteOperator,
    SubsetOf = subset_of::SubsetOfOperator,
    PathWithin = path_within::PathWithinOperator,
    HostIn = host_in::HostInOperator,
}

/// An operator together with its compiled value.
pub(crate) trait ConditionOperator: Sized {
    /// Name of the operator in policies.
    const WORD: &'static str;
    /// Help text for editors: when the operator holds.
    const HELP: &'static str;

    /// Returns the JSON Schema of the value that a policy may write.
    fn value_schema() -> Value;

    /// Compiles the value. If the operator cannot use it, reports why and returns `None`.
    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self>;

    /// Returns the kinds of values for which the operator can hold. All other kinds are a mismatch.
    fn accepted_kinds(&self) -> JsonKindSet;

    /// Returns whether the operator holds for a value in a call. `None` is a mismatch: the value cannot be compared.
    fn holds(&self, found: &CallValue<'_>) -> Option<bool>;

    /// Returns the result if the call has no value at the path, or null.
    fn absent_result(&self) -> ConditionResult {
        ConditionResult::Absent
    }

    /// Returns what lints know about values for which the operator holds, in addition to their kind.
    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::Other
    }
}

/// Maximum number of list elements that one condition examines; longer lists give a mismatch. This bounds the cost: a
/// call can contain two million elements, and a block can have hundreds of conditions on them.
pub(crate) const MAX_ELEMENTS: usize = 50_000;

/// Returns whether a list has more than [`MAX_ELEMENTS`] elements.
fn exceeds_max_elements(list: &JsonValue<'_>) -> bool {
    list.elements().nth(MAX_ELEMENTS).is_some()
}
