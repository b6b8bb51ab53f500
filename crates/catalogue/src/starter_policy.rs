//! Starter policies for a whole server: complete, valid documents that keep harmless tools working and deny everything
//! they do not name, including tools that are added later.

mod rule_suggestions;
mod starter_policy_writer;

use gatelodge_policy::{Category, Diagnostic};

use crate::classify::Classification;
use crate::recommendation::RecommendedAction;
use crate::tool_spec::ToolSpec;

/// How strict a starter policy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StarterPolicyStrictness {
    /// Applies the recommended action for each category.
    Recommended,
    /// Allows reads; everything else requires approval or is hidden.
    Strict,
    /// Requires approval for irreversible actions, and limits the rate of all other calls except reads.
    Permissive,
}

impl StarterPolicyStrictness {
    /// All levels of strictness.
    pub const ALL: [Self; 3] = [Self::Recommended, Self::Strict, Self::Permissive];

    /// Returns the identifier of this level of strictness.
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

    /// Returns a one-sentence description of this level of strictness for display.
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

/// Error returned when a server's tools do not fit into a policy.
#[derive(Debug, thiserror::Error)]
#[error("cannot write a policy for the server's tools: {}", .0.first().map_or("", |fault| fault.message.as_str()))]
pub struct StarterPolicyError(pub Vec<Diagnostic>);

/// Writes a policy for a server, as JSON with comments in the canonical layout. The result is always a valid policy.
///
/// ```
/// use gatelodge_catalogue::{ServerContext, StarterPolicyStrictness, ToolSpec, classify, starter_policy};
/// use gatelodge_json::{JsonLimits, read};
///
/// let definition = read(br#"{"name": "delete_note"}"#, &JsonLimits::REPLY).expect("JSON");
/// let tool = ToolSpec::of(definition.root()).expect("a tool");
/// let classification = classify(&tool, &ServerContext::new("notes", None, ["delete_note"].into_iter()));
/// let policy = starter_policy("notes", &[(&tool, &classification)], StarterPolicyStrictness::Recommended)?;
/// assert!(policy.contains(r#""hide": ["#) && policy.contains(r#""delete_note""#), "{policy}");
/// # Ok::<(), gatelodge_catalogue::StarterPolicyError>(())
/// ```
///
/// # Errors
/// Returns an error if the policy would exceed the maximum size.
pub fn starter_policy(
    server: &str,
    tools: &[(&ToolSpec<'_>, &Classification)],
    strictness: StarterPolicyStrictness,
) -> Result<String, StarterPolicyError> {
    starter_policy_writer::write_policy(server, tools, strictness, starter_policy_writer::PolicyCommentDetail::Reasons)
}

/// Like [`starter_policy`], but also lists each tool's parameters in comments, as a basis for writing rules.
///
/// # Errors
/// Returns an error if the policy would exceed the maximum size.
pub fn policy_scaffold(
    server: &str,
    tools: &[(&ToolSpec<'_>, &Classification)],
    strictness: StarterPolicyStrictness,
) -> Result<String, StarterPolicyError> {
    starter_policy_writer::write_policy(
        server,
        tools,
        strictness,
        starter_policy_writer::PolicyCommentDetail::Parameters,
    )
}
