//! The interface for training the classifier: its vocabulary, the features of a tool, and their weights.
//!
//! The training itself is in `gatelodge-indexer`, so that it is not part of the gateway. This module exposes as little
//! as possible of the classifier's private types: to the trainer, a feature is an opaque key for which it learns
//! scores.

use gatelodge_policy::Category;

use crate::categorize::categorize;
use crate::classifier_data::{ClassifierData, ClassifierDataError};
pub use crate::classifier_model::MODEL_CATEGORIES;
use crate::classifier_model::{constrain_scores, softmax};
use crate::classify::with_features;
pub use crate::confidence_calibration::ConfidenceCalibration;
use crate::description_text::{DescriptionText, strip_invisible};
pub use crate::lexicon::CategoryScores;
use crate::server_context::ServerContext;
use crate::tool_features::{FeatureId, WordPosition};
use crate::tool_name_words::split_words;
use crate::tool_parameters::ToolParameters;
use crate::tool_spec::{ToolAnnotations, ToolSpec};
use crate::weights_file::WeightsFile;

/// An opaque key that identifies a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureKey(FeatureId);

/// Kinds of features. They differ in how much a single feature says about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureKind {
    /// A fact about the tool: the group of its verb, a pair of such groups, or a flag.
    Fact,
    /// A word, or a pair of words.
    Word,
    /// A word after the first sentence of the description.
    LaterWord,
}

impl FeatureKey {
    /// Returns the kind of the feature.
    pub fn kind(self) -> FeatureKind {
        match self.0 {
            FeatureId::Word(WordPosition::LaterSentence, _) => FeatureKind::LaterWord,
            FeatureId::Word(..) | FeatureId::VerbPair(..) | FeatureId::WordPair(..) => FeatureKind::Word,
            FeatureId::Group(..) | FeatureId::Flag(_) | FeatureId::GroupPair(..) => FeatureKind::Fact,
        }
    }
}

/// Error returned when one of the classifier's data files cannot be read, or the weights cannot be serialized.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the data of the classifier")]
pub struct ClassifierDataFileError(#[from] ClassifierDataError);

/// The category that a model in training assigns to a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct CategoryPrediction {
    /// The category.
    pub category: Category,
    /// The model's probability for the category.
    pub share: f64,
    /// The conclusive evidence that the tool is not Read, if there is any.
    pub against_read: Option<String>,
}

/// A classifier in training, which starts with the prior scores from the lexicon.
#[derive(Debug)]
pub struct TrainingModel(ClassifierData);

impl TrainingModel {
    /// Creates a model without trained weights.
    ///
    /// # Errors
    /// Returns an error if a data file compiled into this build cannot be read.
    pub fn untrained() -> Result<Self, ClassifierDataFileError> {
        Ok(Self(ClassifierData::untrained()?))
    }

    /// Returns the words in the name, description and parameters of a tool.
    pub fn words_of(&self, tool: &ToolSpec<'_>) -> Vec<String> {
        let description = strip_invisible(tool.description.as_deref().unwrap_or_default());
        let text = DescriptionText::of(&description.text, &self.0.lexicon);
        let described = text.tokens.iter().map(|token| token.text.to_lowercase());
        let parameters = ToolParameters::of(tool.schema);
        let taken = parameters.list.iter().flat_map(|own| own.name_words.split('_').chain([own.name_words.as_str()]));
        split_words(&tool.name).into_iter().chain(described).chain(taken.map(str::to_owned)).collect()
    }

    /// Adds a word to the vocabulary if it is new.
    pub fn add_word(&mut self, word: &str) {
        if self.0.lexicon.find(word).is_none() {
            self.0.lexicon.get_or_insert(word);
        }
    }

    /// Returns the features of a tool in the context of its server.
    pub fn features(&self, tool: &ToolSpec<'_>, server: &ServerContext) -> Vec<FeatureKey> {
        with_features(tool, server, &self.0, |_, features| {
            features.iter().map(|feature| FeatureKey(feature.key)).collect()
        })
    }

    /// Classifies a tool with the current weights, ignoring annotations.
    pub fn predict(&self, tool: &ToolSpec<'_>, server: &ServerContext) -> CategoryPrediction {
        let decision = with_features(tool, server, &self.0, |found, features| {
            categorize(found, features, ToolAnnotations::default(), &self.0)
        });
        let against_read = decision.not_read_reason.map(|own| own.reason);
        CategoryPrediction { category: decision.category, share: decision.probability, against_read }
    }

    /// Returns the model's bias, the scores that every tool starts with.
    pub fn bias(&self) -> CategoryScores {
        self.0.model.bias
    }

    /// Returns the scores of a feature, which are zero if it has no weights.
    pub fn points(&self, key: FeatureKey) -> CategoryScores {
        self.0.model.scores(key.0)
    }

    /// Returns whether a feature has weights.
    pub fn has_points(&self, key: FeatureKey) -> bool {
        self.0.model.weights.contains_key(&key.0)
    }

    /// Adjusts scores to preserve the classifier's guarantees: a removal word never leads to a milder category, and a
    /// warning never supports Read.
    pub fn allowed(&self, key: FeatureKey, points: CategoryScores) -> CategoryScores {
        constrain_scores(key.0, points, &self.0.lexicon)
    }

    /// Replaces the bias and adds or replaces weights.
    pub fn learn(&mut self, bias: CategoryScores, weights: impl IntoIterator<Item = (FeatureKey, CategoryScores)>) {
        self.0.model.bias = bias;
        self.0.model.weights.extend(weights.into_iter().map(|(key, points)| (key.0, points)));
    }

    /// Serializes the weights in the format of `data/weights.json`. `origin` describes the data that they were trained
    /// on.
    ///
    /// # Errors
    /// Returns an error if the weights cannot be serialized.
    pub fn to_text(&self, origin: &str, calibration: ConfidenceCalibration) -> Result<String, ClassifierDataFileError> {
        let text = WeightsFile::of(&self.0, origin.to_owned(), calibration).to_text();
        Ok(text.map_err(ClassifierDataError::from)?)
    }
}

/// Converts scores to probabilities with softmax.
pub fn shares(points: CategoryScores) -> CategoryScores {
    softmax(points)
}
