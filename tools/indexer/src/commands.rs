//! The commands, one module each.

pub mod build_index;
pub mod crawl_registry;
pub mod evaluate_classifier;
pub mod export_site;
pub mod read_package;
pub mod train;
