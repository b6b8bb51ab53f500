//! Reads published packages without running them, and finds the MCP tools they offer.
//!
//! Nothing here touches a file, a clock or the network: bytes come in, facts go out.

mod archive;
mod facts;
mod found;
mod given;
mod javascript;
mod listing;
mod python;
mod version;

pub use archive::{Bounds, Form, Skip, Unpacked, Want, unpack};
pub use facts::{Release, facts};
pub use found::{Found, FoundTool, SourceFile};
pub use javascript::javascript_tools;
pub use listing::{Listed, names, newest_npm, newest_pypi};
pub use python::{is_python_read, python_tools, uses_mcp};
