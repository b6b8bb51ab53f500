//! A tool as the sources or the manifest of a package define it.

use serde::Serialize;
use serde_json::{Map, Value};

/// A tool as its package defines it, in the form of `tools/list`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtractedTool {
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

impl ExtractedTool {
    /// How much it says, to choose among several of one name.
    pub fn says(&self) -> (bool, bool, usize) {
        (!self.annotations.is_empty(), self.description.is_some(), self.properties().map_or(0, Map::len))
    }

    /// Whether another of its name says nothing that it does not say.
    pub fn covers(&self, other: &Self) -> bool {
        let has = |name: &String| self.properties().is_some_and(|own| own.contains_key(name));
        (other.description.is_none() || other.description == self.description)
            && (other.annotations.is_empty() || other.annotations == self.annotations)
            && other.properties().is_none_or(|properties| properties.keys().all(has))
    }

    /// The parameters that its schema names.
    pub fn properties(&self) -> Option<&Map<String, Value>> {
        self.input_schema.get("properties").and_then(Value::as_object)
    }
}
