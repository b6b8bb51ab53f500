//! Extraction of tools from Python packages.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod default_tools;
mod false_positives;
mod incomplete_packages;
mod programs;
mod python;
mod support;
