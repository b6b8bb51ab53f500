//! Detects confusable tool names: case variants, look-alike Unicode characters and invisible characters.

use std::collections::{BTreeSet, HashMap};

use gatelodge_json::is_invisible;
use unicode_security::skeleton;

/// Maximum length of a tool name. Tools with longer names cannot be called.
const MAX_TOOL_NAME_BYTES: usize = 256;

/// Returns the names that differ from another one only by case, look like another one, or contain unreadable
/// characters.
pub fn confusable_names<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut confusable = BTreeSet::new();
    let mut by_form: HashMap<String, BTreeSet<&str>> = HashMap::new();
    for name in names {
        if !is_readable(name) {
            confusable.insert(name);
        }
        for form in skeletons(name) {
            by_form.entry(form).or_default().insert(name);
        }
    }
    confusable.extend(by_form.into_values().filter(|names| names.len() > 1).flatten());
    confusable
}

/// Returns the forms under which a name can be mistaken for another. One form is lower-cased first and one is not,
/// because `I` looks like `l` but `i` does not.
fn skeletons(name: &str) -> [String; 2] {
    let visible: String = name.chars().filter(|character| !has_no_glyph(*character)).collect();
    let fold = |text: &str| skeleton(text).collect::<String>().to_lowercase();
    [fold(&fold(&visible)), fold(&fold(&visible.to_lowercase()))]
}

fn is_readable(name: &str) -> bool {
    let has_space_around = name.starts_with(' ') || name.ends_with(' ');
    let is_plain = name.chars().all(|character| character == ' ' || !has_no_glyph(character));
    !name.is_empty() && name.len() <= MAX_TOOL_NAME_BYTES && is_plain && !has_space_around
}

/// Returns whether a character has no visible glyph.
fn has_no_glyph(character: char) -> bool {
    is_invisible(character) || character.is_whitespace() || character.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confusable(names: &[&'static str]) -> Vec<&'static str> {
        confusable_names(names.iter().copied()).into_iter().collect()
    }

    #[test]
    fn case_variants_and_similar_characters_are_confusable() {
        assert_eq!(confusable(&["read", "write", "reed", "read_2", "list.all", "n\u{e4}h"]), Vec::<&str>::new());
        assert_eq!(confusable(&["read", "Read", "write"]), ["Read", "read"]);
        // The first letter is Cyrillic.
        assert_eq!(confusable(&["pay", "\u{440}ay"]), ["pay", "\u{440}ay"]);
        assert_eq!(confusable(&["list", "1ist"]), ["1ist", "list"]);
        assert_eq!(confusable(&["slow", "sIow"]), ["sIow", "slow"]);
        assert_eq!(confusable(&["a", "a\u{200b}"]), ["a", "a\u{200b}"]);
        assert_eq!(confusable(&["read_note", "read note"]), Vec::<&str>::new());
    }

    #[test]
    fn unreadable_names_are_reported() {
        for name in ["", "read ", " read", "read\t", "read\n", "a\0b", "read\u{a0}", "read\u{2800}", "\u{202e}daer"] {
            assert_eq!(confusable(&[name]), [name], "{name:?}");
        }
        assert_eq!(confusable(&["read", "read\u{3000}"]), ["read", "read\u{3000}"]);
        let long: &'static str = "x".repeat(300).leak();
        assert_eq!(confusable(&[long]), [long]);
    }
}
