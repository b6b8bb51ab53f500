//! The regression itself: steps down the slope, always in the same order.

use std::collections::{BTreeMap, BTreeSet};

use gatelodge_catalogue::training::{CategoryScores, FeatureKey, FeatureKind, TrainingModel, shares};

use super::Example;

const ROUNDS: usize = 200;
/// How far the first step goes; each later one is shorter, the last ones go nowhere.
const STEP: f64 = 0.05;
/// How much of what the steps before went by stays, for the slope and for its square.
const STAYS: f64 = 0.9;
const STAYS_OF_SQUARE: f64 = 0.99;
/// How hard features are pulled back to the lexicon's points, as if so many examples spoke for these.
const PULL: f64 = 1.5;
/// Words say less than what verbs do, and there are more.
const PULL_OF_WORDS: f64 = 3.0;
/// Later words of a description say little of the tool, and there are many.
const PULL_OF_REST: f64 = 10.0;
/// So many servers must have a feature.
const LEAST_SERVERS: usize = 3;
/// A feature that ends with less is dropped.
const LEAST_WEIGHT: f64 = 0.05;

/// What was learned: points for every tool, and points of features.
#[derive(Debug, Default)]
pub(super) struct Weights {
    pub bias: CategoryScores,
    pub points: Vec<(FeatureKey, CategoryScores)>,
}

/// Fits weights; `begin` holds where they begin.
pub(super) fn fit(examples: &[&Example], begin: &TrainingModel) -> Weights {
    let keys = keys(examples, begin);
    let places: BTreeMap<FeatureKey, usize> = keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
    let rows: Vec<Row> = examples
        .iter()
        .map(|example| Row {
            features: example.keys.iter().filter_map(|key| places.get(key).copied()).collect(),
            may_be: example.may_be,
            weight: example.weight,
        })
        .collect();
    let anchors: Vec<CategoryScores> = keys.iter().map(|key| begin.points(*key)).collect();
    let mut weights = anchors.clone();
    let mut bias = begin.bias();
    let (mut paths, mut path_of_bias) = (vec![Path::default(); keys.len()], Path::default());
    let mut pace = Pace::default();
    for _ in 0..ROUNDS {
        let (slopes, slope_of_bias) = slopes(&rows, &weights, bias);
        pace.next();
        let places = weights.iter_mut().zip(&slopes).zip(&mut paths).zip(&anchors);
        for (key, (((own, slope), path), anchor)) in keys.iter().zip(places) {
            path.step(own, slope, *anchor, pull(*key), &pace);
            *own = begin.allowed(*key, *own);
        }
        path_of_bias.step(&mut bias, &slope_of_bias, begin.bias(), 0.0, &pace);
    }
    let learned = keys.into_iter().zip(weights);
    let weighs = |key: FeatureKey, points: &CategoryScores| {
        begin.has_points(key) || points.iter().any(|own| own.abs() >= LEAST_WEIGHT)
    };
    Weights { bias, points: learned.filter(|(key, points)| weighs(*key, points)).collect() }
}

/// The features that are learned: those that several servers have. One of a single server says which server it is.
fn keys(examples: &[&Example], begin: &TrainingModel) -> Vec<FeatureKey> {
    let mut users: BTreeMap<FeatureKey, BTreeSet<usize>> = BTreeMap::new();
    for example in examples {
        for key in &example.keys {
            let users = users.entry(*key).or_default();
            if users.len() < LEAST_SERVERS {
                users.insert(example.server);
            }
        }
    }
    users.retain(|key, users| users.len() >= LEAST_SERVERS || begin.has_points(*key));
    users.into_keys().collect()
}

/// An example, as numbers.
struct Row {
    features: Vec<usize>,
    may_be: [bool; 5],
    weight: f64,
}

fn pull(key: FeatureKey) -> f64 {
    match key.kind() {
        FeatureKind::LaterWord => PULL_OF_REST,
        FeatureKind::Word => PULL_OF_WORDS,
        FeatureKind::Fact => PULL,
    }
}

fn add(sum: &mut CategoryScores, points: CategoryScores) {
    for (sum, point) in sum.iter_mut().zip(points) {
        *sum += point;
    }
}

/// How the error changes with each weight. Where a label leaves several outcomes open, the aim is what the model itself
/// makes of these.
fn slopes(rows: &[Row], weights: &[CategoryScores], bias: CategoryScores) -> (Vec<CategoryScores>, CategoryScores) {
    let mut slopes = vec![CategoryScores::default(); weights.len()];
    let mut of_bias = CategoryScores::default();
    for Row { features, may_be, weight } in rows {
        let mut sum = bias;
        features.iter().filter_map(|at| weights.get(*at)).for_each(|points| add(&mut sum, *points));
        let shares = shares(sum);
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

/// How far the steps of a round go.
struct Pace {
    round: f64,
    /// What would stay by now of a first step, which nothing stood before.
    stays: f64,
    stays_of_square: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { round: 0.0, stays: 1.0, stays_of_square: 1.0 }
    }
}

impl Pace {
    fn next(&mut self) {
        self.round += 1.0;
        self.stays *= STAYS;
        self.stays_of_square *= STAYS_OF_SQUARE;
    }

    fn step(&self) -> f64 {
        STEP * (1.0 - self.round / ROUNDS as f64)
    }
}

/// What the last steps of a weight went by.
#[derive(Clone, Default)]
struct Path {
    slope: CategoryScores,
    square: CategoryScores,
}

impl Path {
    /// One step down. Where the slope turns from step to step, steps become short.
    fn step(
        &mut self,
        own: &mut CategoryScores,
        slope: &CategoryScores,
        anchor: CategoryScores,
        pull: f64,
        pace: &Pace,
    ) {
        let lasting = self.slope.iter_mut().zip(&mut self.square);
        for (((own, slope), anchor), (mean, square)) in own.iter_mut().zip(slope).zip(anchor).zip(lasting) {
            let down = slope + pull * (*own - anchor);
            *mean = STAYS * *mean + (1.0 - STAYS) * down;
            *square = STAYS_OF_SQUARE * *square + (1.0 - STAYS_OF_SQUARE) * down * down;
            let size = (*square / (1.0 - pace.stays_of_square)).sqrt() + 1e-6;
            *own -= pace.step() * (*mean / (1.0 - pace.stays)) / size;
        }
    }
}
