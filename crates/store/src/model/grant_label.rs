//! Labels of grants, and the ids of grants that the configuration file defines.

use super::GrantToken;

/// Prefix of the ids of grants defined in the configuration file. The id contains the label, so a grant keeps its
/// counters as long as its label stays the same.
pub const FILE_GRANT_ID_PREFIX: &str = "file:";
/// Maximum length of a label, to keep output readable.
pub const MAX_GRANT_LABEL_CHARS: usize = 128;

/// Returns whether a string can be the label of a grant. A token cannot, because labels are written to the logs.
pub fn is_valid_grant_label(text: &str) -> bool {
    let length = text.chars().count();
    let has_token = text.contains(GrantToken::PREFIX);
    let is_clean = !text.chars().any(char::is_control) && !text.starts_with(FILE_GRANT_ID_PREFIX) && !has_token;
    (1..=MAX_GRANT_LABEL_CHARS).contains(&length) && is_clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_and_contains_neither_a_token_nor_the_prefix_of_a_file() {
        for label in ["ci", "Ada's laptop", &"ä".repeat(MAX_GRANT_LABEL_CHARS), "my file:1"] {
            assert!(is_valid_grant_label(label), "{label}");
        }
        for label in ["", "a\nb", "file:ci", "x glt_1", &"a".repeat(MAX_GRANT_LABEL_CHARS + 1)] {
            assert!(!is_valid_grant_label(label), "{label}");
        }
    }
}
