//! The words we know: what a verb does, which forms it has, what a noun is about.

mod forms;
mod written;

use std::collections::HashMap;

use crate::flow::Flow;
use crate::signals::SignalKind;
use forms::{forms, stem};
pub use written::Points;
pub(crate) use written::{Borders, Leans, Written};

/// A word of the lexicon.
pub(crate) type WordId = u32;

/// What a verb does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Group {
    Read,
    Think,
    Write,
    Send,
    Run,
    Destroy,
    Undo,
    Money,
}

impl Group {
    pub const ALL: [Self; 8] =
        [Self::Read, Self::Think, Self::Write, Self::Send, Self::Run, Self::Destroy, Self::Undo, Self::Money];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Think => "think",
            Self::Write => "write",
            Self::Send => "send",
            Self::Run => "run",
            Self::Destroy => "destroy",
            Self::Undo => "undo",
            Self::Money => "money",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.as_str() == word)
    }

    /// How much harm it can do, beside another verb.
    pub fn harm(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Think => 1,
            Self::Write | Self::Send => 2,
            Self::Run | Self::Undo => 3,
            Self::Money => 4,
            Self::Destroy => 5,
        }
    }

    /// Whether the verb takes something away, for good or perhaps.
    pub fn takes_away(self) -> bool {
        matches!(self, Self::Destroy | Self::Undo)
    }
}

/// What is known of a word.
#[derive(Debug, Clone, Default)]
pub(crate) struct Word {
    /// Its base form.
    pub base: Box<str>,
    /// What it does, if it is a verb.
    pub group: Option<Group>,
    /// Whether it is as often a noun.
    pub is_doubtful: bool,
    /// Whether it may give something back and leave everything as it was: `download`, `convert`.
    pub is_either: bool,
    /// Whether what it takes away may be no more than a relation, which can be put back: `remove` a label.
    pub unties: bool,
    /// Whether it is such a relation.
    pub is_relation: bool,
    /// Whether it may only compute, where it is given nothing but numbers: `add`.
    pub computes: bool,
    /// Whether it denies what follows.
    pub denies: bool,
    /// Whether it is a thing of money.
    pub is_money: bool,
    /// Whether doing this to a thing of money commits it.
    pub commits: bool,
    /// Which data it speaks of.
    pub flows: Vec<Flow>,
    /// Whether it carries something to others.
    pub sends: bool,
    /// What it shows in the name of a tool.
    pub signals: Vec<SignalKind>,
}

/// All words, found by any of their forms.
#[derive(Debug, Default)]
pub(crate) struct Lexicon {
    ids: HashMap<Box<str>, WordId>,
    words: Vec<Word>,
}

impl Lexicon {
    /// Finds a word by a form of it, in small letters.
    pub fn find(&self, form: &str) -> Option<WordId> {
        self.ids.get(form).or_else(|| self.ids.get(stem(form)?)).copied()
    }

    /// What is known of a word.
    pub fn word(&self, id: WordId) -> Option<&Word> {
        self.words.get(id as usize)
    }

    /// How many words there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// The word for a form, new if it is not known.
    pub fn id_of(&mut self, form: &str) -> WordId {
        if let Some(id) = self.ids.get(form) {
            return *id;
        }
        let id = self.words.len() as WordId;
        self.words.push(Word { base: form.into(), ..Word::default() });
        self.ids.insert(form.into(), id);
        id
    }

    pub fn change(&mut self, form: &str, change: impl FnOnce(&mut Word)) {
        let id = self.id_of(form);
        if let Some(word) = self.words.get_mut(id as usize) {
            change(word);
        }
    }

    /// Adds a verb with its forms; where two groups have it, the one that does more harm stays.
    fn add_verb(&mut self, base: &str, group: Group) {
        let id = self.id_of(base);
        let Some(word) = self.words.get_mut(id as usize) else { return };
        if word.group.is_none_or(|own| own.harm() < group.harm()) {
            word.group = Some(group);
        }
        // `rms` and `cps` are other words, and most scripts have no such forms.
        let has_forms = base.len() > 2 && base.is_ascii();
        for form in forms(base).into_iter().filter(|_| has_forms) {
            self.ids.entry(form.into()).or_insert(id);
        }
    }
}
