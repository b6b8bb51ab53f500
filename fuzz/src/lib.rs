//! What the fuzz targets share: laws that every input must keep, and inputs worth trying.
//!
//! The targets themselves are tests, so that they run wherever the tests run.

#![allow(clippy::expect_used, clippy::panic, reason = "a broken law ends the run")]

pub mod frames;
pub mod grow;
pub mod grow_policy;
pub mod policies;
mod tape;
mod tree;

pub use tape::Tape;
pub use tree::{same_as_serde, tree};
