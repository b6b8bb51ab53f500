//! The features that the model scores. Each is a fact about a tool definition that can be described in words.

mod feature_extraction;
mod feature_pairs;

use crate::lexicon::{VerbGroup, WordId};
use crate::risk_signals::{RiskSignal, RiskSignalKind};
pub(crate) use feature_extraction::{ParsedTool, extract_features};

/// Where a word occurs in a tool definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WordPosition {
    /// The verb in the tool's name.
    NameVerb,
    /// Any other word in the tool's name.
    NameWord,
    /// The leading verb of the description.
    DescriptionVerb,
    /// Any word in the first sentence of the description.
    FirstSentence,
    /// A word in the description, after its first sentence.
    LaterSentence,
    /// A possible value of a parameter that selects an operation.
    ChoiceValue,
    /// A word in a parameter's name.
    ParameterWord,
    /// The whole name of a parameter, if it consists of several words.
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

/// A feature that is not about a single word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum IndicatorFeature {
    NoParameters,
    NoVerb,
    /// All parameters are numbers, and there are at least two.
    OnlyNumbers,
    /// The name indicates a financial commitment, as in `create_refund` or `cancel_subscription`.
    CommitsMoney,
    Signal(RiskSignalKind),
    Phrase(PhraseKind),
}

/// Meaning of a phrase in a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PhraseKind {
    ReadOnly,
    Irreversible,
    NeedsConfirmation,
    Overwrites,
    Money,
    AnyCode,
    /// The description says that the tool does not change or remove anything.
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

    /// Returns whether the phrase says that data is lost: it cannot be recovered, or it is overwritten.
    pub fn is_removal(self) -> bool {
        matches!(self, Self::Irreversible | Self::Overwrites)
    }
}

impl IndicatorFeature {
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

/// The identity of a feature, under which the model stores its scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FeatureId {
    /// A verb from the given group at the given position.
    Group(WordPosition, VerbGroup),
    /// The given word at the given position.
    Word(WordPosition, WordId),
    /// A feature that is not about a single word.
    Flag(IndicatorFeature),
    /// The groups of the name's verb and of the description's leading verb.
    GroupPair(Option<VerbGroup>, Option<VerbGroup>),
    /// The name's verb and the description's leading verb.
    VerbPair(WordId, WordId),
    /// Two consecutive words in the first sentence.
    WordPair(WordId, WordId),
}

/// A feature and the text that it was found in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClassifierFeature<'t> {
    pub key: FeatureId,
    /// The part of the definition in which the feature was found. Empty if the feature is not tied to one place.
    pub source_text: &'t str,
}

/// Returns whether the signals include one of this kind.
pub(crate) fn has_signal(signals: &[RiskSignal], kind: RiskSignalKind) -> bool {
    signals.iter().any(|signal| signal.kind == kind)
}
