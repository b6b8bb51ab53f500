//! The lexicon: what verbs do, which forms they have, and what nouns refer to.

mod lexicon_file;
mod verb_forms;

use std::collections::HashMap;

use crate::data_flow_label::DataFlowLabel;
use crate::risk_signals::RiskSignalKind;
pub use lexicon_file::CategoryScores;
pub(crate) use lexicon_file::{CategoryRiskMultipliers, CategoryThresholds, LexiconFile};
use verb_forms::{singular_stem, verb_forms};

/// Id of a word in the lexicon.
pub(crate) type WordId = u32;

/// Groups of verbs with similar effects.
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

    /// Returns the rank used to choose the more harmful of two verbs.
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

    /// Returns whether a verb in this group removes something, or may remove something.
    pub fn is_removal(self) -> bool {
        matches!(self, Self::Destroy | Self::Undo)
    }
}

/// Properties of a word.
#[derive(Debug, Clone, Default)]
pub(crate) struct LexiconWord {
    /// Base form.
    pub base_form: Box<str>,
    /// The verb group, if the word is a verb.
    pub group: Option<VerbGroup>,
    /// Whether the word is a noun just as often as a verb.
    pub is_often_noun: bool,
    /// Whether the action may only return something without changing anything (`download`, `convert`).
    pub may_change_nothing: bool,
    /// Whether the action might only detach something, which can be undone (`remove` a label).
    pub may_only_unlink: bool,
    /// Whether the word denotes something that links two things and can be restored after removal, such as a label or a
    /// membership.
    pub is_relation: bool,
    /// Whether the action may only be a calculation if all parameters are numbers (`add`).
    pub may_only_compute: bool,
    /// Whether the word negates what follows.
    pub is_negation: bool,
    /// Whether the word is a noun related to money.
    pub is_money_noun: bool,
    /// Whether the word, combined with a money noun, indicates a financial commitment (`create` a refund).
    pub commits_money: bool,
    /// Data flows that the word indicates.
    pub flows: Vec<DataFlowLabel>,
    /// Whether the word is a verb for sending something to others.
    pub is_sending_verb: bool,
    /// Risk signals that the word indicates in a tool's name or the first sentence of its description.
    pub signals: Vec<RiskSignalKind>,
}

/// All known words, indexed by their forms.
#[derive(Debug, Default)]
pub(crate) struct Lexicon {
    ids: HashMap<Box<str>, WordId>,
    words: Vec<LexiconWord>,
}

impl Lexicon {
    /// Finds a word by any of its forms, given in lower case.
    pub fn find(&self, form: &str) -> Option<WordId> {
        self.ids.get(form).or_else(|| self.ids.get(singular_stem(form)?)).copied()
    }

    /// Returns the properties of a word.
    pub fn word(&self, id: WordId) -> Option<&LexiconWord> {
        self.words.get(id as usize)
    }

    /// Returns the number of words.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns the id of the word with this form, adding it if it is new.
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

    /// Adds a verb and its forms. If the verb is in two groups, the more harmful group is kept.
    fn add_verb(&mut self, base: &str, group: VerbGroup) {
        let id = self.get_or_insert(base);
        let Some(word) = self.words.get_mut(id as usize) else { return };
        if word.group.is_none_or(|own| own.harm_rank() < group.harm_rank()) {
            word.group = Some(group);
        }
        // `rms` and `cps` are different words, and most scripts do not inflect like this.
        let has_forms = base.len() > 2 && base.is_ascii();
        for form in verb_forms(base).into_iter().filter(|_| has_forms) {
            self.ids.entry(form.into()).or_insert(id);
        }
    }
}
