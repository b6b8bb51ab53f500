//! The index: what is known of published packages and their tools.

mod facts;

pub use facts::{Claims, PackageFacts, ParameterFacts, Source, ToolFacts};
