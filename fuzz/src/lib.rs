//! What the fuzz targets share: laws that every input must keep, and inputs worth trying.
//!
//! The targets themselves are tests, so that they run wherever the tests run.

#![allow(clippy::expect_used, clippy::panic, reason = "a broken law ends the run")]

mod choice_reader;
pub mod message_generator;
pub mod message_laws;
pub mod policy_generator;
pub mod policy_laws;
mod value_tree;

pub use choice_reader::ChoiceReader;
pub use value_tree::{is_same_as_serde, value_leaves};
