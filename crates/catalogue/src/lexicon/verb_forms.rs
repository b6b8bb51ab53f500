//! Derives word forms by rule, because the verbs in tool names are mostly regular.

/// Returns the forms of a verb that describe an action: `creates`, `creating`. The past tense (`created`) is not
/// included.
pub(super) fn verb_forms(base: &str) -> Vec<String> {
    vec![third_person_form(base), present_participle(base)]
}

fn third_person_form(base: &str) -> String {
    match base.strip_suffix('y') {
        Some(stem) if !ends_in_vowel(stem) => format!("{stem}ies"),
        _ if ["s", "sh", "ch", "x", "z", "o"].iter().any(|end| base.ends_with(end)) => format!("{base}es"),
        _ => format!("{base}s"),
    }
}

fn present_participle(base: &str) -> String {
    match base.strip_suffix('e') {
        Some(stem) if !stem.ends_with('e') => format!("{stem}ing"),
        _ if doubles_last_letter(base) => {
            let last = base.chars().last().unwrap_or_default();
            format!("{base}{last}ing")
        }
        _ => format!("{base}ing"),
    }
}

fn ends_in_vowel(text: &str) -> bool {
    text.ends_with(['a', 'e', 'i', 'o', 'u'])
}

/// Returns whether a verb doubles its last letter before `-ing`: `get`, `run`, `drop`, `submit`.
fn doubles_last_letter(base: &str) -> bool {
    let mut letters = base.chars().rev();
    let is_vowel = |letter: char| "aeiou".contains(letter);
    let (Some(last), Some(middle), Some(first)) = (letters.next(), letters.next(), letters.next()) else {
        return false;
    };
    let is_short = base.len() <= 4 || base.ends_with("mit");
    is_short && !is_vowel(last) && !"wxy".contains(last) && is_vowel(middle) && !is_vowel(first)
}

/// Returns a word without its plural ending, if it has one.
pub(super) fn singular_stem(form: &str) -> Option<&str> {
    let stem = form.strip_suffix('s')?;
    (stem.len() > 2 && !stem.ends_with(['s', 'u', 'i'])).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::{singular_stem, verb_forms};

    #[test]
    fn verb_forms_are_regular_english_forms() {
        for (base, expected) in [
            ("create", ["creates", "creating"]),
            ("get", ["gets", "getting"]),
            ("copy", ["copies", "copying"]),
            ("fetch", ["fetches", "fetching"]),
            ("submit", ["submits", "submitting"]),
            ("view", ["views", "viewing"]),
            ("read", ["reads", "reading"]),
            ("destroy", ["destroys", "destroying"]),
        ] {
            assert_eq!(verb_forms(base), expected);
        }
    }

    #[test]
    fn only_plurals_have_a_stem() {
        assert_eq!(
            (singular_stem("files"), singular_stem("status"), singular_stem("class"), singular_stem("ls")),
            (Some("file"), None, None, None)
        );
    }
}
