//! The regression itself: steps down the slope, always in the same order.

use std::collections::BTreeMap;

use super::Example;
use crate::features::{Key, Slot};
use crate::lexicon::Points;
use crate::model::{Model, add, kept, shared};
use crate::rulebook::Rulebook;

const ROUNDS: usize = 150;
const STEP: f64 = 0.5;
/// How hard features are pulled back to the lexicon's points, as if so many examples spoke for these.
const PULL: f64 = 1.5;
/// Later words of a description say little of the tool, and there are many.
const PULL_OF_REST: f64 = 4.0;
/// A word needs so many examples.
const LEAST_EXAMPLES: usize = 4;
/// A feature that ends with less is dropped.
const LEAST_WEIGHT: f64 = 0.05;

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
    let rows: Vec<Row> = examples
        .iter()
        .map(|example| Row {
            features: example.keys.iter().filter_map(|key| places.get(key).copied()).collect(),
            may_be: example.may_be,
            weight: example.weight,
        })
        .collect();
    let anchors: Vec<Points> = keys.iter().map(|key| begin.points(*key)).collect();
    let mut weights = anchors.clone();
    let mut bias = begin.bias;
    let mut speeds = vec![[1e-8_f64; 5]; keys.len() + 1];
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
    may_be: [bool; 5],
    weight: f64,
}

fn pull(key: Key) -> f64 {
    match key {
        Key::Word(Slot::Rest, _) => PULL_OF_REST,
        Key::Word(..) | Key::Group(..) | Key::Flag(_) => PULL,
    }
}

/// How the error changes with each weight. Where a label leaves several outcomes open, the aim is what the model itself
/// makes of these.
fn slopes(rows: &[Row], weights: &[Points], bias: Points) -> (Vec<Points>, Points) {
    let mut slopes = vec![Points::default(); weights.len()];
    let mut of_bias = Points::default();
    for Row { features, may_be, weight } in rows {
        let mut sum = bias;
        features.iter().filter_map(|at| weights.get(*at)).for_each(|points| add(&mut sum, *points));
        let shares = shared(sum);
        let open: f64 = shares.iter().zip(may_be).filter(|(_, may_be)| **may_be).map(|(share, _)| share).sum();
        let mut error = shares;
        for (error, may_be) in error.iter_mut().zip(may_be) {
            let aim = if *may_be { *error / open.max(1e-12) } else { 0.0 };
            *error = (*error - aim) * weight;
        }
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
