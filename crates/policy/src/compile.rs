//! Compiles a document to a [`Policy`](compiled_policy::Policy), which is indexed and immutable.

pub(crate) mod compiled_policy;
pub(crate) mod condition;
pub(crate) mod counter_identity;
pub(crate) mod glob;
pub(crate) mod limit;
pub(crate) mod method_names;
pub(crate) mod policy_parser;
