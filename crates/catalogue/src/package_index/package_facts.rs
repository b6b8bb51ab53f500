//! Facts about a package, as stored in the index. They do not include its authors' descriptions.

use gatelodge_policy::Category;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::classify::category_name;
use crate::data_flow_label::DataFlowLabel;
use crate::risk_signals::RiskSignalKind;

/// A package registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageRegistry {
    /// PyPI, the registry for Python packages.
    Pypi,
    /// The npm registry.
    Npm,
}

impl PackageRegistry {
    /// Returns the registry's identifier.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pypi => "pypi",
            Self::Npm => "npm",
        }
    }
}

/// A package and its tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackageFacts {
    /// Registry that the package is published in.
    pub source: PackageRegistry,
    /// Name in the registry.
    pub package: String,
    /// Indexed version.
    pub version: String,
    /// Release date of the indexed version (`2026-11-16`), if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Tools, sorted by name.
    pub tools: Vec<ToolFacts>,
}

/// A tool in a package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFacts {
    /// Name of the tool.
    pub name: String,
    /// Parameters.
    pub parameters: Vec<IndexedToolParameter>,
    /// Annotations provided by the tool's author.
    #[serde(default, skip_serializing_if = "ToolHints::is_empty")]
    pub claims: ToolHints,
    /// Category.
    #[serde(serialize_with = "serialize_category", deserialize_with = "deserialize_category")]
    pub category: Category,
    /// Confidence in the category.
    pub confidence: f64,
    /// Risk signals found in the definition.
    #[serde(serialize_with = "serialize_signals", deserialize_with = "deserialize_signals")]
    pub signals: Vec<RiskSignalKind>,
    /// Data-flow labels.
    pub flow: Vec<DataFlowLabel>,
    /// First 16 hexadecimal digits of the extracted definition's hash. The hash can also change when the extractor is
    /// improved.
    pub hash: String,
    /// Whether the tool is unavailable by default, because it depends on a setting or belongs to another program in the
    /// package.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// A parameter of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedToolParameter {
    /// Name of the parameter.
    pub name: String,
    /// JSON type. Empty if unknown.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Whether the parameter is required.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// The four annotation hints, each `None` if it is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolHints {
    /// `readOnlyHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// `openWorldHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl ToolHints {
    /// Returns whether all hints are absent.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn serialize_category<S: Serializer>(category: &Category, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(category_name(*category))
}

fn deserialize_category<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Category, D::Error> {
    let word = String::deserialize(deserializer)?;
    Category::from_word(&word.to_lowercase()).ok_or_else(|| serde::de::Error::custom("an unknown category"))
}

fn serialize_signals<S: Serializer>(signals: &[RiskSignalKind], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(signals.iter().map(|signal| signal.as_str()))
}

fn deserialize_signals<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RiskSignalKind>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    let known =
        |word: &String| RiskSignalKind::from_word(word).ok_or_else(|| serde::de::Error::custom("an unknown signal"));
    words.iter().map(known).collect()
}
