//! A description in words: which verb it begins with, what its first sentence and the rest of it say.

use std::borrow::Cow;

use crate::letters::fold;
use crate::lexicon::{Lexicon, VerbGroup, WordId};
use crate::shown::is_invisible;

/// More of a description is not read. Whoever needs more than this to say what a tool does hides something in it.
pub(crate) const MOST_BYTES: usize = 32 << 10;
/// A sentence that does not end, ends here.
const LONGEST_SENTENCE: usize = 60;
/// How far a denial reaches.
const REACH: usize = 3;
/// The verb of a description is among its first words, or there is none.
const LEAD_WITHIN: usize = 12;

/// One word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'t> {
    /// As it is written.
    pub written: &'t str,
    /// Where it begins.
    pub start: usize,
    /// Which of ours it is.
    pub id: Option<WordId>,
    /// Whether it stands in the first sentence.
    pub is_first: bool,
    /// Whether a sentence begins with it.
    pub is_start: bool,
    /// Whether it follows an `and`, an `or`, a `then` or a comma.
    pub is_joined: bool,
    /// Whether a denial stands shortly before it.
    pub is_denied: bool,
}

/// A description in words.
#[derive(Debug, Default)]
pub(crate) struct Text<'t> {
    whole: &'t str,
    pub tokens: Vec<Token<'t>>,
    /// Which word is its first verb.
    pub lead: Option<usize>,
}

/// A text without the letters that are not shown, whether it had any, and whether it was cut.
pub(crate) struct Plain<'t> {
    pub text: Cow<'t, str>,
    pub had_hidden: bool,
    pub is_cut: bool,
}

/// Takes out what is not shown; it could part words. Emoji are joined by such letters; that alone hides nothing.
pub(crate) fn plain(text: &str) -> Plain<'_> {
    let is_cut = text.len() > MOST_BYTES;
    let mut end = text.len().min(MOST_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text.get(..end).unwrap_or_default();
    if text.is_ascii() {
        return Plain { text: Cow::Borrowed(text), had_hidden: false, is_cut };
    }
    let had_hidden = text
        .chars()
        .any(|letter| is_invisible(letter) && !matches!(letter, '\u{200d}' | '\u{feff}' | '\u{2028}' | '\u{2029}'));
    let seen: String = text.chars().filter(|letter| !is_invisible(*letter)).collect();
    Plain { text: Cow::Owned(fold(&seen).into_owned()), had_hidden, is_cut }
}

impl<'t> Text<'t> {
    /// Reads a text.
    pub fn of(text: &'t str, lexicon: &Lexicon) -> Self {
        let mut reader = Reader {
            lexicon,
            small: String::new(),
            is_first: true,
            is_start: true,
            is_joined: false,
            denied: 0,
            tokens: Vec::new(),
        };
        let mut start = None;
        let mut before = ' ';
        for (at, letter) in text.char_indices() {
            if is_unspaced(letter) {
                if let Some(begin) = start.take() {
                    reader.word(text.get(begin..at).unwrap_or_default(), begin);
                }
                let next = text.get(at + letter.len_utf8()..).and_then(|rest| rest.chars().next());
                let pair = letter.len_utf8() + next.filter(|next| is_unspaced(*next)).map_or(0, char::len_utf8);
                // The last letter of a run is in the pair before.
                if pair > letter.len_utf8() || !is_unspaced(before) {
                    reader.word(text.get(at..at + pair).unwrap_or_default(), at);
                }
                before = letter;
                continue;
            }
            before = letter;
            let is_inside = letter.is_alphanumeric() || matches!(letter, '_' | '\'' | '’');
            match (is_inside, start) {
                (true, None) => start = Some(at),
                (false, Some(begin)) => {
                    reader.word(text.get(begin..at).unwrap_or_default(), begin);
                    start = None;
                }
                _ => {}
            }
            if !is_inside {
                reader.sign(letter, text.get(at + letter.len_utf8()..).unwrap_or_default());
            }
        }
        if let Some(begin) = start {
            reader.word(text.get(begin..).unwrap_or_default(), begin);
        }
        let lead = lead(&reader.tokens, lexicon);
        Self { whole: text, tokens: reader.tokens, lead }
    }

