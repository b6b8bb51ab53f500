//! The pinned tool definitions of each server, and the definitions that it currently lists.

use async_trait::async_trait;

use crate::model::{AdminLogEntry, CategoryOverride, ServerName, ServerTools, StoreError, ToolDefinition};

/// Stores pinned tool definitions. A pin is kept even while the server does not list the tool.
#[async_trait]
pub trait ToolPins: Send + Sync {
    /// Returns a server's tools; `None` if they were never listed.
    async fn server_tools(&self, server: &ServerName) -> Result<Option<ServerTools>, StoreError>;
    /// Stores the definitions that a server currently lists, replacing the previous ones. If this is the server's first
    /// listing, the definitions named in `first` are pinned and the admin log entry is written in the same step. If
    /// several calls run concurrently, exactly one of them is treated as the first. A later listing writes no entry. No
    /// listing changes the version of the change feed.
    async fn record_offered(
        &self,
        server: &ServerName,
        offered: Vec<ToolDefinition>,
        first: Vec<String>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError>;
    /// Pins the listed definitions with these names and fingerprints, replacing earlier pins of the same names. Returns
    /// `Conflict` if one of them is not currently listed; nothing is pinned in that case.
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
    /// Removes a tool's category override. Returns `NotFound` if the tool has none.
    async fn clear_category(&self, server: &ServerName, tool: &str, entry: AdminLogEntry) -> Result<(), StoreError>;
}

/// Returns the error for a server whose tools were never listed.
pub(crate) fn tools_unknown_error(server: &ServerName) -> StoreError {
    StoreError::NotFound(format!("tool list of `{server}`"))
}

/// Returns the error for a category override that does not exist.
pub(crate) fn no_override_error(server: &ServerName, tool: &str) -> StoreError {
    StoreError::NotFound(format!("category override for `{}` of `{server}`", tool.escape_debug()))
}

/// Returns the error for a definition that a server does not list any more.
pub(crate) fn stale_definition_error(server: &ServerName, tool: &str) -> StoreError {
    StoreError::Conflict(format!("`{server}` no longer lists this definition of `{}`", tool.escape_debug()))
}
