//! The commands, one module each.

pub mod crawl;
pub mod eval;
pub mod export;
pub mod index;
pub mod train;
