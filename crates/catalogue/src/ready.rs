//! Ready policies for a whole server: complete documents that load, keep what is harmless working, and refuse whatever
//! they do not name, so also a tool that comes later.

mod suggest;
mod write;

use gatelodge_policy::{Category, Diagnostic};

use crate::classify::Classification;
use crate::recommend::Remedy;
use crate::tool_spec::ToolSpec;

/// How much a policy trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posture {
    /// By category, as recommended.
    Recommended,
    /// Reads pass; the rest waits for a person or is hidden.
    Strict,
    /// All passes within limits; what is gone for good waits for a person.
    Permissive,
}

impl Posture {
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

    pub(crate) fn remedy(self, category: Category) -> Remedy {
        match self {
            Self::Recommended => Remedy::of(category),
            Self::Strict => Remedy::strict(category),
            Self::Permissive => Remedy::permissive(category),
        }
    }

    /// What it does, in a sentence.
    pub fn says(self) -> &'static str {
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
pub struct ReadyError(pub Vec<Diagnostic>);

/// Writes the policy of a server: JSON with comments, in the usual layout. It loads.
///
/// # Errors
/// There is so much that no policy can hold it.
pub fn ready(server: &str, tools: &[(&ToolSpec<'_>, &Classification)], posture: Posture) -> Result<String, ReadyError> {
    write::write(server, tools, posture, write::Detail::Reasons)
}

/// The same policy with each tool's parameters as comments, to be filled in.
///
/// # Errors
/// There is so much that no policy can hold it.
pub fn scaffold(
    server: &str,
    tools: &[(&ToolSpec<'_>, &Classification)],
    posture: Posture,
) -> Result<String, ReadyError> {
    write::write(server, tools, posture, write::Detail::Parameters)
}
