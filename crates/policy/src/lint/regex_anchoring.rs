//! Checks whether a regular expression must match the whole string.

use regex_syntax::Parser;
use regex_syntax::hir::Look;

/// Returns whether every match covers the whole string. Patterns that cannot be parsed count as anchored.
pub(super) fn is_anchored(pattern: &str) -> bool {
    let Ok(parsed) = Parser::new().parse(pattern) else { return true };
    let properties = parsed.properties();
    properties.look_set_prefix().contains(Look::Start) && properties.look_set_suffix().contains(Look::End)
}

/// Patterns longer than this are not quoted in messages.
const MAX_REPEATED_PATTERN_BYTES: usize = 60;

/// Returns help on how to anchor a pattern.
pub(super) fn anchoring_help(pattern: &str) -> String {
    let whole = format!("^(?:{pattern})$");
    let is_good = Parser::new().parse(&whole).is_ok();
    let what = match is_good {
        true if pattern.len() <= MAX_REPEATED_PATTERN_BYTES => format!("write `{whole}`"),
        true => "write `^(?:` before it and `)$` after it".to_owned(),
        // A comment under `(?x)` would swallow the end of the group; a line break ends the comment.
        false => "write `^(?:` before it, and a line break and `)$` after it".to_owned(),
    };
    format!("{what}, so that the whole text must match")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_regex_compiles_and_is_anchored() {
        for pattern in ["a", "^a|b$", "(?m)^a$", "(?i)a", "[0-9]+", "(?x)a b"] {
            let advice = anchoring_help(pattern);
            let advised = advice.split('`').nth(1).unwrap_or_default();
            assert!(regex::Regex::new(advised).is_ok() && is_anchored(advised), "{pattern}: {advice}");
        }
        let commented = "(?x)a # the first letter";
        assert!(anchoring_help(commented).contains("a line break"), "{}", anchoring_help(commented));
        let advised = format!("^(?:{commented}\n)$");
        assert!(regex::Regex::new(&advised).is_ok() && is_anchored(&advised));
        let long = anchoring_help(&"a".repeat(100));
        assert!(long.contains("before it") && !long.contains('…'), "{long}");
    }

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
