//! The words we know: what a verb does, which forms it has, what a noun is about.

mod lexicon_file;
mod verb_forms;

use std::collections::HashMap;

use crate::data_flow::DataFlow;
use crate::risk_signals::RiskSignalKind;
pub use lexicon_file::CategoryScores;
pub(crate) use lexicon_file::{CategoryBiases, CategoryThresholds, LexiconFile};
use verb_forms::{singular_stem, verb_forms};

/// A word of the lexicon.
pub(crate) type WordId = u32;

/// What a verb does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum VerbGroup {
    Read,
    Compute,
    Write,
    Send,
    Run,
    Destroy,
    Undo,
    Pay,
}

impl VerbGroup {
    pub const ALL: [Self; 8] =
        [Self::Read, Self::Compute, Self::Write, Self::Send, Self::Run, Self::Destroy, Self::Undo, Self::Pay];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Compute => "think",
            Self::Write => "write",
            Self::Send => "send",
            Self::Run => "run",
            Self::Destroy => "destroy",
            Self::Undo => "undo",
            Self::Pay => "money",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.as_str() == word)
    }

    /// How much harm it can do, beside another verb.
    pub fn harm_rank(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Compute => 1,
            Self::Write | Self::Send => 2,
            Self::Run | Self::Undo => 3,
            Self::Pay => 4,
            Self::Destroy => 5,
        }
    }

    /// Whether the verb takes something away, for good or perhaps.
    pub fn is_removal(self) -> bool {
        matches!(self, Self::Destroy | Self::Undo)
    }
}

/// What is known of a word.
#[derive(Debug, Clone, Default)]
pub(crate) struct LexiconWord {
    /// Its base form.
    pub base_form: Box<str>,
    /// What it does, if it is a verb.
    pub group: Option<VerbGroup>,
    /// Whether it is as often a noun.
    pub is_often_noun: bool,
    /// Whether it may give something back and leave everything as it was: `download`, `convert`.
    pub may_change_nothing: bool,
    /// Whether what it takes away may be no more than a relation, which can be put back: `remove` a label.
    pub may_only_unlink: bool,
    /// Whether it is such a relation.
    pub is_relation: bool,
    /// Whether it may only compute, where it is given nothing but numbers: `add`.
    pub may_only_compute: bool,
    /// Whether it denies what follows.
    pub is_negation: bool,
    /// Whether it is a thing of money.
    pub is_money_noun: bool,
    /// Whether doing this to a thing of money commits it.
    pub commits_money: bool,
    /// Which data it speaks of.
    pub flows: Vec<DataFlow>,
    /// Whether it carries something to others.
    pub is_sending_verb: bool,
    /// What it shows in the name of a tool.
    pub signals: Vec<RiskSignalKind>,
}

/// All words, found by any of their forms.
#[derive(Debug, Default)]
pub(crate) struct Lexicon {
    ids: HashMap<Box<str>, WordId>,
    words: Vec<LexiconWord>,
}

impl Lexicon {
    /// Finds a word by a form of it, in small letters.
    pub fn find(&self, form: &str) -> Option<WordId> {
        self.ids.get(form).or_else(|| self.ids.get(singular_stem(form)?)).copied()
    }

    /// What is known of a word.
    pub fn word(&self, id: WordId) -> Option<&LexiconWord> {
        self.words.get(id as usize)
    }

    /// How many words there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// The word for a form, new if it is not known.
    pub fn get_or_insert(&mut self, form: &str) -> WordId {
        if let Some(id) = self.ids.get(form) {
            return *id;
        }
        let id = self.words.len() as WordId;
        self.words.push(LexiconWord { base_form: form.into(), ..LexiconWord::default() });
        self.ids.insert(form.into(), id);
        id
    }

    pub fn update_word(&mut self, form: &str, change: impl FnOnce(&mut LexiconWord)) {
        let id = self.get_or_insert(form);
        if let Some(word) = self.words.get_mut(id as usize) {
            change(word);
        }
    }

    /// Adds a verb with its forms; where two groups have it, the one that does more harm stays.
    fn add_verb(&mut self, base: &str, group: VerbGroup) {
        let id = self.get_or_insert(base);
        let Some(word) = self.words.get_mut(id as usize) else { return };
        if word.group.is_none_or(|own| own.harm_rank() < group.harm_rank()) {
            word.group = Some(group);
        }
        // `rms` and `cps` are other words, and most scripts have no such forms.
        let has_forms = base.len() > 2 && base.is_ascii();
        for form in verb_forms(base).into_iter().filter(|_| has_forms) {
            self.ids.entry(form.into()).or_insert(id);
        }
    }
}
