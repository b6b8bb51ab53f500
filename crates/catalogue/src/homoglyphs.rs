//! Handles look-alike characters: normalizes compatibility forms and detects mixed scripts.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// Minimum length of a word that is checked for mixed scripts. Shorter ones are symbols or units, such as `µs` and
/// `Δt`.
const MIN_MIXED_SCRIPT_CHARS: usize = 3;

/// Normalizes letters: full-width, bold and circled letters become plain ones.
pub(crate) fn normalize_letters(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii() || !letter.is_alphanumeric() {
            out.push(letter);
        } else {
            out.extend(std::iter::once(letter).nfkc());
        }
    }
    Cow::Owned(out)
}

/// Returns whether any word mixes Latin letters with letters of a similar-looking script.
pub(crate) fn has_mixed_scripts(text: &str) -> bool {
    let is_mixed = |word: &str| {
        let latin = |letter: char| letter.is_ascii_alphabetic();
        word.chars().count() >= MIN_MIXED_SCRIPT_CHARS
            && word.chars().any(latin)
            && word.chars().any(is_latin_lookalike)
    };
    !text.is_ascii() && text.split(|letter: char| !letter.is_alphanumeric()).any(is_mixed)
}

/// Returns whether a letter is from a script that resembles Latin: Greek, Cyrillic, Armenian, Cherokee or Lisu.
fn is_latin_lookalike(letter: char) -> bool {
    letter.is_alphabetic()
        && (matches!(letter, '\u{370}'..='\u{58f}' | '\u{13a0}'..='\u{13ff}')
            || matches!(letter, '\u{1c80}'..='\u{1c8f}' | '\u{a4d0}'..='\u{a4ff}' | '\u{a640}'..='\u{a69f}'))
}

#[cfg(test)]
mod tests {
    use super::{has_mixed_scripts, normalize_letters};

    #[test]
    fn lookalike_letters_become_plain_letters() {
        assert_eq!(normalize_letters("ｄｅｌ 𝐝𝐞𝐥 Ⓓel …"), "del del Del …");
    }

    #[test]
    fn mixed_scripts_are_detected_within_a_word_but_not_across_words() {
        assert!(has_mixed_scripts("get dеlete"));
        assert!(
            !has_mixed_scripts("удалить файл")
                && !has_mixed_scripts("获取PDF文件")
                && !has_mixed_scripts("10 μs")
                && !has_mixed_scripts("café")
        );
    }
}
