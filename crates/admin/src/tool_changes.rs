//! Accepts the definitions of tools, and overrides the categories that the catalogue assigns to them.

use gatelodge_json::escape_for_terminal;
use gatelodge_policy::Category;
use gatelodge_store::{CategoryOverride, ServerName, StoreError};
use serde_json::json;

use crate::administration::Administration;

/// Maximum length of the reason for a category override.
const MAX_REASON_BYTES: usize = 1_000;

/// A category override that is about to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewCategoryOverride<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// The category, as a word.
    pub category: &'a str,
    /// Why the tool has this category, for later readers.
    pub reason: &'a str,
    /// Whether it also applies to later definitions of the tool, not only to the one that was accepted.
    pub even_if_changed: bool,
}

/// Why a category was not overridden.
#[derive(Debug, thiserror::Error)]
pub enum OverrideCategoryError {
    /// No definition of the tool was accepted.
    #[error("no tool `{}` of `{server}` was accepted", escape_for_terminal(.tool))]
    NotAccepted {
        /// The server.
        server: ServerName,
        /// The name that was given.
        tool: String,
    },
    /// There is no such category.
    #[error("`{}` is not a category; the categories are {}", escape_for_terminal(.0), Category::WORDS.join(", "))]
    UnknownCategory(String),
    /// No reason was given.
    #[error("give the reason, for later readers")]
    MissingReason,
    /// The reason is too long.
    #[error("a reason has at most {MAX_REASON_BYTES} bytes")]
    LongReason,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Administration {
    /// Accepts definitions that a server lists, each given by the name and fingerprint of the tool: all of them, or none
    /// if the server no longer lists one. Without any, nothing is written.
    pub async fn accept_tools(&self, server: &ServerName, tools: Vec<(String, String)>) -> Result<(), StoreError> {
        if tools.is_empty() {
            return Ok(());
        }
        let entry = self.log_entry("server.accept", server.as_str(), json!({"tools": tools}));
        self.stores.tool_pins.accept(server, tools, entry).await
    }

    /// Overrides the category of an accepted tool. Returns the override as it was stored.
    pub async fn override_category(
        &self,
        server: &ServerName,
        new: NewCategoryOverride<'_>,
    ) -> Result<CategoryOverride, OverrideCategoryError> {
        let accepted = self.accepted_fingerprint(server, new.tool).await?;
        let category = parse_category(new.category)?;
        let reason = check_reason(new.reason)?;
        let fingerprint = (!new.even_if_changed).then_some(accepted);
        let detail =
            json!({"tool": new.tool, "category": category.as_str(), "why": reason, "fingerprint": fingerprint});
        let entry = self.log_entry("server.classify", server.as_str(), detail);
        let stored = CategoryOverride {
            tool: new.tool.to_owned(),
            category,
            reason: reason.to_owned(),
            fingerprint,
            set_at: entry.at,
            set_by: entry.by.clone(),
        };
        self.stores.tool_pins.set_category(server, stored.clone(), entry).await?;
        Ok(stored)
    }

    /// Removes the override of a tool's category.
    pub async fn clear_category(&self, server: &ServerName, tool: &str) -> Result<(), StoreError> {
        let entry = self.log_entry("server.unclassify", server.as_str(), json!({"tool": tool}));
        self.stores.tool_pins.clear_category(server, tool, entry).await
    }

    async fn accepted_fingerprint(&self, server: &ServerName, tool: &str) -> Result<String, OverrideCategoryError> {
        let pinned = self.stores.tool_pins.server_tools(server).await?.map(|tools| tools.pinned).unwrap_or_default();
        let found = pinned.into_iter().map(|pin| pin.definition).find(|definition| definition.name == tool);
        found
            .map(|definition| definition.fingerprint)
            .ok_or_else(|| OverrideCategoryError::NotAccepted { server: server.clone(), tool: tool.to_owned() })
    }
}

fn parse_category(word: &str) -> Result<Category, OverrideCategoryError> {
    Category::from_word(&word.to_ascii_lowercase())
        .ok_or_else(|| OverrideCategoryError::UnknownCategory(word.to_owned()))
}

fn check_reason(reason: &str) -> Result<&str, OverrideCategoryError> {
    match reason.trim() {
        "" => Err(OverrideCategoryError::MissingReason),
        reason if reason.len() > MAX_REASON_BYTES => Err(OverrideCategoryError::LongReason),
        reason => Ok(reason),
    }
}
