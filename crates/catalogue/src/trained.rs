//! Learned weights as they are written, in `data/weights.json`. Made by the trainer, read by people if need be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::calibrate::Calibration;
use crate::classifier_data::ClassifierData;
use crate::lexicon::{CategoryScores, VerbGroup, WordId};
use crate::model::kept;
use crate::tool_features::{FeatureFlag, FeatureId, WordPosition};

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trained {
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
    pub calibration: Calibration,
}

impl Trained {
    /// Puts the weights over those of the lexicon.
    pub fn put_into(&self, book: &mut ClassifierData) {
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
                learned.push((FeatureId::Word(slot, word_id(word, book)), *points));
            }
        }
        for (name, pairs) in &self.pairs {
            learned.extend(pairs.iter().filter_map(|(pair, points)| Some((pair_key(name, pair, book)?, *points))));
        }
        for (key, points) in learned {
            // The file may have been edited; the promise holds all the same.
            let points = kept(key, points, &book.lexicon);
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
    pub fn of(book: &ClassifierData, origin: String, calibration: Calibration) -> Self {
        let mut trained = Self { origin, bias: book.model.bias.map(rounded), calibration, ..Self::default() };
        for (key, points) in &book.model.weights {
            let points = points.map(rounded);
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
                    let name = |group: Option<VerbGroup>| group.map_or(NO_VERB, VerbGroup::as_str).to_owned();
                    trained.add_pair(KINDS, Some(name(*lead)), Some(name(*says)), points);
                }
                FeatureId::VerbPair(one, other) => {
                    trained.add_pair(VERBS, base(*one, book), base(*other, book), points)
                }
                FeatureId::WordPair(one, other) => trained.add_pair(NEXT, base(*one, book), base(*other, book), points),
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

const KINDS: &str = "kinds";
const VERBS: &str = "verbs";
const NEXT: &str = "next";
/// A pair without one of its verbs.
const NO_VERB: &str = "none";

fn base(id: WordId, book: &ClassifierData) -> Option<String> {
    book.lexicon.word(id).map(|word| word.base_form.to_string())
}

fn word_id(word: &str, book: &mut ClassifierData) -> WordId {
    book.lexicon.find(word).unwrap_or_else(|| book.lexicon.get_or_insert(word))
}

fn pair_key(name: &str, pair: &str, book: &mut ClassifierData) -> Option<FeatureId> {
    let (one, other) = pair.split_once('+')?;
    match name {
        KINDS => Some(FeatureId::GroupPair(VerbGroup::from_word(one), VerbGroup::from_word(other))),
        VERBS => Some(FeatureId::VerbPair(word_id(one, book), word_id(other, book))),
        NEXT => Some(FeatureId::WordPair(word_id(one, book), word_id(other, book))),
        _ => None,
    }
}

/// Two places: more would be noise, and the file is read in reviews. Nothing is written as less than nothing.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0 + 0.0
}
