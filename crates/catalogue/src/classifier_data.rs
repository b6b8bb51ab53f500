//! The classifier's data files, parsed once. If they cannot be parsed, every tool is Unknown.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::attack_pattern::{self, AttackPattern};
use crate::classifier_model::{ClassifierModel, constrain_scores};
use crate::confidence_calibration::ConfidenceCalibration;
use crate::data_flow_label;
use crate::lexicon::{CategoryRiskMultipliers, CategoryThresholds, Lexicon, LexiconFile, VerbGroup, WordId};
use crate::risk_signals::RiskSignalRules;
use crate::tool_features::{FeatureId, IndicatorFeature, PhraseKind, WordPosition};
use crate::tool_name_words::split_words;
use crate::weights_file::WeightsFile;

const LEXICON_TOML: &str = include_str!("../data/lexicon.toml");
const SIGNALS_TOML: &str = include_str!("../data/signals.toml");
const FLOW_TOML: &str = include_str!("../data/flow.toml");
const ATTACKS_TOML: &str = include_str!("../data/attacks.toml");
const WEIGHTS_JSON: &str = include_str!("../data/weights.json");

/// Parsed data files and weights.
#[derive(Debug, Default)]
pub(crate) struct ClassifierData {
    pub lexicon: Lexicon,
    pub model: ClassifierModel,
    pub calibration: ConfidenceCalibration,
    pub signals: RiskSignalRules,
    pub patterns: Vec<AttackPattern>,
    /// Phrases, keyed by their first word.
    pub phrases: HashMap<WordId, Vec<(Vec<WordId>, PhraseKind)>>,
    pub choice_words: HashSet<Box<str>>,
    /// Nouns for code, such as `script`. A tool name indicates that the server runs code if it combines one of these
    /// nouns with a verb for running something, or if it contains one of `code_verbs`.
    pub code_nouns: HashSet<Box<str>>,
    pub code_verbs: HashSet<Box<str>>,
    /// Words that, in a server's name or description, indicate that it returns content written by strangers.
    pub untrusted_server_words: Vec<String>,
    /// Lower-case phrases that address the language model, for detecting hidden instructions.
    pub steering_phrases: Vec<String>,
    pub thresholds: CategoryThresholds,
    pub biases: CategoryRiskMultipliers,
}

