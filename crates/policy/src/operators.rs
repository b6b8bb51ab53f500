//! Operators of conditions.

pub(crate) mod condition_result;
pub(crate) mod host_in;
pub(crate) mod path_within;
pub(crate) mod scalar;
