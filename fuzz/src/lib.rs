//! Shared by the fuzz targets: invariants that every input must satisfy, and input generators.
//!
//! The targets themselves are tests, so that they run wherever tests run.

#![allow(clippy::expect_used, clippy::panic, reason = "a broken law ends the run")]

mod choice_reader;
pub mod message_generator;
pub mod message_laws;
pub mod policy_generator;
pub mod policy_laws;
mod value_tree;

pub use choice_reader::ChoiceReader;
pub use value_tree::{is_same_as_serde, value_leaves};
