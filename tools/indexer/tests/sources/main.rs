//! What is read from packages, and what is not.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod defaults;
mod part;
mod phantoms;
mod programs;
mod python;
mod support;
