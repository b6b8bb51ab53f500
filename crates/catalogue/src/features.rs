//! What the model looks at: each feature is a fact of the definition that can be named.

mod find;
mod pairs;

use crate::lexicon::{VerbGroup, WordId};
use crate::signals::{Signal, SignalKind};
pub(crate) use find::{Found, find};

/// Where a word stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Slot {
    /// The verb of the name.
    Lead,
    /// Any other word of the name.
    Name,
    /// The first verb of the description.
    Says,
    /// Any word of its first sentence.
    First,
    /// Any later word.
    Rest,
    /// A value that chooses what is done.
    Choice,
    /// A word of a parameter's name.
    Parameter,
    /// The whole name of a parameter that has several words.
    Whole,
}

impl Slot {
    pub const ALL: [Self; 8] =
        [Self::Lead, Self::Name, Self::Says, Self::First, Self::Rest, Self::Choice, Self::Parameter, Self::Whole];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lead => "lead",
            Self::Name => "name",
            Self::Says => "says",
            Self::First => "first",
            Self::Rest => "rest",
            Self::Choice => "choice",
            Self::Parameter => "parameter",
            Self::Whole => "whole",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|slot| slot.as_str() == word)
    }
}

/// A fact that is no word, or a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Flag {
    NoParameters,
    NoVerb,
    /// It takes two numbers or more, and nothing else.
    OnlyNumbers,
    /// The name commits money: `create_refund`, `cancel_subscription`.
    Commits,
    Signal(SignalKind),
    Phrase(Phrase),
}

/// What a phrase says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phrase {
    ReadOnly,
    Gone,
    Confirm,
    Overwrites,
    Money,
    AnyCode,
    /// It says that it does not change or remove.
    Denies,
}

impl Phrase {
    const ALL: [Self; 7] =
        [Self::ReadOnly, Self::Gone, Self::Confirm, Self::Overwrites, Self::Money, Self::AnyCode, Self::Denies];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "says_read_only",
            Self::Gone => "says_gone",
            Self::Confirm => "says_confirm",
            Self::Overwrites => "says_overwrites",
            Self::Money => "says_money",
            Self::AnyCode => "says_any_code",
            Self::Denies => "says_denies",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phrase| phrase.as_str() == word)
    }

    /// Whether it speaks of something that is gone afterwards.
    pub fn takes_away(self) -> bool {
        matches!(self, Self::Gone | Self::Overwrites)
    }
}

impl Flag {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoParameters => "no_parameters",
            Self::NoVerb => "no_verb",
            Self::OnlyNumbers => "only_numbers",
            Self::Commits => "commits_money",
            Self::Signal(kind) => kind.as_str(),
            Self::Phrase(phrase) => phrase.as_str(),
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "no_parameters" => Some(Self::NoParameters),
            "no_verb" => Some(Self::NoVerb),
            "only_numbers" => Some(Self::OnlyNumbers),
            "commits_money" => Some(Self::Commits),
            _ => Phrase::from_word(word).map(Self::Phrase).or_else(|| SignalKind::from_word(word).map(Self::Signal)),
        }
    }
}

/// What a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// A verb of a group in a place.
    Group(Slot, VerbGroup),
    /// A word in a place.
    Word(Slot, WordId),
    /// A fact.
    Flag(Flag),
    /// What the verb of the name does, and what the first verb of the description does.
    Kinds(Option<VerbGroup>, Option<VerbGroup>),
    /// These two verbs themselves.
    Verbs(WordId, WordId),
    /// Two words that follow each other in the first sentence.
    Next(WordId, WordId),
}

/// A feature and what it was seen in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Feature<'t> {
    pub key: Key,
    /// The text, as it is written.
    pub source: &'t str,
}

/// Whether a signal is among those that were found.
pub(crate) fn has(signals: &[Signal], kind: SignalKind) -> bool {
    signals.iter().any(|signal| signal.kind == kind)
}
