//! Documents as text: the syntax tree of JSON and YAML, and diagnostics with their locations.

pub(crate) mod diagnostic;
pub(crate) mod field_reader;
pub(crate) mod syntax_tree;
