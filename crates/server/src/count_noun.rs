//! Numbers with nouns, for messages.

/// Formats a number with its noun: `1 policy`, `2 policies`.
pub fn count_noun(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}
