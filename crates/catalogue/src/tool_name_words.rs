//! Splits a tool's name into words and finds its verb.

use crate::display_escape::is_unprintable;
use crate::homoglyphs::normalize_letters;
use crate::lexicon::{Lexicon, LexiconWord, VerbGroup, WordId};

/// Maximum number of words to examine in a tool name.
const MAX_NAME_WORDS: usize = 24;

/// A tool name, split into words.
#[derive(Debug)]
pub(crate) struct ToolNameWords {
    /// The words in lower case, with their ids in the lexicon.
    pub words: Vec<(String, Option<WordId>)>,
    /// Number of leading words that all tool names on the server share.
    prefix_len: usize,
    /// Index of the verb in `words`.
    pub lead_verb: Option<usize>,
}

impl ToolNameWords {
    /// Splits a name into words. `prefix` holds the words that all tool names on the server start with. They are kept,
    /// but do not count as the first word when the verb is determined.
    pub fn of(name: &str, prefix: &[String], lexicon: &Lexicon) -> Self {
        let words: Vec<_> = split_words(name).into_iter().map(|word| (lexicon.find(&word), word)).collect();
        let words: Vec<_> = words.into_iter().map(|(id, word)| (word, id)).collect();
        let begins = words.len() > prefix.len() && words.iter().zip(prefix).all(|((word, _), common)| word == common);
        let prefix_len = if begins { prefix.len() } else { 0 };
        let lead_verb = find_lead_verb(&words, prefix_len, lexicon);
        Self { words, prefix_len, lead_verb }
    }

    /// Returns the verb and its id in the lexicon.
    pub fn verb(&self) -> Option<&(String, Option<WordId>)> {
        self.words.get(self.lead_verb?)
    }

    /// Returns the verb's group, which says what the verb does.
    pub fn verb_group(&self, lexicon: &Lexicon) -> Option<VerbGroup> {
        self.verb().and_then(|(_, id)| lexicon.word((*id)?)?.group)
    }

    /// Returns the words of the name without the common prefix and the verb, joined by `_`.
    pub fn object_words(&self) -> String {
        let rest = self.words.iter().enumerate().skip(self.prefix_len).filter(|(at, _)| Some(*at) != self.lead_verb);
        rest.map(|(_, (word, _))| word.as_str()).collect::<Vec<_>>().join("_")
    }
}

/// Finds the verb of a tool name: the first verb that cannot be a noun. Failing that, the last verb for reading
/// (`order_status` reads a status). Failing that, the first verb that removes something or starts the name (`map_area`
/// may map something, `static_map` does not).
fn find_lead_verb(words: &[(String, Option<WordId>)], own: usize, lexicon: &Lexicon) -> Option<usize> {
    let verbs = || {
        words.iter().enumerate().filter_map(|(at, (written, id))| {
            let word = lexicon.word((*id)?)?;
            word.group.map(|group| (at, group, may_be_noun(written, word)))
        })
    };
    let clear = verbs().find(|(_, _, is_doubtful)| !is_doubtful);
    let looks = || verbs().rev().find(|(_, group, _)| *group == VerbGroup::Read);
    let leads = || verbs().find(|(at, group, _)| *at == own || group.is_removal());
    let first = clear.or_else(looks).or_else(leads).map(|(at, _, _)| at)?;
    Some(find_joined_verb(words, first, lexicon).unwrap_or(first))
}

/// Returns whether a word in a name may be a noun: `change` is a verb, but `changes` may be a plural noun.
pub(crate) fn may_be_noun(written: &str, word: &LexiconWord) -> bool {
    let takes_away = word.group.is_some_and(VerbGroup::is_removal);
    word.is_often_noun || (!takes_away && written != &*word.base_form)
}

/// Returns the index of the most harmful of several joined verbs: `find_and_replace`, `read_or_update_or_wipe`.
fn find_joined_verb(words: &[(String, Option<WordId>)], first: usize, lexicon: &Lexicon) -> Option<usize> {
    let harm = |at: usize| lexicon.word(words.get(at)?.1?)?.group.map(VerbGroup::harm_rank);
    let joins = |at: &usize| words.get(*at).is_some_and(|(word, _)| matches!(word.as_str(), "and" | "or" | "then"));
    let after = (first + 1..words.len()).filter(joins).map(|at| at + 1).filter(|at| harm(*at) > harm(first));
    // Of equally harmful ones, the first.
    after.rev().max_by_key(|at| harm(*at))
}

/// Splits a name at camel-case boundaries and at characters other than letters and digits. Invisible characters are
/// removed first, because they could hide words.
pub(crate) fn split_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let name = normalize_letters(name);
    let mut letters = name.chars().filter(|letter| !is_unprintable(*letter)).peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        let next_is_small = letters.peek().is_some_and(|next| next.is_lowercase());
        let is_hump = letter.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next_is_small));
        if is_hump || !letter.is_alphanumeric() {
            finish_word(&mut word, &mut words);
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    finish_word(&mut word, &mut words);
    words.truncate(MAX_NAME_WORDS);
    words
}

fn finish_word(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

#[cfg(test)]
mod tests {
    use super::split_words;

    #[test]
    fn names_are_split_in_every_naming_style() {
        for name in ["get_user_id", "get-user-id", "getUserId", "GetUserID", "get.user/id", "get__user id"] {
            assert_eq!(split_words(name), ["get", "user", "id"], "{name}");
        }
        assert_eq!(split_words("listHTTPRoutes"), ["list", "http", "routes"]);
    }

    #[test]
    fn invisible_characters_hide_no_word() {
        assert_eq!(split_words("de\u{200b}lete_\u{202e}file"), ["delete", "file"]);
    }
}
