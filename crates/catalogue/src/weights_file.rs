//! The format of `data/weights.json`: trained weights in a readable form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::classifier_data::ClassifierData;
use crate::classifier_model::constrain_scores;
use crate::confidence_calibration::ConfidenceCalibration;
use crate::lexicon::{CategoryScores, VerbGroup, WordId};
use crate::tool_features::{FeatureId, IndicatorFeature, WordPosition};

/// The contents of the weights file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightsFile {
    /// Short description of the data that the weights were trained on.
    pub origin: String,
    pub bias: CategoryScores,
    pub flags: BTreeMap<String, CategoryScores>,
    /// Scores by position, then by verb group.
    pub groups: BTreeMap<String, BTreeMap<String, CategoryScores>>,
    /// Scores by position, then by word.
    pub words: BTreeMap<String, BTreeMap<String, CategoryScores>>,
    /// Scores by kind of pair, then by the two words or groups joined by `+`.
    #[serde(default)]
    pub pairs: BTreeMap<String, BTreeMap<String, CategoryScores>>,
    pub calibration: ConfidenceCalibration,
}

impl WeightsFile {
    /// Applies the weights on top of the priors from the lexicon.
    pub fn apply_to(&self, data: &mut ClassifierData) {
        data.model.bias = self.bias;
        let mut learned = Vec::new();
        for (name, points) in &self.flags {
            learned.extend(IndicatorFeature::from_word(name).map(|flag| (FeatureId::Flag(flag), *points)));
        }
        for (slot, groups) in &self.groups {
            let Some(slot) = WordPosition::from_word(slot) else { continue };
            let group = VerbGroup::from_word;
            learned.extend(
                groups.iter().filter_map(|(name, points)| Some((FeatureId::Group(slot, group(name)?), *points))),
            );
        }
        for (slot, words) in &self.words {
            let Some(slot) = WordPosition::from_word(slot) else { continue };
            for (word, points) in words {
                learned.push((FeatureId::Word(slot, find_or_add_word_id(word, data)), *points));
            }
        }
        for (name, pairs) in &self.pairs {
            learned
                .extend(pairs.iter().filter_map(|(pair, points)| Some((parse_pair_key(name, pair, data)?, *points))));
        }
        for (key, points) in learned {
            // The file may have been edited by hand; the guarantees hold anyway.
            let points = constrain_scores(key, points, &data.lexicon);
            data.model.weights.insert(key, points);
        }
    }

    /// Serializes the file, with each list of numbers on one line.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let pretty = serde_json::to_string_pretty(self)?;
        let (mut text, mut depth, mut is_quoted) = (String::with_capacity(pretty.len()), 0_usize, false);
        for letter in pretty.chars() {
            match letter {
                '"' => is_quoted = !is_quoted,
                '[' if !is_quoted => depth += 1,
                ']' if !is_quoted => depth = depth.saturating_sub(1),
                letter if depth > 0 && letter.is_whitespace() => continue,
                _ => {}
            }
            text.push(letter);
        }
        Ok(text)
    }

    /// Creates the file from a trained model.
    pub fn of(data: &ClassifierData, origin: String, calibration: ConfidenceCalibration) -> Self {
        let mut trained = Self { origin, bias: data.model.bias.map(round_weight), calibration, ..Self::default() };
        for (key, points) in &data.model.weights {
            let points = points.map(round_weight);
            match key {
                FeatureId::Flag(flag) => drop(trained.flags.insert(flag.as_str().to_owned(), points)),
                FeatureId::Group(slot, group) => {
                    let groups = trained.groups.entry(slot.as_str().to_owned()).or_default();
                    groups.insert(group.as_str().to_owned(), points);
                }
                FeatureId::Word(slot, id) => {
                    let Some(word) = data.lexicon.word(*id) else { continue };
                    let words = trained.words.entry(slot.as_str().to_owned()).or_default();
                    words.insert(word.base_form.to_string(), points);
                }
                FeatureId::GroupPair(lead, says) => {
                    let name = |group: Option<VerbGroup>| group.map_or(NO_VERB_WORD, VerbGroup::as_str).to_owned();
                    trained.add_pair(GROUP_PAIRS_KEY, Some(name(*lead)), Some(name(*says)), points);
                }
                FeatureId::VerbPair(one, other) => {
                    trained.add_pair(VERB_PAIRS_KEY, word_base(*one, data), word_base(*other, data), points)
                }
                FeatureId::WordPair(one, other) => {
                    trained.add_pair(WORD_PAIRS_KEY, word_base(*one, data), word_base(*other, data), points)
                }
            }
        }
        trained
    }

    fn add_pair(&mut self, name: &str, one: Option<String>, other: Option<String>, points: CategoryScores) {
        if let (Some(one), Some(other)) = (one, other) {
            self.pairs.entry(name.to_owned()).or_default().insert(format!("{one}+{other}"), points);
        }
    }
}

const GROUP_PAIRS_KEY: &str = "kinds";
const VERB_PAIRS_KEY: &str = "verbs";
const WORD_PAIRS_KEY: &str = "next";
/// Placeholder for a missing verb in a pair.
const NO_VERB_WORD: &str = "none";

fn word_base(id: WordId, data: &ClassifierData) -> Option<String> {
    data.lexicon.word(id).map(|word| word.base_form.to_string())
}

fn find_or_add_word_id(word: &str, data: &mut ClassifierData) -> WordId {
    data.lexicon.find(word).unwrap_or_else(|| data.lexicon.get_or_insert(word))
}

fn parse_pair_key(name: &str, pair: &str, data: &mut ClassifierData) -> Option<FeatureId> {
    let (one, other) = pair.split_once('+')?;
    match name {
        GROUP_PAIRS_KEY => Some(FeatureId::GroupPair(VerbGroup::from_word(one), VerbGroup::from_word(other))),
        VERB_PAIRS_KEY => Some(FeatureId::VerbPair(find_or_add_word_id(one, data), find_or_add_word_id(other, data))),
        WORD_PAIRS_KEY => Some(FeatureId::WordPair(find_or_add_word_id(one, data), find_or_add_word_id(other, data))),
        _ => None,
    }
}

/// Rounds to two decimal places. Further digits would be noise, and would make the file harder to review. Avoids
/// negative zero.
fn round_weight(value: f64) -> f64 {
    (value * 100.0).round() / 100.0 + 0.0
}
