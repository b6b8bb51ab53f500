//! Logistic regression, fitted with Adam in a fixed order.

use std::collections::{BTreeMap, BTreeSet};

use gatelodge_catalogue::training::{CategoryScores, FeatureKey, FeatureKind, TrainingModel, shares};

use super::TrainingExample;

const TRAINING_ROUNDS: usize = 200;
/// Initial step size. It decreases to nearly zero.
const INITIAL_STEP_SIZE: f64 = 0.05;
/// Decay rates of momentum and variance.
const MOMENTUM_DECAY: f64 = 0.9;
const VARIANCE_DECAY: f64 = 0.99;
/// Strength of the prior towards the points of the lexicon, in examples.
const PRIOR_STRENGTH: f64 = 1.5;
/// Words tell less than the effects of verbs, and there are more of them.
const WORD_PRIOR_STRENGTH: f64 = 3.0;
/// Later words of a description tell little about the tool, and there are many.
const LATER_WORD_PRIOR_STRENGTH: f64 = 10.0;
/// Minimum number of servers that have a feature.
const MIN_SERVERS_PER_FEATURE: usize = 3;
/// Features with smaller weights are dropped.
const MIN_LEARNED_WEIGHT: f64 = 0.05;

/// Fitted weights: a bias, and points per feature.
#[derive(Debug, Default)]
pub(super) struct Weights {
    pub bias: CategoryScores,
    pub points: Vec<(FeatureKey, CategoryScores)>,
}

/// Fits weights, starting from those of `begin`.
pub(super) fn fit_model(examples: &[&TrainingExample], begin: &TrainingModel) -> Weights {
    let keys = learnable_keys(examples, begin);
    let places: BTreeMap<FeatureKey, usize> = keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
    let rows: Vec<TrainingRow> = examples
        .iter()
        .map(|example| TrainingRow {
            features: example.keys.iter().filter_map(|key| places.get(key).copied()).collect(),
            allowed_categories: example.allowed_categories,
            weight: example.weight,
        })
        .collect();
    let anchors: Vec<CategoryScores> = keys.iter().map(|key| begin.points(*key)).collect();
    let mut weights = anchors.clone();
    let mut bias = begin.bias();
    let (mut paths, mut path_of_bias) = (vec![AdamState::default(); keys.len()], AdamState::default());
    let mut pace = StepSchedule::default();
    for _ in 0..TRAINING_ROUNDS {
        let (slopes, slope_of_bias) = gradients(&rows, &weights, bias);
        pace.start_round();
        let places = weights.iter_mut().zip(&slopes).zip(&mut paths).zip(&anchors);
        for (key, (((own, slope), path), anchor)) in keys.iter().zip(places) {
            path.apply_step(own, slope, *anchor, prior_strength(*key), &pace);
            *own = begin.allowed(*key, *own);
        }
        path_of_bias.apply_step(&mut bias, &slope_of_bias, begin.bias(), 0.0, &pace);
    }
    let learned = keys.into_iter().zip(weights);
    let weighs = |key: FeatureKey, points: &CategoryScores| {
        begin.has_points(key) || points.iter().any(|own| own.abs() >= MIN_LEARNED_WEIGHT)
    };
    Weights { bias, points: learned.filter(|(key, points)| weighs(*key, points)).collect() }
}

/// Returns the features that are learned: those of several servers. A feature of a single server only identifies the
/// server.
fn learnable_keys(examples: &[&TrainingExample], begin: &TrainingModel) -> Vec<FeatureKey> {
    let mut users: BTreeMap<FeatureKey, BTreeSet<usize>> = BTreeMap::new();
    for example in examples {
        for key in &example.keys {
            let users = users.entry(*key).or_default();
            if users.len() < MIN_SERVERS_PER_FEATURE {
                users.insert(example.server);
            }
        }
    }
    users.retain(|key, users| users.len() >= MIN_SERVERS_PER_FEATURE || begin.has_points(*key));
    users.into_keys().collect()
}

/// An example in numeric form.
struct TrainingRow {
    features: Vec<usize>,
    allowed_categories: [bool; 5],
    weight: f64,
}

fn prior_strength(key: FeatureKey) -> f64 {
    match key.kind() {
        FeatureKind::LaterWord => LATER_WORD_PRIOR_STRENGTH,
        FeatureKind::Word => WORD_PRIOR_STRENGTH,
        FeatureKind::Fact => PRIOR_STRENGTH,
    }
}

fn add(sum: &mut CategoryScores, points: CategoryScores) {
    for (sum, point) in sum.iter_mut().zip(points) {
        *sum += point;
    }
}

/// Returns the gradients of the error. If a label allows several categories, the target is the model's own
/// distribution over them.
fn gradients(
    rows: &[TrainingRow],
    weights: &[CategoryScores],
    bias: CategoryScores,
) -> (Vec<CategoryScores>, CategoryScores) {
    let mut slopes = vec![CategoryScores::default(); weights.len()];
    let mut of_bias = CategoryScores::default();
    for TrainingRow { features, allowed_categories: may_be, weight } in rows {
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

/// Step sizes of Adam.
struct StepSchedule {
    round: f64,
    /// Bias correction of the moving averages, which start at zero.
    momentum_bias: f64,
    variance_bias: f64,
}

impl Default for StepSchedule {
    fn default() -> Self {
        Self { round: 0.0, momentum_bias: 1.0, variance_bias: 1.0 }
    }
}

impl StepSchedule {
    fn start_round(&mut self) {
        self.round += 1.0;
        self.momentum_bias *= MOMENTUM_DECAY;
        self.variance_bias *= VARIANCE_DECAY;
    }

    fn step_size(&self) -> f64 {
        INITIAL_STEP_SIZE * (1.0 - self.round / TRAINING_ROUNDS as f64)
    }
}

/// Moving averages of a weight's gradient.
#[derive(Clone, Default)]
struct AdamState {
    momentum: CategoryScores,
    variance: CategoryScores,
}

impl AdamState {
    /// Applies one Adam step. Steps become short where the gradient changes sign.
    fn apply_step(
        &mut self,
        own: &mut CategoryScores,
        slope: &CategoryScores,
        anchor: CategoryScores,
        pull: f64,
        pace: &StepSchedule,
    ) {
        let lasting = self.momentum.iter_mut().zip(&mut self.variance);
        for (((own, slope), anchor), (mean, square)) in own.iter_mut().zip(slope).zip(anchor).zip(lasting) {
            let down = slope + pull * (*own - anchor);
            *mean = MOMENTUM_DECAY * *mean + (1.0 - MOMENTUM_DECAY) * down;
            *square = VARIANCE_DECAY * *square + (1.0 - VARIANCE_DECAY) * down * down;
            let size = (*square / (1.0 - pace.variance_bias)).sqrt() + 1e-6;
            *own -= pace.step_size() * (*mean / (1.0 - pace.momentum_bias)) / size;
        }
    }
}
