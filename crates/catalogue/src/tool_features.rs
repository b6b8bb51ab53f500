//! What the model looks at: each feature is a fact of the definition that can be named.

mod feature_extraction;
mod feature_pairs;

use crate::lexicon::{VerbGroup, WordId};
use crate::risk_signals::{RiskSignal, RiskSignalKind};
pub(crate) use feature_extraction::{ParsedTool, extract_features};

/// Where a word stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WordPosition {
    /// The verb of the name.
    NameVerb,
    /// Any other word of the name.
    NameWord,
    /// The first verb of the description.
    DescriptionVerb,
    /// Any word of its first sentence.
    FirstSentence,
    /// Any later word.
    LaterSentence,
    /// A value that chooses what is done.
    ChoiceValue,
    /// A word of a parameter's name.
    ParameterWord,
    /// The whole name of a parameter that has several words.
    ParameterName,
}

impl WordPosition {
    pub const ALL: [Self; 8] = [
        Self::NameVerb,
        Self::NameWord,
        Self::DescriptionVerb,
        Self::FirstSentence,
        Self::LaterSentence,
        Self::ChoiceValue,
        Self::ParameterWord,
        Self::ParameterName,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::NameVerb => "lead",
            Self::NameWord => "name",
            Self::DescriptionVerb => "says",
            Self::FirstSentence => "first",
            Self::LaterSentence => "rest",
            Self::ChoiceValue => "choice",
            Self::ParameterWord => "parameter",
            Self::ParameterName => "whole",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|slot| slot.as_str() == word)
    }
}

/// A fact that is no word, or a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FeatureFlag {
    NoParameters,
    NoVerb,
    /// It takes two numbers or more, and nothing else.
    OnlyNumbers,
    /// The name commits money: `create_refund`, `cancel_subscription`.
    CommitsMoney,
    Signal(RiskSignalKind),
    Phrase(PhraseKind),
}

/// What a phrase says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PhraseKind {
    ReadOnly,
    Irreversible,
    NeedsConfirmation,
    Overwrites,
    Money,
    AnyCode,
    /// It says that it does not change or remove.
    DeniesChange,
}

impl PhraseKind {
    const ALL: [Self; 7] = [
        Self::ReadOnly,
        Self::Irreversible,
        Self::NeedsConfirmation,
        Self::Overwrites,
        Self::Money,
        Self::AnyCode,
        Self::DeniesChange,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "says_read_only",
            Self::Irreversible => "says_gone",
            Self::NeedsConfirmation => "says_confirm",
            Self::Overwrites => "says_overwrites",
            Self::Money => "says_money",
            Self::AnyCode => "says_any_code",
            Self::DeniesChange => "says_denies",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phrase| phrase.as_str() == word)
    }

    /// Whether it speaks of something that is gone afterwards.
    pub fn is_removal(self) -> bool {
        matches!(self, Self::Irreversible | Self::Overwrites)
    }
}

impl FeatureFlag {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoParameters => "no_parameters",
            Self::NoVerb => "no_verb",
            Self::OnlyNumbers => "only_numbers",
            Self::CommitsMoney => "commits_money",
            Self::Signal(kind) => kind.as_str(),
            Self::Phrase(phrase) => phrase.as_str(),
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "no_parameters" => Some(Self::NoParameters),
            "no_verb" => Some(Self::NoVerb),
            "only_numbers" => Some(Self::OnlyNumbers),
            "commits_money" => Some(Self::CommitsMoney),
            _ => PhraseKind::from_word(word)
                .map(Self::Phrase)
                .or_else(|| RiskSignalKind::from_word(word).map(Self::Signal)),
        }
    }
}

/// What a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FeatureId {
    /// A verb of a group in a place.
    Group(WordPosition, VerbGroup),
    /// A word in a place.
    Word(WordPosition, WordId),
    /// A fact.
    Flag(FeatureFlag),
    /// What the verb of the name does, and what the first verb of the description does.
    GroupPair(Option<VerbGroup>, Option<VerbGroup>),
    /// These two verbs themselves.
    VerbPair(WordId, WordId),
    /// Two words that follow each other in the first sentence.
    WordPair(WordId, WordId),
}

/// A feature and what it was seen in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Feature<'t> {
    pub key: FeatureId,
    /// The text, as it is written.
    pub source_text: &'t str,
}

/// Whether a signal is among those that were found.
pub(crate) fn has_signal(signals: &[RiskSignal], kind: RiskSignalKind) -> bool {
    signals.iter().any(|signal| signal.kind == kind)
}
