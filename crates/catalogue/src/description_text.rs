//! Splits a description into words, and finds its leading verb and its first sentence.

use std::borrow::Cow;

use crate::display_escape::is_invisible;
use crate::homoglyphs::normalize_letters;
use crate::lexicon::{Lexicon, VerbGroup, WordId};

/// Only this many bytes of a description are read. A longer description probably hides something.
pub(crate) const MAX_DESCRIPTION_BYTES: usize = 32 << 10;
/// The first sentence is cut off after this many words.
const MAX_SENTENCE_WORDS: usize = 60;
/// Number of words after a negation that count as negated.
const NEGATION_REACH_WORDS: usize = 3;
/// The leading verb must be among this many words at the start of a description.
const MAX_LEAD_VERB_POSITION: usize = 12;

/// One word of a description.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DescriptionToken<'t> {
    /// The word as written.
    pub text: &'t str,
    /// Byte offset of the word.
    pub start: usize,
    /// Id of the word in the lexicon, if it is known.
    pub word_id: Option<WordId>,
    /// Whether the word is in the first sentence.
    pub is_in_first_sentence: bool,
    /// Whether the word starts a sentence.
    pub starts_sentence: bool,
    /// Whether the word follows `and`, `or`, `then` or a comma.
    pub follows_conjunction: bool,
    /// Whether a negation applies to the word.
    pub is_negated: bool,
}

/// A tokenized description.
#[derive(Debug, Default)]
pub(crate) struct DescriptionText<'t> {
    source: &'t str,
    pub tokens: Vec<DescriptionToken<'t>>,
    /// Index of the leading verb in `tokens`.
    pub lead_verb: Option<usize>,
}

/// Text without its invisible characters. Records whether there were any and whether the text was truncated.
pub(crate) struct VisibleText<'t> {
    pub text: Cow<'t, str>,
    pub had_invisible: bool,
    pub is_truncated: bool,
}

/// Removes invisible characters, which could be used to split words. Joiners, which occur in emoji, do not count as
/// hidden text.
pub(crate) fn strip_invisible(text: &str) -> VisibleText<'_> {
    let is_cut = text.len() > MAX_DESCRIPTION_BYTES;
    let mut end = text.len().min(MAX_DESCRIPTION_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end).unwrap_or_default();
    if text.is_ascii() {
        return VisibleText { text: Cow::Borrowed(text), had_invisible: false, is_truncated: is_cut };
    }
    let had_hidden = text
        .chars()
        .any(|letter| is_invisible(letter) && !matches!(letter, '\u{200d}' | '\u{feff}' | '\u{2028}' | '\u{2029}'));
    let seen: String = text.chars().filter(|letter| !is_invisible(*letter)).collect();
    VisibleText {
        text: Cow::Owned(normalize_letters(&seen).into_owned()),
        had_invisible: had_hidden,
        is_truncated: is_cut,
    }
}

impl<'t> DescriptionText<'t> {
    /// Splits a description into words.
    pub fn of(text: &'t str, lexicon: &Lexicon) -> Self {
        let mut reader = DescriptionTokenizer {
            lexicon,
            lowercase: String::new(),
            is_in_first_sentence: true,
            starts_sentence: true,
            follows_conjunction: false,
            negated_words_left: 0,
            tokens: Vec::new(),
        };
        let mut start = None;
        let mut before = ' ';
        for (at, letter) in text.char_indices() {
            if is_cjk(letter) {
                if let Some(begin) = start.take() {
                    reader.push_word(text.get(begin..at).unwrap_or_default(), begin);
                }
                let next = text.get(at + letter.len_utf8()..).and_then(|rest| rest.chars().next());
                let pair = letter.len_utf8() + next.filter(|next| is_cjk(*next)).map_or(0, char::len_utf8);
                // The last character of a run is part of the previous pair.
                if pair > letter.len_utf8() || !is_cjk(before) {
                    reader.push_word(text.get(at..at + pair).unwrap_or_default(), at);
                }
                before = letter;
                continue;
            }
            before = letter;
            let is_inside = letter.is_alphanumeric() || matches!(letter, '_' | '\'' | '’');
            match (is_inside, start) {
                (true, None) => start = Some(at),
                (false, Some(begin)) => {
                    reader.push_word(text.get(begin..at).unwrap_or_default(), begin);
                    start = None;
                }
                _ => {}
            }
            if !is_inside {
                reader.handle_punctuation(letter, text.get(at + letter.len_utf8()..).unwrap_or_default());
            }
        }
        if let Some(begin) = start {
            reader.push_word(text.get(begin..).unwrap_or_default(), begin);
        }
        let lead_verb = find_lead_verb(&reader.tokens, lexicon);
        Self { source: text, tokens: reader.tokens, lead_verb }
    }