/// Error returned when a data file cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClassifierDataError {
    #[error("cannot read the lexicon")]
    Toml(#[from] toml::de::Error),
    #[error("cannot read the weights")]
    Json(#[from] serde_json::Error),
}

static BUILT_IN_DATA: LazyLock<ClassifierData> =
    LazyLock::new(|| ClassifierData::read(WEIGHTS_JSON).unwrap_or_default());

impl ClassifierData {
    /// Returns the data compiled into this build.
    pub fn built_in() -> &'static Self {
        &BUILT_IN_DATA
    }

    /// Parses the data files and applies these weights.
    pub fn read(weights: &str) -> Result<Self, ClassifierDataError> {
        let mut data = Self::untrained()?;
        let trained: WeightsFile = serde_json::from_str(weights)?;
        trained.apply_to(&mut data);
        data.calibration = trained.calibration;
        Ok(data)
    }

    /// Parses the data files without the trained weights. The model then uses only the initial scores from the lexicon.
    pub fn untrained() -> Result<Self, ClassifierDataError> {
        let written: LexiconFile = toml::from_str(LEXICON_TOML)?;
        let mut data = Self { lexicon: written.build_lexicon(), ..Self::default() };
        data.signals = RiskSignalRules::read(SIGNALS_TOML, &mut data.lexicon)?;
        data.untrusted_server_words = data_flow_label::read_flow_words(FLOW_TOML, &mut data.lexicon)?;
        data.patterns = attack_pattern::read_attack_patterns(ATTACKS_TOML)?;
        data.add_phrases(&written);
        data.choice_words = written.choice.names.split_whitespace().map(Into::into).collect();
        data.code_nouns = written.code.nouns.split_whitespace().map(Into::into).collect();
        data.code_verbs = written.code.verbs.split_whitespace().map(Into::into).collect();
        data.steering_phrases = written.steering.phrases.clone();
        data.add_priors(&written);
        data.thresholds = written.thresholds;
        data.biases = written.biases;
        Ok(data)
    }

    /// Returns whether a parameter with this name selects an operation.
    pub fn is_choice_parameter(&self, joined: &str) -> bool {
        joined.split('_').any(|word| self.choice_words.contains(word))
    }

    fn add_phrases(&mut self, written: &LexiconFile) {
        for (name, phrases) in &written.phrases {
            let Some(phrase) = PhraseKind::from_word(name) else { continue };
            for text in phrases {
                let words: Vec<WordId> =
                    text.split([' ', '-']).flat_map(|part| find_or_add_word(part, &mut self.lexicon)).collect();
                if let Some(first) = words.first() {
                    self.phrases.entry(*first).or_default().push((words, phrase));
                }
            }
        }
        // Longest first: `permanently deletes` before `permanently`.
        for phrases in self.phrases.values_mut() {
            phrases.sort_by_key(|(words, _)| std::cmp::Reverse(words.len()));
        }
    }

    fn add_priors(&mut self, written: &LexiconFile) {
        let mut priors = Vec::new();
        for group in VerbGroup::ALL {
            let Some(entry) = written.find_group(group) else { continue };
            let prior = &entry.prior;
            priors.extend([
                (FeatureId::Group(WordPosition::NameVerb, group), prior.name_verb),
                (FeatureId::Group(WordPosition::NameWord, group), prior.name_word),
                (FeatureId::Group(WordPosition::DescriptionVerb, group), prior.description_verb),
                (FeatureId::Group(WordPosition::FirstSentence, group), prior.first_sentence),
                (FeatureId::Group(WordPosition::LaterSentence, group), prior.later_sentence),
            ]);
            let choice = written.choice.groups.get(group.as_str());
            priors.extend(choice.map(|points| (FeatureId::Group(WordPosition::ChoiceValue, group), *points)));
        }
        for (name, points) in &written.flags {
            priors.extend(IndicatorFeature::from_word(name).map(|flag| (FeatureId::Flag(flag), *points)));
        }
        let parameters = &written.parameters;
        for (words, points) in [
            (&parameters.read_words, parameters.reads_prior),
            (&parameters.write_words, parameters.writes_prior),
            (&parameters.removal_words, parameters.removal_prior),
        ] {
            let ids = words.split_whitespace().flat_map(|word| find_or_add_word(word, &mut self.lexicon));
            priors.extend(ids.map(|id| (FeatureId::Word(WordPosition::ParameterWord, id), points)).collect::<Vec<_>>());
        }
        for (key, points) in priors {
            let points = constrain_scores(key, points, &self.lexicon);
            self.model.weights.insert(key, points);
        }
    }
}

/// Finds a word in the lexicon by one of its forms, and adds it if it is missing. Returns `None` if `form` consists of
/// several words and is not in the lexicon. An apostrophe does not separate words.
fn find_or_add_word(form: &str, lexicon: &mut Lexicon) -> Option<WordId> {
    if let Some(id) = lexicon.find(form) {
        return Some(id);
    }
    let is_one_word = form.contains('\'') || split_words(form).len() == 1;
    is_one_word.then(|| lexicon.get_or_insert(form))
}

#[cfg(test)]
mod tests {
    use super::{ClassifierData, WEIGHTS_JSON};

    #[test]
    fn the_built_in_data_can_be_read() {
        let data = ClassifierData::read(WEIGHTS_JSON).unwrap();
        assert!(data.patterns.len() >= 17);
        assert!(data.lexicon.len() > 500);
    }
}
