//! Runs the real program in a temporary directory.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod crawl;
mod eval;
mod exit_codes;
mod export;
mod index_file;
mod read;
mod support;
mod test_registry;