    /// Returns whether most words are in the lexicon. If not, the description may be in an unsupported language, and
    /// nothing can be concluded from the lack of a known verb.
    pub fn is_mostly_known(&self, lexicon: &Lexicon) -> bool {
        // Words of removal are not counted, so that adding one does not change the result.
        let takes_away = |token: &&DescriptionToken<'_>| {
            let word = token.word_id.and_then(|id| lexicon.word(id));
            word.and_then(|word| word.group).is_some_and(VerbGroup::is_removal)
        };
        let others = || self.tokens.iter().filter(|token| !takes_away(token)).take(MAX_SENTENCE_WORDS);
        let known = others().filter(|token| token.word_id.is_some()).count();
        known > 0 && known * 2 >= others().count()
    }

    /// Finds a destructive verb that describes what the tool does: at the start of a sentence, joined to another verb,
    /// or in the third person (`removes`). An infinitive (`to remove`) may refer to something else.
    pub fn find_destructive_verb(&self, lexicon: &Lexicon) -> Option<&DescriptionToken<'t>> {
        self.tokens.iter().filter(|token| !token.is_negated).find(|token| {
            let word = token.word_id.and_then(|id| lexicon.word(id));
            let does = || token.is_in_first_sentence && token.text.ends_with(['s', 'S']);
            word.is_some_and(|word| word.group == Some(VerbGroup::Destroy) && !word.is_often_noun)
                && (token.starts_sentence || (token.is_in_first_sentence && token.follows_conjunction) || does())
        })
    }

    /// Returns whether any sentence starts with a verb for reading, as in `Returns the route.`
    pub fn has_reading_verb(&self, lexicon: &Lexicon) -> bool {
        let begins = self.tokens.iter().filter(|token| token.starts_sentence && !token.is_negated);
        let mut words = begins.filter_map(|token| lexicon.word(token.word_id?));
        words.any(|word| word.group == Some(VerbGroup::Read) && !word.is_often_noun)
    }

    /// Returns the source text of `count` tokens, starting with token `from`.
    pub fn text_of_tokens(&self, from: usize, count: usize) -> &'t str {
        let last = from + count.saturating_sub(1);
        let (Some(first), Some(last)) = (self.tokens.get(from), self.tokens.get(last)) else { return "" };
        self.source.get(first.start..last.start + last.text.len()).unwrap_or_default()
    }
}

struct DescriptionTokenizer<'t, 'l> {
    lexicon: &'l Lexicon,
    lowercase: String,
    is_in_first_sentence: bool,
    starts_sentence: bool,
    follows_conjunction: bool,
    negated_words_left: usize,
    tokens: Vec<DescriptionToken<'t>>,
}

