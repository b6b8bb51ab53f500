//! Learned weights as they are written, in `data/weights.json`. Made by the trainer, read by people if need be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::classifier_data::ClassifierData;
use crate::classifier_model::constrain_scores;
use crate::confidence_calibration::ConfidenceCalibration;
use crate::lexicon::{CategoryScores, VerbGroup, WordId};
use crate::tool_features::{FeatureFlag, FeatureId, WordPosition};

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightsFile {
    /// What it was made from, in a few words.
    pub origin: String,
    pub bias: CategoryScores,
    pub flags: BTreeMap<String, CategoryScores>,
    /// By place, then by group.
    pub groups: BTreeMap<String, BTreeMap<String, CategoryScores>>,
    /// By place, then by word.
    pub words: BTreeMap<String, BTreeMap<String, CategoryScores>>,
    /// By what they are, then by the two words or groups with a `+` between them.
    #[serde(default)]
    pub pairs: BTreeMap<String, BTreeMap<String, CategoryScores>>,
    pub calibration: ConfidenceCalibration,
}

impl WeightsFile {
    /// Puts the weights over those of the lexicon.
    pub fn apply_to(&self, book: &mut ClassifierData) {
        book.model.bias = self.bias;
        let mut learned = Vec::new();
        for (name, points) in &self.flags {
            learned.extend(FeatureFlag::from_word(name).map(|flag| (FeatureId::Flag(flag), *points)));
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
                learned.push((FeatureId::Word(slot, find_or_add_word_id(word, book)), *points));
            }
        }
        for (name, pairs) in &self.pairs {
            learned
                .extend(pairs.iter().filter_map(|(pair, points)| Some((parse_pair_key(name, pair, book)?, *points))));
        }
        for (key, points) in learned {
            // The file may have been edited; the promise holds all the same.
            let points = constrain_scores(key, points, &book.lexicon);
            book.model.weights.insert(key, points);
        }
    }

    /// The file as text, with each list of numbers in one line.
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

    /// Writes down a model.
    pub fn of(book: &ClassifierData, origin: String, calibration: ConfidenceCalibration) -> Self {
        let mut trained = Self { origin, bias: book.model.bias.map(round_weight), calibration, ..Self::default() };
        for (key, points) in &book.model.weights {
            let points = points.map(round_weight);
            match key {
                FeatureId::Flag(flag) => drop(trained.flags.insert(flag.as_str().to_owned(), points)),
                FeatureId::Group(slot, group) => {
                    let groups = trained.groups.entry(slot.as_str().to_owned()).or_default();
                    groups.insert(group.as_str().to_owned(), points);
                }
                FeatureId::Word(slot, id) => {
                    let Some(word) = book.lexicon.word(*id) else { continue };
                    let words = trained.words.entry(slot.as_str().to_owned()).or_default();
                    words.insert(word.base_form.to_string(), points);
                }
                FeatureId::GroupPair(lead, says) => {
                    let name = |group: Option<VerbGroup>| group.map_or(NO_VERB_WORD, VerbGroup::as_str).to_owned();
                    trained.add_pair(GROUP_PAIRS_KEY, Some(name(*lead)), Some(name(*says)), points);
                }
                FeatureId::VerbPair(one, other) => {
                    trained.add_pair(VERB_PAIRS_KEY, word_base(*one, book), word_base(*other, book), points)
                }
                FeatureId::WordPair(one, other) => {
                    trained.add_pair(WORD_PAIRS_KEY, word_base(*one, book), word_base(*other, book), points)
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
/// A pair without one of its verbs.
const NO_VERB_WORD: &str = "none";

fn word_base(id: WordId, book: &ClassifierData) -> Option<String> {
    book.lexicon.word(id).map(|word| word.base_form.to_string())
}

fn find_or_add_word_id(word: &str, book: &mut ClassifierData) -> WordId {
    book.lexicon.find(word).unwrap_or_else(|| book.lexicon.get_or_insert(word))
}

fn parse_pair_key(name: &str, pair: &str, book: &mut ClassifierData) -> Option<FeatureId> {
    let (one, other) = pair.split_once('+')?;
    match name {
        GROUP_PAIRS_KEY => Some(FeatureId::GroupPair(VerbGroup::from_word(one), VerbGroup::from_word(other))),
        VERB_PAIRS_KEY => Some(FeatureId::VerbPair(find_or_add_word_id(one, book), find_or_add_word_id(other, book))),
        WORD_PAIRS_KEY => Some(FeatureId::WordPair(find_or_add_word_id(one, book), find_or_add_word_id(other, book))),
        _ => None,
    }
}

/// Two places: more would be noise, and the file is read in reviews. Nothing is written as less than nothing.
fn round_weight(value: f64) -> f64 {
    (value * 100.0).round() / 100.0 + 0.0
}
