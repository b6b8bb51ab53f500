//! One file for each command; each knows one thing.

pub mod call;
pub mod policy;
pub mod serve;
pub mod up;
