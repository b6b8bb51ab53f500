//! A tool extracted from a package's sources or manifest.

use serde::Serialize;
use serde_json::{Map, Value};

/// A tool definition from a package, in the format of `tools/list`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtractedTool {
    /// Name of the tool.
    pub name: String,
    /// Description written by the tool's author. It is used for classification, but not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Input schema, as far as it can be determined.
    pub input_schema: Value,
    /// Annotations provided by the tool's author.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
    /// Whether the tool is unavailable by default, because it depends on a setting or belongs to another program in the
    /// package.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

impl ExtractedTool {
    /// Returns a measure of how detailed the definition is, for choosing between several definitions with the same
    /// name.
    pub fn says(&self) -> (bool, bool, usize) {
        (!self.annotations.is_empty(), self.description.is_some(), self.properties().map_or(0, Map::len))
    }

    /// Returns whether this definition makes another one with the same name redundant, because it includes the
    /// description, annotations and properties of the other one.
    pub fn covers(&self, other: &Self) -> bool {
        let has = |name: &String| self.properties().is_some_and(|own| own.contains_key(name));
        (other.description.is_none() || other.description == self.description)
            && (other.annotations.is_empty() || other.annotations == self.annotations)
            && other.properties().is_none_or(|properties| properties.keys().all(has))
    }

    /// Returns the properties in the tool's input schema.
    pub fn properties(&self) -> Option<&Map<String, Value>> {
        self.input_schema.get("properties").and_then(Value::as_object)
    }
}
