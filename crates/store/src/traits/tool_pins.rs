//! The pinned tool definitions of each server, and the definitions that it currently lists.

use async_trait::async_trait;
use gatelodge_mutants::mutant;
use gatelodge_policy::Category;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::model::ServerName;
use crate::traits::AdminLogEntry;

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

/// Stores pinned tool definitions. A pin is kept even while the server does not list the tool.
#[async_trait]
pub trait ToolPins: Send + Sync {
    /// Returns a server's tools; `None` if they were never listed.
    async fn server_tools(&self, server: &ServerName) -> Result<Option<ServerTools>, StoreError>;
    /// Stores the definitions that a server currently lists, replacing the previous ones. If this is the server's first
    /// listing, the definitions named in `first` are pinned and the admin log entry is written in the same step. If
    /// several calls run concurrently, exactly one of them is treated as the first.
    async fn record_offered(
        &self,
        server: &ServerName,
        offered: Vec<ToolDefinition>,
        first: Vec<String>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError>;
    /// Pins the listed definitions with these names and fingerprints, and writes the admin log entry in the same step.
    /// Returns `Conflict` if one of them is not currently listed; nothing is pinned in that case.
    async fn accept(
        &self,
        server: &ServerName,
        tools: Vec<(String, String)>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError>;
    /// Sets a tool's category, replacing any earlier override. Returns `NotFound` if the server's tools were never
    /// listed.
    async fn set_category(
        &self,
        server: &ServerName,
        category_override: CategoryOverride,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError>;
    /// Removes a tool's category override. Returns `NotFound` if it does not exist.
    async fn clear_category(&self, server: &ServerName, tool: &str, entry: AdminLogEntry) -> Result<(), StoreError>;
}
