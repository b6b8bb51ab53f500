//! Reads published packages without running them, and finds the MCP tools they offer.

mod found;
mod javascript;
mod python;

pub use found::{FoundTool, SourceFile};
pub use javascript::javascript_tools;
pub use python::python_tools;
