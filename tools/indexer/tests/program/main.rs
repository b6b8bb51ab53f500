//! Runs the program as users do, in a temporary folder.
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
mod package_index;
mod read;
mod support;
