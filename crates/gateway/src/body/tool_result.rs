//! Recognizes tool results that are errors.

use std::sync::LazyLock;

use gatelodge_json::{JsonLimits, split_object_str};
use memchr::memmem::Finder;

use super::json_word_finder::has_escaped_letter;

static IS_ERROR_FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"isError\""));

/// Returns whether a part of a response may mark it as an error. Most do not, and need no second look.
pub(crate) fn may_be_tool_error(part: &[u8]) -> bool {
    IS_ERROR_FINDER.find(part).is_some() || has_escaped_letter(part)
}

/// Returns whether a tool result is marked as an error.
pub(crate) fn is_tool_error(result: &str) -> bool {
    if !may_be_tool_error(result.as_bytes()) {
        return false;
    }
    let parts = split_object_str(result, &JsonLimits::REPLY).unwrap_or_default();
    parts.iter().any(|part| part.key == "isError" && part.value == "true")
}
