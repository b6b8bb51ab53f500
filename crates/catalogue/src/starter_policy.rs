//! Ready policies for a whole server: complete documents that load, keep what is harmless working, and refuse whatever
//! they do not name, so also a tool that comes later.

mod rule_suggestions;
mod starter_policy_writer;

use gatelodge_policy::{Category, Diagnostic};

use crate::classify::Classification;
use crate::recommendation::RecommendedAction;
use crate::tool_spec::ToolSpec;

/// How much a policy trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// By category, as recommended.
    Recommended,
    /// Reads pass; the rest waits for a person or is hidden.
    Strict,
    /// All passes within limits; what is gone for good waits for a person.
    Permissive,
}

impl Strictness {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Recommended, Self::Strict, Self::Permissive];

    /// The word for it.
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

    /// What it does, in a sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::Recommended => {
                "Reads pass, changes and runs are limited, money waits for a person, what destroys is hidden."
            }
            Self::Strict => "Only reads pass; changes and runs wait for a person, what destroys or pays is hidden.",
            Self::Permissive => "All passes within limits; what destroys or pays waits for a person.",
        }
    }
}

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
#[error("the server's tools do not fit into a policy: {}", .0.first().map_or("", |fault| fault.message.as_str()))]
pub struct StarterPolicyError(pub Vec<Diagnostic>);

/// Writes the policy of a server: JSON with comments, in the usual layout. It loads.
///
/// # Errors
/// There is so much that no policy can hold it.
pub fn starter_policy(
    server: &str,
    tools: &[(&ToolSpec<'_>, &Classification)],
    posture: Strictness,
) -> Result<String, StarterPolicyError> {
    starter_policy_writer::write_policy(server, tools, posture, starter_policy_writer::CommentDetail::Reasons)
}

/// The same policy with each tool's parameters as comments, to be filled in.
///
/// # Errors
/// There is so much that no policy can hold it.
pub fn policy_scaffold(
    server: &str,
    tools: &[(&ToolSpec<'_>, &Classification)],
    posture: Strictness,
) -> Result<String, StarterPolicyError> {
    starter_policy_writer::write_policy(server, tools, posture, starter_policy_writer::CommentDetail::Parameters)
}
