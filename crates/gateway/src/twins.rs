//! Names that a person or a model would take for one another.

use std::collections::{BTreeSet, HashMap};

use unicode_security::skeleton;

/// Those of the names that differ from another only by case, or look like another.
pub fn twins<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut alike: HashMap<String, Vec<&str>> = HashMap::new();
    for name in names {
        alike.entry(folded(name)).or_default().push(name);
    }
    alike.into_values().filter(|names| names.len() > 1).flatten().collect()
}

/// The same text for all names that look alike. Folding case may make letters that others look like.
fn folded(name: &str) -> String {
    let once: String = skeleton(&name.to_lowercase()).collect();
    skeleton(&once.to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_by_case_or_look_alike_are_twins() {
        let twins_of = |names: &[&'static str]| twins(names.iter().copied()).into_iter().collect::<Vec<_>>();
        assert_eq!(twins_of(&["read", "write", "reed"]), Vec::<&str>::new());
        assert_eq!(twins_of(&["read", "Read", "write"]), ["Read", "read"]);
        // The first letter is Cyrillic.
        assert_eq!(twins_of(&["pay", "\u{440}ay"]), ["pay", "\u{440}ay"]);
        assert_eq!(twins_of(&["list", "1ist"]), ["1ist", "list"]);
        assert_eq!(twins_of(&["a", "a\u{200b}"]), ["a", "a\u{200b}"]);
    }
}
