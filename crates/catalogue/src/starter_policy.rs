//! Starter policies for a whole server: complete documents that load, keep harmless tools working, and deny everything
//! they do not name, including tools that are added later.

mod rule_suggestions;
mod starter_policy_writer;

use gatelodge_policy::{Category, Diagnostic};

use crate::classify::Classification;
use crate::recommendation::RecommendedAction;
use crate::tool_spec::ToolSpec;

/// Strictness of a starter policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// By category, as recommended.
    Recommended,
    /// Allows reads; everything else requires approval or is hidden.
    Strict,
    /// Allows everything within rate limits; irreversible actions require approval.
    Permissive,
}

impl Strictness {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Recommended, Self::Strict, Self::Permissive];

    /// Returns the identifier.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recommended => "recommended",
            Self::Strict => "strict",
            Self::Permissive => "permissive",
        }
    }

    pub(crate) fn recommended_action(self, category: Category) -> RecommendedAction {
        match self {
            Self::Recommended => RecommendedAction::of(category),
            Self::Strict => RecommendedAction::strict(category),
            Self::Permissive => RecommendedAction::permissive(category),
        }
    }

    /// Returns a one-sentence description.
    pub fn description(self) -> &'static str {
        match self {
            Self::Recommended => {
                "Allows reads, limits writes and executions, requires approval for payments, hides destructive tools."
            }
            Self::Strict => {
                "Allows only reads; requires approval for writes and executions, hides destructive tools and payments."
            }
            Self::Permissive => {
                "Allows everything within limits; requires approval for destructive tools and payments."
            }
        }
    }
}

/// Error returned when the tools of a server do not fit into a policy.
#[derive(Debug, thiserror::Error)]
#[error("cannot write a policy for the server's tools: {}", .0.first().map_or("", |fault| fault.message.as_str()))]
pub struct StarterPolicyError(pub Vec<Diagnostic>);

/// Writes a policy for a server: JSON with comments, in canonical layout. It always loads.
///
/// # Errors Returns an error if the policy would exceed the maximum size.
pub fn starter_policy(
    server: &str,
    tools: &[(&ToolSpec<'_>, &Classification)],
    strictness: Strictness,
) -> Result<String, StarterPolicyError> {
    starter_policy_writer::write_policy(server, tools, strictness, starter_policy_writer::CommentDetail::Reasons)
}

/// Like [`starter_policy`], with each tool's parameters as comments, to be filled in.
///
/// # Errors Returns an error if the policy would exceed the maximum size.
pub fn policy_scaffold(
    server: &str,
    tools: &[(&ToolSpec<'_>, &Classification)],
    strictness: Strictness,
) -> Result<String, StarterPolicyError> {
    starter_policy_writer::write_policy(server, tools, strictness, starter_policy_writer::CommentDetail::Parameters)
}
