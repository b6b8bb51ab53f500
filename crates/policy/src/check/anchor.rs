//! Whether a regular expression must match a whole text.

use regex_syntax::Parser;
use regex_syntax::hir::Look;

/// Whether every match begins where the text begins and ends where it ends.
/// What cannot be told counts as anchored.
pub(super) fn is_anchored(pattern: &str) -> bool {
    let Ok(parsed) = Parser::new().parse(pattern) else { return true };
    let properties = parsed.properties();
    properties.look_set_prefix().contains(Look::Start) && properties.look_set_suffix().contains(Look::End)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_every_alternative_must_be_fixed() {
        for pattern in ["^a$", r"\Aa\z", "^(?:a|b)$", "^(a|b)$", "^a$|^b$", "(?i)^a$", "(^a$)", "^$", "^[^x]*$"] {
            assert!(is_anchored(pattern), "{pattern}");
        }
        for pattern in ["a", "^a", "a$", "^a|b$", "(?m)^a$", r"\^a\$", "^?a$", "^a$?", "[^a$]", "(^a|b)$", ""] {
            assert!(!is_anchored(pattern), "{pattern}");
        }
    }
}
