//! What servers offered when they were accepted, and what they offer now.

use async_trait::async_trait;
use gatelodge_mutants::mutant;
use gatelodge_policy::Category;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::admin_log::AdminEntry;
use crate::validated_name::ServerName;

/// A tool as its server defines it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// A hash of everything that the definition says.
    pub fingerprint: String,
    /// The definition, as the server wrote it.
    pub text: String,
}

/// A definition that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedDefinition {
    /// The definition.
    pub definition: ToolDefinition,
    /// When.
    pub accepted_at: Timestamp,
    /// By whom.
    pub accepted_by: String,
}

/// What somebody says that a tool can do. It counts in place of the catalogue's judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryOverride {
    /// The tool's name.
    pub tool: String,
    /// What it can do.
    pub category: Category,
    /// Why.
    pub reason: String,
    /// The definition that it is said of; none if it holds for every later one too.
    pub fingerprint: Option<String>,
    /// When.
    pub set_at: Timestamp,
    /// By whom.
    pub set_by: String,
}

impl CategoryOverride {
    /// Whether it holds for a definition.
    #[must_use]
    pub fn applies_to(&self, definition: &ToolDefinition) -> bool {
        self.tool == definition.name
            && (self.fingerprint.as_ref().is_none_or(|said_of| *said_of == definition.fingerprint)
                || mutant!("category-kept-after-definition-change"))
    }
}

/// What is known of a server's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerTools {
    /// What was accepted, by name.
    pub pinned: Vec<PinnedDefinition>,
    /// What was offered last, by name.
    pub offered: Vec<ToolDefinition>,
    /// What people say of them, by name.
    pub category_overrides: Vec<CategoryOverride>,
}

/// Keeps the accepted definitions of tools. What was accepted stays so, also while it is not offered.
#[async_trait]
pub trait ToolPins: Send + Sync {
    /// What is known of a server's tools; none if it has never been asked.
    async fn server_tools(&self, server: &ServerName) -> Result<Option<ServerTools>, StoreError>;
    /// Keeps what a server offers now, in place of what it offered before. If it has never been asked, those of them
    /// that `first` names are accepted in the same step, which writes the entry; of many who ask at once one is first.
    async fn record_offered(
        &self,
        server: &ServerName,
        offered: Vec<ToolDefinition>,
        first: Vec<String>,
        entry: AdminEntry,
    ) -> Result<(), StoreError>;
    /// Accepts what is offered under these names and fingerprints, in one step with its entry in the admin log.
    /// `Conflict` if one of them is not what is offered now; nothing is accepted then.
    async fn accept(
        &self,
        server: &ServerName,
        tools: Vec<(String, String)>,
        entry: AdminEntry,
    ) -> Result<(), StoreError>;
    /// Keeps what somebody says of a tool, in place of what was said before. `NotFound` if the server was never asked.
    async fn set_category(
        &self,
        server: &ServerName,
        said: CategoryOverride,
        entry: AdminEntry,
    ) -> Result<(), StoreError>;
    /// Forgets what was said of a tool. `NotFound` if nothing was.
    async fn clear_category(&self, server: &ServerName, tool: &str, entry: AdminEntry) -> Result<(), StoreError>;
}
