//! Metadata of an index.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Date and origin of an index, and statistics on packages that are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMetadata {
    /// Date of the index, `2026-11-16`.
    pub date: String,
    /// Number of packages examined, by outcome.
    #[serde(default)]
    pub outcomes: BTreeMap<String, u64>,
    /// Number of servers.
    #[serde(default)]
    pub servers: usize,
    /// Number of tools.
    #[serde(default)]
    pub tools: usize,
}