impl<'t> DescriptionTokenizer<'t, '_> {
    fn push_word(&mut self, written: &'t str, start: usize) {
        // Names of other tools and of fields say nothing about this tool.
        let is_name = written.contains('_') || written.as_bytes().windows(2).any(is_camel_case_boundary);
        let id = if is_name { None } else { self.find_word(written) };
        let is_denied = self.negated_words_left > 0;
        self.negated_words_left = self.negated_words_left.saturating_sub(1);
        if id.and_then(|id| self.lexicon.word(id)).is_some_and(|word| word.is_negation) {
            self.negated_words_left = NEGATION_REACH_WORDS;
        }
        let (is_first, is_start, is_joined) =
            (self.is_in_first_sentence, self.starts_sentence, self.follows_conjunction);
        self.tokens.push(DescriptionToken {
            text: written,
            start,
            word_id: id,
            is_in_first_sentence: is_first,
            starts_sentence: is_start,
            follows_conjunction: is_joined,
            is_negated: is_denied,
        });
        self.starts_sentence = false;
        self.follows_conjunction = is_conjunction(written);
        if self.tokens.len() >= MAX_SENTENCE_WORDS {
            self.is_in_first_sentence = false;
        }
    }

    fn find_word(&mut self, written: &str) -> Option<WordId> {
        self.lowercase.clear();
        for letter in written.chars() {
            self.lowercase.extend(if letter == '’' { '\''.to_lowercase() } else { letter.to_lowercase() });
        }
        self.lexicon.find(&self.lowercase)
    }

    fn handle_punctuation(&mut self, sign: char, after: &str) {
        let ends = match sign {
            '.' | '!' | '?' => after.is_empty() || after.starts_with(char::is_whitespace),
            '\n' => after.trim_start_matches([' ', '\t', '\r']).starts_with(['\n', '-', '*', '•']),
            '。' | '；' => true,
            _ => false,
        };
        self.follows_conjunction |= matches!(sign, ',' | ';' | '、');
        if ends {
            self.negated_words_left = 0;
            self.starts_sentence = true;
            // A heading of one or two words is not a sentence.
            self.is_in_first_sentence &= self.tokens.len() < 3;
        }
    }
}

/// Returns whether a character is Chinese, Japanese or Korean. Words in these scripts are not separated and are mostly
/// two characters long, so pairs of characters are treated as words.
fn is_cjk(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

fn is_camel_case_boundary(pair: &[u8]) -> bool {
    matches!(pair, [small, large] if small.is_ascii_lowercase() && large.is_ascii_uppercase())
}

fn find_lead_verb(tokens: &[DescriptionToken<'_>], lexicon: &Lexicon) -> Option<usize> {
    let verbs = tokens
        .iter()
        .take(MAX_LEAD_VERB_POSITION)
        .enumerate()
        .filter(|(_, token)| !token.is_negated && token.is_in_first_sentence);
    let mut verbs = verbs.filter_map(|(at, token)| {
        let word = lexicon.word(token.word_id?)?;
        word.group.filter(|_| at == 0 || !word.is_often_noun).map(|_| at)
    });
    let first = verbs.next()?;
    Some(most_harmful_verb(tokens, first, lexicon))
}

fn is_conjunction(written: &str) -> bool {
    ["and", "or", "then"].iter().any(|word| written.eq_ignore_ascii_case(word))
}

/// Returns the index of the most harmful of several joined verbs: `View or change`, `Gets, sets and deletes`.
fn most_harmful_verb(tokens: &[DescriptionToken<'_>], first: usize, lexicon: &Lexicon) -> usize {
    let group = |at: usize| lexicon.word(tokens.get(at)?.word_id?).filter(|word| !word.is_often_noun)?.group;
    let joins = |at: usize| tokens.get(at).is_some_and(|token| is_conjunction(token.text));
    let (mut most, mut at) = (first, first + 1);
    // Stops at the end of the first sentence.
    while at < first + MAX_LEAD_VERB_POSITION && tokens.get(at).is_some_and(|token| token.is_in_first_sentence) {
        match group(at) {
            Some(own) if group(most).is_none_or(|most| own.harm_rank() > most.harm_rank()) => most = at,
            Some(_) => {}
            None if joins(at) => {}
            None => break,
        }
        at += 1;
    }
    most
}
