//! Reads published packages without running them, finds the MCP tools they offer, and writes the index of them; trains
//! and evaluates the classifier of tools.
//!
//! Nothing in this library touches a file, a clock or the network: bytes come in, facts go out. The program
//! `gatelodge-indexer` fetches, stores and prints.

mod evaluate;
mod found;
mod given;
mod index_writer;
mod javascript;
mod labels;
mod listing;
mod python;
mod train;
mod version;

pub use evaluate::{Bin, Counts, Evaluation, Mistake, Share};
pub use found::Found;
pub use index_writer::{WriteIndexError, write_index};
pub use javascript::javascript_tools;
pub use labels::{Label, Labelled, labelled};
pub use listing::{Listed, names, newest_npm, newest_pypi};
pub use python::{is_python_read, python_tools, uses_mcp};
pub use train::{Source as LabelSource, Training, Unseen, train};
