//! The model: each feature gives points to five outcomes, and the points become shares.

use std::collections::HashMap;

use gatelodge_policy::Category;

use crate::lexicon::{CategoryScores, Lexicon, VerbGroup};
use crate::risk_signals::RiskSignalKind;
use crate::tool_features::{Feature, FeatureFlag, FeatureId, PhraseKind, WordPosition};

/// The outcomes, in the order of their points.
pub const MODEL_CATEGORIES: [Category; 5] =
    [Category::Read, Category::Write, Category::Execute, Category::Destructive, Category::Financial];

/// The weights of all features.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClassifierModel {
    pub bias: CategoryScores,
    pub weights: HashMap<FeatureId, CategoryScores>,
}

/// How likely each outcome is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CategoryProbabilities {
    pub read: f64,
    pub write: f64,
    pub execute: f64,
    pub destructive: f64,
    pub financial: f64,
}

impl ClassifierModel {
    /// The points of a feature.
    pub fn scores(&self, key: FeatureId) -> CategoryScores {
        self.weights.get(&key).copied().unwrap_or_default()
    }

    /// The points of all features together.
    pub fn total_scores<'f>(&self, features: impl IntoIterator<Item = &'f Feature<'f>>) -> CategoryScores {
        let mut sum = self.bias;
        for feature in features {
            add_scores(&mut sum, self.scores(feature.key));
        }
        sum
    }
}

/// Adds points.
pub(crate) fn add_scores(sum: &mut CategoryScores, points: CategoryScores) {
    for (sum, point) in sum.iter_mut().zip(points) {
        *sum += point;
    }
}

/// Points as shares: the exponentials, over their sum.
pub(crate) fn softmax(points: CategoryScores) -> CategoryScores {
    let most = points.iter().copied().fold(f64::MIN, f64::max);
    let powers = points.map(|point| (point - most).exp());
    let sum: f64 = powers.iter().sum();
    powers.map(|power| power / sum)
}

impl CategoryProbabilities {
    /// The shares that points give.
    pub fn of(points: CategoryScores) -> Self {
        let [read, write, execute, destructive, financial] = softmax(points);
        Self { read, write, execute, destructive, financial }
    }

    /// The share of a category.
    pub fn get(self, category: Category) -> f64 {
        match category {
            Category::Read => self.read,
            Category::Write => self.write,
            Category::Execute => self.execute,
            Category::Destructive => self.destructive,
            Category::Financial => self.financial,
            Category::Unknown => 0.0,
        }
    }
}

/// Points that keep two promises: a word that takes away never makes a tool milder, and what warns never speaks for Read.
pub(crate) fn constrain_scores(key: FeatureId, points: CategoryScores, lexicon: &Lexicon) -> CategoryScores {
    if is_removal_feature(key, lexicon) {
        make_nondecreasing(points)
    } else if is_warning(key) {
        let [read, rest @ ..] = points;
        let [write, run, destroy, pay] = rest.map(|point| point.max(read));
        [read, write, run, destroy, pay]
    } else if key == FeatureId::Flag(FeatureFlag::NoVerb) {
        // A verb that takes away ends it, which must not be milder either.
        make_nondecreasing(points.map(|point| -point)).map(|point| -point)
    } else {
        points
    }
}

/// Whether a fact warns: all signals do, and all phrases but those of only looking.
fn is_warning(key: FeatureId) -> bool {
    match key {
        FeatureId::Flag(FeatureFlag::Signal(_) | FeatureFlag::CommitsMoney) => true,
        FeatureId::Flag(FeatureFlag::Phrase(phrase)) => {
            !matches!(phrase, PhraseKind::ReadOnly | PhraseKind::DeniesChange)
        }
        FeatureId::Flag(FeatureFlag::NoParameters | FeatureFlag::OnlyNumbers | FeatureFlag::NoVerb) => false,
        FeatureId::Group(..)
        | FeatureId::Word(..)
        | FeatureId::GroupPair(..)
        | FeatureId::VerbPair(..)
        | FeatureId::WordPair(..) => false,
    }
}

/// Points that rise with the level: from Read over Write and Execute to Destructive and Financial.
fn make_nondecreasing(points: CategoryScores) -> CategoryScores {
    let [read, write, run, destroy, pay] = points;
    let write = write.max(read);
    let run = run.max(write);
    [read, write, run, destroy.max(run), pay.max(run)]
}

/// Whether a feature speaks of taking away.
pub(crate) fn is_removal_feature(key: FeatureId, lexicon: &Lexicon) -> bool {
    match key {
        FeatureId::Group(_, group) => group.is_removal(),
        FeatureId::Word(slot, id) => {
            !matches!(slot, WordPosition::ParameterWord | WordPosition::ParameterName)
                && lexicon.word(id).and_then(|word| word.group).is_some_and(VerbGroup::is_removal)
        }
        FeatureId::Flag(flag) => matches!(flag, FeatureFlag::Phrase(phrase) if phrase.is_removal()),
        FeatureId::GroupPair(lead, says) => lead.into_iter().chain(says).any(VerbGroup::is_removal),
        FeatureId::VerbPair(..) | FeatureId::WordPair(..) => false,
    }
}

/// Whether a feature speaks of money.
pub(crate) fn is_money_feature(key: FeatureId, lexicon: &Lexicon) -> bool {
    match key {
        FeatureId::Group(_, group) => group == VerbGroup::Pay,
        // What may be handed over is not always money: `transfer_issue`.
        FeatureId::Word(_, id) => lexicon.word(id).is_some_and(|word| word.is_money_noun && !word.commits_money),
        FeatureId::Flag(flag) => {
            matches!(
                flag,
                FeatureFlag::CommitsMoney
                    | FeatureFlag::Phrase(PhraseKind::Money)
                    | FeatureFlag::Signal(RiskSignalKind::TakesAmount)
            )
        }
        FeatureId::GroupPair(..) | FeatureId::VerbPair(..) | FeatureId::WordPair(..) => false,
    }
}
