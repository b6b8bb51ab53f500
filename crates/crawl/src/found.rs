//! What goes into a reader, and what comes out.

use serde::Serialize;
use serde_json::{Map, Value};

/// A file of a package.
#[derive(Debug, Clone, Copy)]
pub struct SourceFile<'a> {
    /// Its path within the package.
    pub path: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What a reader found.
#[derive(Debug, Default)]
pub struct Found {
    /// The tools, by name. None where files were passed over: those of a part would be told as all that there are.
    pub tools: Vec<FoundTool>,
    /// Files that were not read, because all together are more than is read.
    pub passed_over: usize,
}

/// A tool as its package defines it, in the form of `tools/list`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundTool {
    /// Its name.
    pub name: String,
    /// What it does, in its author's words. It is classified and not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes, as far as it can be read.
    pub input_schema: Value,
    /// What its author claims.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
    /// Whether it is offered only under a setting that is off by default.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

impl FoundTool {
    /// How much it says, to choose among several of one name.
    pub(crate) fn says(&self) -> (bool, bool, usize) {
        let parameters = self.input_schema.get("properties").and_then(Value::as_object).map_or(0, Map::len);
        (!self.annotations.is_empty(), self.description.is_some(), parameters)
    }
}
