//! What the index keeps of a package: facts. No sentence of anybody is among them.

use gatelodge_policy::Category;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::classify::category_name;
use crate::data_flow::DataFlow;
use crate::risk_signals::RiskSignalKind;

/// Where a package is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageRegistry {
    /// Python packages.
    Pypi,
    /// npm packages.
    Npm,
}

impl PackageRegistry {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pypi => "pypi",
            Self::Npm => "npm",
        }
    }
}

/// A package with tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackageFacts {
    /// Where it is published.
    pub source: PackageRegistry,
    /// Its name there.
    pub package: String,
    /// The version that was read.
    pub version: String,
    /// The day that version was published, `2026-11-16`, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Its tools, by name.
    pub tools: Vec<ToolFacts>,
}

/// A tool of a package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolFacts {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub parameters: Vec<ParameterFacts>,
    /// What its author claims.
    #[serde(default, skip_serializing_if = "ToolHints::is_empty")]
    pub claims: ToolHints,
    /// What it was taken for.
    #[serde(serialize_with = "serialize_category", deserialize_with = "deserialize_category")]
    pub category: Category,
    /// How sure that is.
    pub confidence: f64,
    /// What its definition shows.
    #[serde(serialize_with = "serialize_signals", deserialize_with = "deserialize_signals")]
    pub signals: Vec<RiskSignalKind>,
    /// Labels of data flow.
    pub flow: Vec<DataFlow>,
    /// The first 16 hexadecimal digits of the hash of what was read of it. A better reader gives another one.
    pub hash: String,
    /// Whether it is there only under a setting: by default it is off, or in another program of the package.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// A parameter of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterFacts {
    /// Its name.
    pub name: String,
    /// Its JSON type, or nothing where that is not known.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Whether it must be given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// The four hints, as far as they are given.
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
    /// Whether nothing is claimed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn serialize_category<S: Serializer>(category: &Category, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(category_name(*category))
}

fn deserialize_category<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Category, D::Error> {
    let word = String::deserialize(deserializer)?;
    Category::from_word(&word.to_lowercase()).ok_or_else(|| serde::de::Error::custom("a category that is not known"))
}

fn serialize_signals<S: Serializer>(signals: &[RiskSignalKind], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(signals.iter().map(|signal| signal.as_str()))
}

fn deserialize_signals<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RiskSignalKind>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    let known = |word: &String| {
        RiskSignalKind::from_word(word).ok_or_else(|| serde::de::Error::custom("a signal that is not known"))
    };
    words.iter().map(known).collect()
}
