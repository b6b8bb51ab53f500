//! What an index says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// When an index was made, from what, and what became of the packages that are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMetadata {
    /// The day it was made, `2026-11-16`.
    pub date: String,
    /// Packages that were looked at, by what came of it.
    #[serde(default)]
    pub outcomes: BTreeMap<String, u64>,
    /// How many servers there are.
    #[serde(default)]
    pub servers: usize,
    /// How many tools they have.
    #[serde(default)]
    pub tools: usize,
}
