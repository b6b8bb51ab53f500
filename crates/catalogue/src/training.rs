//! Interface for training the classifier: its words, the features of a tool, and their weights.
//!
//! Training itself is in `gatelodge-indexer`, so that the gateway does not contain it. This module exposes as little as
//! possible of the classifier's private types: a feature is an opaque key, for which the trainer learns scores.

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

/// Opaque key of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureKey(FeatureId);

/// Kinds of features, by how informative a single one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureKind {
    /// A verb group, a pair of groups, or a flag.
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

/// Error returned when a data file of the classifier cannot be read, or the weights cannot be serialized.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the data of the classifier")]
pub struct TrainingDataError(#[from] ClassifierDataError);

/// Category that a model in training assigns to a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct CategoryPrediction {
    /// The category.
    pub category: Category,
    /// Its probability according to the model.
    pub share: f64,
    /// Why the tool is not Read, if there is a reason.
    pub against_read: Option<String>,
}

/// A classifier in training. Starts with the prior scores of the lexicon.
#[derive(Debug)]
pub struct TrainingModel(ClassifierData);

impl TrainingModel {
    /// Creates a model without trained weights.
    ///
    /// # Errors Returns an error if a data file of this build cannot be read.
    pub fn untrained() -> Result<Self, TrainingDataError> {
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

    /// Adds a word to the vocabulary, unless it is known.
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

    /// Returns the bias.
    pub fn bias(&self) -> CategoryScores {
        self.0.model.bias
    }

    /// Returns the scores of a feature. Zero for a feature without weights.
    pub fn points(&self, key: FeatureKey) -> CategoryScores {
        self.0.model.scores(key.0)
    }

    /// Returns whether a feature has weights.
    pub fn has_points(&self, key: FeatureKey) -> bool {
        self.0.model.weights.contains_key(&key.0)
    }

    /// Adjusts scores so that they keep the guarantees of the classifier: a word of removal never leads to a milder
    /// category, and a warning never supports Read.
    pub fn allowed(&self, key: FeatureKey, points: CategoryScores) -> CategoryScores {
        constrain_scores(key.0, points, &self.0.lexicon)
    }

    /// Replaces weights by learned ones.
    pub fn learn(&mut self, bias: CategoryScores, weights: impl IntoIterator<Item = (FeatureKey, CategoryScores)>) {
        self.0.model.bias = bias;
        self.0.model.weights.extend(weights.into_iter().map(|(key, points)| (key.0, points)));
    }

    /// Serializes the weights in the format of `data/weights.json`. `origin` says what they were made from.
    ///
    /// # Errors Returns an error if the weights cannot be serialized.
    pub fn to_text(&self, origin: &str, calibration: ConfidenceCalibration) -> Result<String, TrainingDataError> {
        let text = WeightsFile::of(&self.0, origin.to_owned(), calibration).to_text();
        Ok(text.map_err(ClassifierDataError::from)?)
    }
}

/// Converts scores to probabilities with softmax.
pub fn shares(points: CategoryScores) -> CategoryScores {
    softmax(points)
}
