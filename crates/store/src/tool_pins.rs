//! Pinned tool definitions of servers, and the definitions that they list now.

use async_trait::async_trait;
use gatelodge_mutants::mutant;
use gatelodge_policy::Category;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::admin_log::AdminEntry;
use crate::validated_name::ServerName;

/// A tool definition of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Name of the tool.
    pub name: String,
    /// Hash of the whole definition.
    pub fingerprint: String,
    /// The definition, as the server wrote it.
    pub text: String,
}

/// A definition that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedDefinition {
    /// The definition.
    pub definition: ToolDefinition,
    /// Time of acceptance.
    pub accepted_at: Timestamp,
    /// The user that accepted it.
    pub accepted_by: String,
}

/// A category that an operator assigned to a tool. It takes precedence over the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryOverride {
    /// The tool's name.
    pub tool: String,
    /// The assigned category.
    pub category: Category,
    /// Reason for the assignment.
    pub reason: String,
    /// The definition that it is limited to; `None` if it also applies to later definitions.
    pub fingerprint: Option<String>,
    /// Time of the assignment.
    pub set_at: Timestamp,
    /// The user that assigned it.
    pub set_by: String,
}

impl CategoryOverride {
    /// Whether the override applies to a definition.
    #[must_use]
    pub fn applies_to(&self, definition: &ToolDefinition) -> bool {
        self.tool == definition.name
            && (self.fingerprint.as_ref().is_none_or(|fingerprint| *fingerprint == definition.fingerprint)
                || mutant!("category-kept-after-definition-change"))
    }
}

/// Tools of a server: pinned, listed, and overridden.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerTools {
    /// Pinned definitions, ordered by name.
    pub pinned: Vec<PinnedDefinition>,
    /// Definitions listed last, ordered by name.
    pub offered: Vec<ToolDefinition>,
    /// Category overrides, ordered by name.
    pub category_overrides: Vec<CategoryOverride>,
}

/// Stores pinned tool definitions. A pin stays even while the server does not list the tool.
#[async_trait]
pub trait ToolPins: Send + Sync {
    /// The tools of a server; `None` if it was never listed.
    async fn server_tools(&self, server: &ServerName) -> Result<Option<ServerTools>, StoreError>;
    /// Stores the definitions that a server lists now, replacing the previous ones. For the first listing of a server, the
    /// definitions named in `first` are pinned in the same step and the entry is written; of concurrent calls, one is first.
    async fn record_offered(
        &self,
        server: &ServerName,
        offered: Vec<ToolDefinition>,
        first: Vec<String>,
        entry: AdminEntry,
    ) -> Result<(), StoreError>;
    /// Pins the listed definitions with these names and fingerprints, in one step with the entry in the admin log.
    /// `Conflict` if one of them is not listed now; then nothing is pinned.
    async fn accept(
        &self,
        server: &ServerName,
        tools: Vec<(String, String)>,
        entry: AdminEntry,
    ) -> Result<(), StoreError>;
    /// Sets the category of a tool, replacing an earlier one. `NotFound` if the server was never listed.
    async fn set_category(
        &self,
        server: &ServerName,
        category_override: CategoryOverride,
        entry: AdminEntry,
    ) -> Result<(), StoreError>;
    /// Removes the category override of a tool. `NotFound` if it does not exist.
    async fn clear_category(&self, server: &ServerName, tool: &str, entry: AdminEntry) -> Result<(), StoreError>;
}
