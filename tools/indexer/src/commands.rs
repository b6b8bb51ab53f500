//! The commands, one module each.

pub mod crawl_registry;
pub mod eval;
pub mod export;
pub mod index;
pub mod train;
