//! Logistic regression, fitted with Adam in a fixed order.

use std::collections::{BTreeMap, BTreeSet};

use gatelodge_catalogue::training_interface::{CategoryScores, FeatureKey, FeatureKind, TrainingModel, shares};

use super::TrainingExample;

const TRAINING_ROUNDS: usize = 200;
/// Initial step size. It decreases to nearly zero during the fit.
const INITIAL_STEP_SIZE: f64 = 0.05;
/// Decay rate of the moving average of the gradient (momentum).
const MOMENTUM_DECAY: f64 = 0.9;
/// Decay rate of the moving average of the squared gradient (variance).
const VARIANCE_DECAY: f64 = 0.99;
/// Strength of the prior that pulls weights towards the lexicon's points, as an equivalent number of examples.
const PRIOR_STRENGTH: f64 = 1.5;
/// Prior strength for words. It is higher because words say less about a tool than verbs with a known effect, and there
/// are more of them.
const WORD_PRIOR_STRENGTH: f64 = 3.0;
/// Prior strength for words after the first sentence of a description. It is highest because these words say little
/// about the tool, and there are many of them.
const LATER_WORD_PRIOR_STRENGTH: f64 = 10.0;
/// Minimum number of servers in which a feature must occur to be learned.
const MIN_SERVERS_PER_FEATURE: usize = 3;
/// Features whose learned weights are smaller than this are dropped.
const MIN_LEARNED_WEIGHT: f64 = 0.05;

/// Fitted weights: a bias, and points for each feature.
#[derive(Debug, Default)]
pub(super) struct Weights {
    pub bias: CategoryScores,
    pub points: Vec<(FeatureKey, CategoryScores)>,
}

/// Fits weights, starting from the weights in `initial`.
pub(super) fn fit_model(examples: &[&TrainingExample], initial: &TrainingModel) -> Weights {
    let keys = learnable_keys(examples, initial);
    let feature_indices: BTreeMap<FeatureKey, usize> = keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
    let rows: Vec<TrainingRow> = examples
        .iter()
        .map(|example| TrainingRow {
            features: example.keys.iter().filter_map(|key| feature_indices.get(key).copied()).collect(),
            allowed_categories: example.allowed_categories,
            weight: example.weight,
        })
        .collect();
    let anchors: Vec<CategoryScores> = keys.iter().map(|key| initial.points(*key)).collect();
    let mut weights = anchors.clone();
    let mut bias = initial.bias();
    let (mut states, mut bias_state) = (vec![AdamState::default(); keys.len()], AdamState::default());
    let mut schedule = AdamStepSchedule::default();
    for _ in 0..TRAINING_ROUNDS {
        let (feature_gradients, bias_gradient) = gradients(&rows, &weights, bias);
        schedule.start_round();
        let updates = weights.iter_mut().zip(&feature_gradients).zip(&mut states).zip(&anchors);
        for (key, (((weight, gradient), state), anchor)) in keys.iter().zip(updates) {
            state.apply_step(weight, gradient, *anchor, prior_strength(*key), &schedule);
            *weight = initial.allowed(*key, *weight);
        }
        bias_state.apply_step(&mut bias, &bias_gradient, initial.bias(), 0.0, &schedule);
    }
    let learned = keys.into_iter().zip(weights);
    let is_relevant = |key: FeatureKey, points: &CategoryScores| {
        initial.has_points(key) || points.iter().any(|point| point.abs() >= MIN_LEARNED_WEIGHT)
    };
    Weights { bias, points: learned.filter(|(key, points)| is_relevant(*key, points)).collect() }
}

/// Returns the features to learn, which are those that occur in several servers. A feature that occurs in only one
/// server merely identifies that server.
fn learnable_keys(examples: &[&TrainingExample], initial: &TrainingModel) -> Vec<FeatureKey> {
    let mut servers: BTreeMap<FeatureKey, BTreeSet<usize>> = BTreeMap::new();
    for example in examples {
        for key in &example.keys {
            let servers = servers.entry(*key).or_default();
            if servers.len() < MIN_SERVERS_PER_FEATURE {
                servers.insert(example.server);
            }
        }
    }
    servers.retain(|key, servers| servers.len() >= MIN_SERVERS_PER_FEATURE || initial.has_points(*key));
    servers.into_keys().collect()
}

/// A training example in numeric form.
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

/// Returns the gradients of the error with respect to the weights and the bias. If a label allows several categories,
/// the target is the model's own distribution over these categories.
fn gradients(
    rows: &[TrainingRow],
    weights: &[CategoryScores],
    bias: CategoryScores,
) -> (Vec<CategoryScores>, CategoryScores) {
    let mut feature_gradients = vec![CategoryScores::default(); weights.len()];
    let mut bias_gradient = CategoryScores::default();
    for TrainingRow { features, allowed_categories: allowed, weight } in rows {
        let mut sum = bias;
        features.iter().filter_map(|at| weights.get(*at)).for_each(|points| add(&mut sum, *points));
        let shares = shares(sum);
        let allowed_share: f64 =
            shares.iter().zip(allowed).filter(|(_, allowed)| **allowed).map(|(share, _)| share).sum();
        let mut error = shares;
        for (error, allowed) in error.iter_mut().zip(allowed) {
            let target = if *allowed { *error / allowed_share.max(1e-12) } else { 0.0 };
            *error = (*error - target) * weight;
        }
        add(&mut bias_gradient, error);
        for at in features {
            if let Some(gradient) = feature_gradients.get_mut(*at) {
                add(gradient, error);
            }
        }
    }
    (feature_gradients, bias_gradient)
}

/// The step sizes used by Adam.
struct AdamStepSchedule {
    round: f64,
    /// Bias corrections for the moving averages, which start at zero.
    momentum_bias: f64,
    variance_bias: f64,
}

impl Default for AdamStepSchedule {
    fn default() -> Self {
        Self { round: 0.0, momentum_bias: 1.0, variance_bias: 1.0 }
    }
}

impl AdamStepSchedule {
    fn start_round(&mut self) {
        self.round += 1.0;
        self.momentum_bias *= MOMENTUM_DECAY;
        self.variance_bias *= VARIANCE_DECAY;
    }

    fn step_size(&self) -> f64 {
        INITIAL_STEP_SIZE * (1.0 - self.round / TRAINING_ROUNDS as f64)
    }
}

/// Moving averages of the gradient of a weight.
#[derive(Clone, Default)]
struct AdamState {
    momentum: CategoryScores,
    variance: CategoryScores,
}

impl AdamState {
    /// Applies one Adam step. The step is smaller for a weight whose gradient keeps changing sign.
    fn apply_step(
        &mut self,
        weights: &mut CategoryScores,
        gradient: &CategoryScores,
        anchor: CategoryScores,
        prior_strength: f64,
        schedule: &AdamStepSchedule,
    ) {
        let moments = self.momentum.iter_mut().zip(&mut self.variance);
        for (((weight, gradient), anchor), (mean, square)) in weights.iter_mut().zip(gradient).zip(anchor).zip(moments)
        {
            let total_gradient = gradient + prior_strength * (*weight - anchor);
            *mean = MOMENTUM_DECAY * *mean + (1.0 - MOMENTUM_DECAY) * total_gradient;
            *square = VARIANCE_DECAY * *square + (1.0 - VARIANCE_DECAY) * total_gradient * total_gradient;
            let size = (*square / (1.0 - schedule.variance_bias)).sqrt() + 1e-6;
            *weight -= schedule.step_size() * (*mean / (1.0 - schedule.momentum_bias)) / size;
        }
    }
}
