//! One file for each command; each knows one thing.

pub mod policy;
