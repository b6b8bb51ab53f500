//! The model: each feature adds scores for five categories, and softmax turns the sums into probabilities.

use std::collections::HashMap;

use gatelodge_policy::Category;

use crate::lexicon::{CategoryScores, Lexicon, VerbGroup};
use crate::risk_signals::RiskSignalKind;
use crate::tool_features::{ClassifierFeature, FeatureId, IndicatorFeature, PhraseKind, WordPosition};

/// The categories that the model scores, in the order in which scores are stored.
pub const MODEL_CATEGORIES: [Category; 5] =
    [Category::Read, Category::Write, Category::Execute, Category::Destructive, Category::Financial];

/// The weights of all features.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClassifierModel {
    pub bias: CategoryScores,
    pub weights: HashMap<FeatureId, CategoryScores>,
}

/// Probability of each category.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CategoryProbabilities {
    pub read: f64,
    pub write: f64,
    pub execute: f64,
    pub destructive: f64,
    pub financial: f64,
}

impl ClassifierModel {
    /// Returns the scores that a feature adds to the categories.
    pub fn scores(&self, key: FeatureId) -> CategoryScores {
        self.weights.get(&key).copied().unwrap_or_default()
    }

    /// Returns the sum of the scores of all features.
    pub fn total_scores<'f>(&self, features: impl IntoIterator<Item = &'f ClassifierFeature<'f>>) -> CategoryScores {
        let mut sum = self.bias;
        for feature in features {
            add_scores(&mut sum, self.scores(feature.key));
        }
        sum
    }
}

/// Adds `points` to `sum`.
pub(crate) fn add_scores(sum: &mut CategoryScores, points: CategoryScores) {
    for (sum, point) in sum.iter_mut().zip(points) {
        *sum += point;
    }
}

/// Converts scores to probabilities that add up to one.
pub(crate) fn softmax(points: CategoryScores) -> CategoryScores {
    let most = points.iter().copied().fold(f64::MIN, f64::max);
    let powers = points.map(|point| (point - most).exp());
    let sum: f64 = powers.iter().sum();
    powers.map(|power| power / sum)
}

impl CategoryProbabilities {
    /// Computes probabilities from scores.
    pub fn of(points: CategoryScores) -> Self {
        let [read, write, execute, destructive, financial] = softmax(points);
        Self { read, write, execute, destructive, financial }
    }

    /// Returns the probability of a category, which is zero for Unknown.
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

/// Adjusts scores so that two guarantees hold: a removal word never leads to a milder category, and a warning never
/// supports Read.
pub(crate) fn constrain_scores(key: FeatureId, points: CategoryScores, lexicon: &Lexicon) -> CategoryScores {
    if is_removal_feature(key, lexicon) {
        make_nondecreasing(points)
    } else if is_warning(key) {
        let [read, rest @ ..] = points;
        let [write, run, destroy, pay] = rest.map(|point| point.max(read));
        [read, write, run, destroy, pay]
    } else if key == FeatureId::Flag(IndicatorFeature::NoVerb) {
        // A destructive verb removes this feature, which must not lead to a milder category either.
        make_nondecreasing(points.map(|point| -point)).map(|point| -point)
    } else {
        points
    }
}

/// Returns whether a feature is a warning: a risk signal, a financial commitment, or a phrase in the description,
/// unless the phrase says that the tool changes nothing.
fn is_warning(key: FeatureId) -> bool {
    match key {
        FeatureId::Flag(IndicatorFeature::Signal(_) | IndicatorFeature::CommitsMoney) => true,
        FeatureId::Flag(IndicatorFeature::Phrase(phrase)) => {
            !matches!(phrase, PhraseKind::ReadOnly | PhraseKind::DeniesChange)
        }
        FeatureId::Flag(IndicatorFeature::NoParameters | IndicatorFeature::OnlyNumbers | IndicatorFeature::NoVerb) => {
            false
        }
        FeatureId::Group(..)
        | FeatureId::Word(..)
        | FeatureId::GroupPair(..)
        | FeatureId::VerbPair(..)
        | FeatureId::WordPair(..) => false,
    }
}

/// Raises each score to at least that of every less risky category. The order is Read, Write, Execute; Destructive and
/// Financial both rank above Execute.
fn make_nondecreasing(points: CategoryScores) -> CategoryScores {
    let [read, write, run, destroy, pay] = points;
    let write = write.max(read);
    let run = run.max(write);
    [read, write, run, destroy.max(run), pay.max(run)]
}

/// Returns whether a feature is about removal.
pub(crate) fn is_removal_feature(key: FeatureId, lexicon: &Lexicon) -> bool {
    match key {
        FeatureId::Group(_, group) => group.is_removal(),
        FeatureId::Word(slot, id) => {
            !matches!(slot, WordPosition::ParameterWord | WordPosition::ParameterName)
                && lexicon.word(id).and_then(|word| word.group).is_some_and(VerbGroup::is_removal)
        }
        FeatureId::Flag(flag) => matches!(flag, IndicatorFeature::Phrase(phrase) if phrase.is_removal()),
        FeatureId::GroupPair(lead, says) => lead.into_iter().chain(says).any(VerbGroup::is_removal),
        FeatureId::VerbPair(..) | FeatureId::WordPair(..) => false,
    }
}

/// Returns whether a feature is about money.
pub(crate) fn is_money_feature(key: FeatureId, lexicon: &Lexicon) -> bool {
    match key {
        FeatureId::Group(_, group) => group == VerbGroup::Pay,
        // Such verbs are not always about money: `transfer_issue`.
        FeatureId::Word(_, id) => lexicon.word(id).is_some_and(|word| word.is_money_noun && !word.commits_money),
        FeatureId::Flag(flag) => {
            matches!(
                flag,
                IndicatorFeature::CommitsMoney
                    | IndicatorFeature::Phrase(PhraseKind::Money)
                    | IndicatorFeature::Signal(RiskSignalKind::TakesAmount)
            )
        }
        FeatureId::GroupPair(..) | FeatureId::VerbPair(..) | FeatureId::WordPair(..) => false,
    }
}