    /// Whether its words are mostly ours. Of a language that we do not know, a missing verb says nothing.
    pub fn is_known(&self, lexicon: &Lexicon) -> bool {
        // Words that take away are not counted: adding one must change nothing here.
        let takes_away = |token: &&Token<'_>| {
            let word = token.id.and_then(|id| lexicon.word(id));
            word.and_then(|word| word.group).is_some_and(VerbGroup::is_removal)
        };
        let others = || self.tokens.iter().filter(|token| !takes_away(token)).take(LONGEST_SENTENCE);
        let known = others().filter(|token| token.id.is_some()).count();
        known > 0 && known * 2 >= others().count()
    }

    /// A verb that says that the tool takes away for good: one that a sentence begins with, that is joined to another,
    /// or that has the form of what somebody does: `removes`. What may be done elsewhere (`to remove`) says nothing.
    pub fn destroying(&self, lexicon: &Lexicon) -> Option<&Token<'t>> {
        self.tokens.iter().filter(|token| !token.is_denied).find(|token| {
            let word = token.id.and_then(|id| lexicon.word(id));
            let does = || token.is_first && token.written.ends_with(['s', 'S']);
            word.is_some_and(|word| word.group == Some(VerbGroup::Destroy) && !word.is_often_noun)
                && (token.is_start || (token.is_first && token.is_joined) || does())
        })
    }

    /// Whether a sentence begins with a verb that looks: `Returns the route.`
    pub fn gives(&self, lexicon: &Lexicon) -> bool {
        let begins = self.tokens.iter().filter(|token| token.is_start && !token.is_denied);
        let mut words = begins.filter_map(|token| lexicon.word(token.id?));
        words.any(|word| word.group == Some(VerbGroup::Read) && !word.is_often_noun)
    }

    /// Some words as they are written, with what stands between them.
    pub fn span(&self, from: usize, count: usize) -> &'t str {
        let last = from + count.saturating_sub(1);
        let (Some(first), Some(last)) = (self.tokens.get(from), self.tokens.get(last)) else { return "" };
        self.whole.get(first.start..last.start + last.written.len()).unwrap_or_default()
    }
}

struct Reader<'t, 'l> {
    lexicon: &'l Lexicon,
    small: String,
    is_first: bool,
    is_start: bool,
    is_joined: bool,
    denied: usize,
    tokens: Vec<Token<'t>>,
}

impl<'t> Reader<'t, '_> {
    fn word(&mut self, written: &'t str, start: usize) {
        // Names of other tools and of fields say nothing of this one.
        let is_name = written.contains('_') || written.as_bytes().windows(2).any(is_hump);
        let id = if is_name { None } else { self.find(written) };
        let is_denied = self.denied > 0;
        self.denied = self.denied.saturating_sub(1);
        if id.and_then(|id| self.lexicon.word(id)).is_some_and(|word| word.is_negation) {
            self.denied = REACH;
        }
        let (is_first, is_start, is_joined) = (self.is_first, self.is_start, self.is_joined);
        self.tokens.push(Token { written, start, id, is_first, is_start, is_joined, is_denied });
        self.is_start = false;
        self.is_joined = joins(written);
        if self.tokens.len() >= LONGEST_SENTENCE {
            self.is_first = false;
        }
    }

    fn find(&mut self, written: &str) -> Option<WordId> {
        self.small.clear();
        for letter in written.chars() {
            self.small.extend(if letter == '’' { '\''.to_lowercase() } else { letter.to_lowercase() });
        }
        self.lexicon.find(&self.small)
    }

    fn sign(&mut self, sign: char, behind: &str) {
        let ends = match sign {
            '.' | '!' | '?' => behind.is_empty() || behind.starts_with(char::is_whitespace),
            '\n' => behind.trim_start_matches([' ', '\t', '\r']).starts_with(['\n', '-', '*', '•']),
            '。' | '；' => true,
            _ => false,
        };
        self.is_joined |= matches!(sign, ',' | ';' | '、');
        if ends {
            self.denied = 0;
            self.is_start = true;
            // A heading of one or two words is no sentence.
            self.is_first &= self.tokens.len() < 3;
        }
    }
}

/// Whether a letter is of a script that is read by pairs: words of Chinese, Japanese and Korean are mostly two letters,
/// and no sign parts them from what is before and behind.
fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

fn is_hump(pair: &[u8]) -> bool {
    matches!(pair, [small, large] if small.is_ascii_lowercase() && large.is_ascii_uppercase())
}

fn lead(tokens: &[Token<'_>], lexicon: &Lexicon) -> Option<usize> {
    let verbs = tokens.iter().take(LEAD_WITHIN).enumerate().filter(|(_, token)| !token.is_denied && token.is_first);
    let mut verbs = verbs.filter_map(|(at, token)| {
        let word = lexicon.word(token.id?)?;
        word.group.filter(|_| at == 0 || !word.is_often_noun).map(|_| at)
    });
    let first = verbs.next()?;
    Some(harshest(tokens, first, lexicon))
}

fn joins(written: &str) -> bool {
    ["and", "or", "then"].iter().any(|word| written.eq_ignore_ascii_case(word))
}

/// Of `View or change` and `Gets, sets and deletes`, the verb that does the most.
fn harshest(tokens: &[Token<'_>], first: usize, lexicon: &Lexicon) -> usize {
    let group = |at: usize| lexicon.word(tokens.get(at)?.id?).filter(|word| !word.is_often_noun)?.group;
    let joins = |at: usize| tokens.get(at).is_some_and(|token| joins(token.written));
    let (mut most, mut at) = (first, first + 1);
    // What the next sentence says is not what it begins with.
    while at < first + LEAD_WITHIN && tokens.get(at).is_some_and(|token| token.is_first) {
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
