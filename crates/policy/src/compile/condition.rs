//! Conditions: an operator applied to the value at a path.

use std::ops::Range;
use std::sync::Arc;

use crate::call::call_path::CallPath;
use crate::operators::CompiledOperator;
use crate::operators::value_restriction::ValueRestriction;

/// One condition, written as `{"path": …, "op": …, "value": …}`.
#[derive(Debug)]
pub(crate) struct Condition {
    /// The path. Conditions with equal paths share it, because different tools often have arguments of the same name.
    pub path: Arc<CallPath>,
    pub operator: CompiledOperator,
    /// The expected value as JSON, for display.
    pub expected_json: Box<str>,
    /// Location of the condition in the policy document.
    pub span: Range<usize>,
}

impl Condition {
    /// Returns whether the condition holds only for values that are absent or null.
    pub fn requires_absence(&self) -> bool {
        matches!(self.operator.restriction(), ValueRestriction::Absence)
    }
}
