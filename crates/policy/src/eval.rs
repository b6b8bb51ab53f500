//! Evaluates calls against a compiled policy, and explains the result.

pub(crate) mod ambiguous_uri;
pub(crate) mod call_fact;
pub(crate) mod charges;
pub(crate) mod condition_evaluation;
pub(crate) mod decide;
pub(crate) mod decision;
pub(crate) mod explain;
pub(crate) mod method_rules;
pub(crate) mod visibility;
