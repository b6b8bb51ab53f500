//! A server's tools: listed and pinned definitions, and category overrides.

use gatelodge_mutants::mutant;
use gatelodge_policy::Category;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A tool definition from a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Name of the tool.
    pub name: String,
    /// Hash of the whole definition.
    pub fingerprint: String,
    /// The definition, as written by the server.
    pub text: String,
}

/// A definition that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedDefinition {
    /// The definition.
    pub definition: ToolDefinition,
    /// Time at which it was accepted.
    pub accepted_at: Timestamp,
    /// The user who accepted it.
    pub accepted_by: String,
}

/// A category that an operator assigned to a tool. It takes precedence over the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryOverride {
    /// The tool's name.
    pub tool: String,
    /// The category that was assigned.
    pub category: Category,
    /// The operator's reason for the assignment.
    pub reason: String,
    /// The fingerprint of the only definition that the override applies to; `None` if it also applies to later
    /// definitions.
    pub fingerprint: Option<String>,
    /// Time of the assignment.
    pub set_at: Timestamp,
    /// The user who assigned it.
    pub set_by: String,
}

impl CategoryOverride {
    /// Returns whether the override applies to a definition.
    #[must_use]
    pub fn applies_to(&self, definition: &ToolDefinition) -> bool {
        self.tool == definition.name
            && (self.fingerprint.as_ref().is_none_or(|fingerprint| *fingerprint == definition.fingerprint)
                || mutant!("category-kept-after-definition-change"))
    }
}

/// A server's tools: pinned and listed definitions, and category overrides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerTools {
    /// Pinned definitions, ordered by name.
    pub pinned: Vec<PinnedDefinition>,
    /// Definitions in the server's latest listing, ordered by name.
    pub offered: Vec<ToolDefinition>,
    /// Category overrides, ordered by tool name.
    pub category_overrides: Vec<CategoryOverride>,
}
