//! Metadata about an index.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The date of an index and statistics about the packages examined for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMetadata {
    /// Date of the index, such as `2026-11-16`.
    pub date: String,
    /// Number of examined packages, by outcome.
    #[serde(default)]
    pub outcomes: BTreeMap<String, u64>,
    /// Number of servers.
    #[serde(default)]
    pub servers: usize,
    /// Number of tools.
    #[serde(default)]
    pub tools: usize,
}
