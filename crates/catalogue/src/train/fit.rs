//! The regression itself: steps down the slope, always in the same order.

use std::collections::BTreeMap;

use super::Example;
use crate::features::{Key, Slot};
use crate::labels::Label;
use crate::model::{Model, Points, Shares, add, kept};
use crate::rulebook::Rulebook;
use gatelodge_policy::Category;

const ROUNDS: usize = 150;
const STEP: f64 = 0.5;
/// How hard groups and facts are pulled back to the lexicon's points, and words to nothing.
const PULL_OF_GROUPS: f64 = 0.002;
const PULL_OF_WORDS: f64 = 0.0015;
/// Later words of a description say little of the tool, and there are many.
const PULL_OF_REST: f64 = 0.02;
/// A word needs so many examples.
const LEAST_EXAMPLES: usize = 4;
/// A feature that ends with less is dropped.
const LEAST_WEIGHT: f64 = 0.02;

/// Fits a model; `book` holds where it begins.
pub(super) fn fit(examples: &[&Example], book: &Rulebook) -> Model {
    let begin = &book.model;
    let mut uses: BTreeMap<Key, usize> = BTreeMap::new();
    for key in examples.iter().flat_map(|example| &example.keys) {
        *uses.entry(*key).or_default() += 1;
    }
    uses.retain(|key, count| *count >= LEAST_EXAMPLES || begin.weights.contains_key(key));
    let keys: Vec<Key> = uses.into_keys().collect();
    let places: BTreeMap<Key, usize> = keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
    let sum: f64 = examples.iter().map(|example| example.weight).sum();
    let rows: Vec<Row> = examples
        .iter()
        .map(|example| Row {
            features: example.keys.iter().filter_map(|key| places.get(key).copied()).collect(),
            aim: aim(example.label),
            weight: example.weight / sum,
        })
        .collect();
    let anchors: Vec<Points> = keys.iter().map(|key| begin.points(*key)).collect();
    let mut weights = anchors.clone();
    let mut bias = begin.bias;
    let mut speeds = vec![[1e-8_f64; 3]; keys.len() + 1];
    for _ in 0..ROUNDS {
        let (slopes, slope_of_bias) = slopes(&rows, &weights, bias);
        for (at, key) in keys.iter().enumerate() {
            let (Some(own), Some(slope), Some(speed), Some(anchor)) =
                (weights.get_mut(at), slopes.get(at), speeds.get_mut(at), anchors.get(at))
            else {
                continue;
            };
            step(own, slope, *anchor, pull(*key), speed);
            *own = kept(*key, *own, &book.lexicon);
        }
        if let Some(speed) = speeds.last_mut() {
            step(&mut bias, &slope_of_bias, begin.bias, 0.0, speed);
        }
    }
    let learned = keys.into_iter().zip(weights);
    let weighs = |key: &Key, points: &Points| {
        begin.weights.contains_key(key) || points.iter().any(|own| own.abs() >= LEAST_WEIGHT)
    };
    let mut model = Model { bias, weights: begin.weights.clone() };
    model.weights.extend(learned.filter(|(key, points)| weighs(key, points)));
    model
}

/// An example, as numbers.
struct Row {
    features: Vec<usize>,
    aim: Points,
    weight: f64,
}

fn pull(key: Key) -> f64 {
    match key {
        Key::Word(Slot::Rest, _) => PULL_OF_REST,
        Key::Word(..) => PULL_OF_WORDS,
        Key::Group(..) | Key::Flag(_) => PULL_OF_GROUPS,
    }
}

/// The outcome that a label stands for.
fn aim(label: Label) -> Points {
    match label {
        Label::Category(Category::Read) => [1.0, 0.0, 0.0],
        Label::Category(Category::Destructive) => [0.0, 0.0, 1.0],
        Label::Category(_) | Label::Change => [0.0, 1.0, 0.0],
    }
}

/// How the mean error changes with each weight.
fn slopes(rows: &[Row], weights: &[Points], bias: Points) -> (Vec<Points>, Points) {
    let mut slopes = vec![Points::default(); weights.len()];
    let mut of_bias = Points::default();
    for Row { features, aim, weight } in rows {
        let mut sum = bias;
        features.iter().filter_map(|at| weights.get(*at)).for_each(|points| add(&mut sum, *points));
        let shares = Shares::of(sum);
        let [read, change, destroy] = *aim;
        let error =
            [(shares.read - read) * weight, (shares.change - change) * weight, (shares.destroy - destroy) * weight];
        add(&mut of_bias, error);
        for at in features {
            if let Some(slope) = slopes.get_mut(*at) {
                add(slope, error);
            }
        }
    }
    (slopes, of_bias)
}

/// One step: the more a weight has moved, the shorter its steps become.
fn step(own: &mut Points, slope: &Points, anchor: Points, pull: f64, speed: &mut Points) {
    for (((own, slope), anchor), speed) in own.iter_mut().zip(slope).zip(anchor).zip(speed) {
        let down = slope + pull * (*own - anchor);
        *speed += down * down;
        *own -= STEP * down / speed.sqrt();
    }
}
