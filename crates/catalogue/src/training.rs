//! The parts of the classifier that training works on: the words it knows, the features of a tool, and their weights.
//!
//! Training itself is in `gatelodge-indexer`, so that the gateway does not contain it. This module is the narrow door to
//! the classifier's own types, which stay private: a feature is an opaque key, and the trainer learns points for it.

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

/// A feature of a tool, as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureKey(FeatureId);

/// Kinds of features, by how much one of them says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureKind {
    /// A verb by its group, a pair of groups, or a fact that is not a word.
    Fact,
    /// A word, or a pair of words.
    Word,
    /// A word after the first sentence of the description.
    LaterWord,
}

impl FeatureKey {
    /// The kind of the feature.
    pub fn kind(self) -> FeatureKind {
        match self.0 {
            FeatureId::Word(WordPosition::LaterSentence, _) => FeatureKind::LaterWord,
            FeatureId::Word(..) | FeatureId::VerbPair(..) | FeatureId::WordPair(..) => FeatureKind::Word,
            FeatureId::Group(..) | FeatureId::Flag(_) | FeatureId::GroupPair(..) => FeatureKind::Fact,
        }
    }
}

/// Error returned when the data files of the classifier cannot be read, or the weights cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the data of the classifier")]
pub struct TrainingDataError(#[from] ClassifierDataError);

/// The category that a model in training gives a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The category.
    pub category: Category,
    /// The model's share for it.
    pub share: f64,
    /// The reason why the tool is not Read, if there is one.
    pub against_read: Option<String>,
}

/// A classifier in training. It begins with the points of the lexicon.
#[derive(Debug)]
pub struct TrainingModel(ClassifierData);

impl TrainingModel {
    /// A model that has learned nothing.
    ///
    /// # Errors
    /// A data file of this build cannot be read.
    pub fn untrained() -> Result<Self, TrainingDataError> {
        Ok(Self(ClassifierData::untrained()?))
    }

    /// The words in the name, the description and the parameters of a tool.
    pub fn words_of(&self, tool: &ToolSpec<'_>) -> Vec<String> {
        let description = strip_invisible(tool.description.as_deref().unwrap_or_default());
        let text = DescriptionText::of(&description.text, &self.0.lexicon);
        let told = text.tokens.iter().map(|token| token.text.to_lowercase());
        let parameters = ToolParameters::of(tool.schema);
        let taken = parameters.list.iter().flat_map(|own| own.name_words.split('_').chain([own.name_words.as_str()]));
        split_words(&tool.name).into_iter().chain(told).chain(taken.map(str::to_owned)).collect()
    }

    /// Adds a word to those that the model can learn, unless it knows the word already.
    pub fn add_word(&mut self, word: &str) {
        if self.0.lexicon.find(word).is_none() {
            self.0.lexicon.get_or_insert(word);
        }
    }

    /// The features of a tool among its siblings.
    pub fn features(&self, tool: &ToolSpec<'_>, server: &ServerContext) -> Vec<FeatureKey> {
        with_features(tool, server, &self.0, |_, features| {
            features.iter().map(|feature| FeatureKey(feature.key)).collect()
        })
    }

    /// Classifies a tool by what the model has learned. Annotations of the server do not count.
    pub fn judge(&self, tool: &ToolSpec<'_>, server: &ServerContext) -> Judgement {
        let verdict = with_features(tool, server, &self.0, |found, features| {
            categorize(found, features, ToolAnnotations::default(), &self.0)
        });
        let against_read = verdict.not_read_reason.map(|own| own.reason);
        Judgement { category: verdict.category, share: verdict.probability, against_read }
    }

    /// The points that every tool has.
    pub fn bias(&self) -> CategoryScores {
        self.0.model.bias
    }

    /// The points of a feature; all zero for one without weights.
    pub fn points(&self, key: FeatureKey) -> CategoryScores {
        self.0.model.scores(key.0)
    }

    /// Whether a feature has weights.
    pub fn has_points(&self, key: FeatureKey) -> bool {
        self.0.model.weights.contains_key(&key.0)
    }

    /// The nearest points that keep the promises of the classifier: a word that takes away never makes a tool milder,
    /// and a warning never speaks for Read.
    pub fn allowed(&self, key: FeatureKey, points: CategoryScores) -> CategoryScores {
        constrain_scores(key.0, points, &self.0.lexicon)
    }

    /// Puts learned weights over the present ones.
    pub fn learn(&mut self, bias: CategoryScores, weights: impl IntoIterator<Item = (FeatureKey, CategoryScores)>) {
        self.0.model.bias = bias;
        self.0.model.weights.extend(weights.into_iter().map(|(key, points)| (key.0, points)));
    }

    /// The file of weights, as `data/weights.json` has it. `origin` says what it was made from.
    ///
    /// # Errors
    /// The weights cannot be written as JSON.
    pub fn to_text(&self, origin: &str, calibration: ConfidenceCalibration) -> Result<String, TrainingDataError> {
        let text = WeightsFile::of(&self.0, origin.to_owned(), calibration).to_text();
        Ok(text.map_err(ClassifierDataError::from)?)
    }
}

/// The shares of the outcomes by their points: the exponentials, divided by their sum.
pub fn shares(points: CategoryScores) -> CategoryScores {
    softmax(points)
}
