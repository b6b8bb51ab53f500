//! Recognizes tool results that are errors.

use std::sync::LazyLock;

use gatelodge_json::{JsonLimits, split_object_str};
use memchr::memmem::Finder;

/// Finds `isError`. A result that does not contain it is not an error.
pub(crate) static IS_ERROR_FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"isError\""));

/// Returns whether a tool result is marked as an error. Most results do not contain `isError`, so a plain search for it
/// comes first.
pub(crate) fn is_tool_error(result: &str) -> bool {
    if IS_ERROR_FINDER.find(result.as_bytes()).is_none() {
        return false;
    }
    let parts = split_object_str(result, &JsonLimits::REPLY).unwrap_or_default();
    parts.iter().any(|part| part.key == "isError" && part.value == "true")
}
