//! Learns the weights of the classifier from labels. Training is deterministic: the same labels give the same file,
//! byte for byte.
//!
//! The model is a logistic regression over named features. The points of the lexicon are its initial values and its
//! prior.

mod calibrate;
mod model_fit;
mod training_vocabulary;

use std::collections::BTreeMap;

use gatelodge_catalogue::training::{
    CategoryPrediction, ConfidenceCalibration, FeatureKey, MODEL_CATEGORIES, TrainingDataError, TrainingModel,
};
use gatelodge_catalogue::{ServerContext, ToolEntry, escape_for_display};
use gatelodge_policy::Category;

use crate::category_labels::{CategoryLabel, LabelledTool};
use calibrate::fit as fit_line;
use model_fit::Weights;

/// Number of folds of the cross-validation.
const FOLD_COUNT: usize = 8;
/// Weight of an author's label relative to one by reading: authors annotate in passing, and often by habit.
const AUTHOR_LABEL_WEIGHT: f64 = 0.3;

/// Weight of a label that its reader was unsure of.
const UNSURE_LABEL_WEIGHT: f64 = 0.5;

/// Origin of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelSource {
    /// Annotations by the author.
    Author,
    /// A person read the definition; tools were drawn at random, a few per package.
    RandomSample,
    /// A person read the definition; some tools of each server that was run.
    ServerSample,
    /// A person read the definition; tools were selected because they are hard to classify.
    HardCases,
}

impl LabelSource {
    /// Returns the origin of a line's label. The member `read` says that it was labelled by reading.
    fn of(item: &ToolEntry<'_>) -> Self {
        match item.entry.get("read").and_then(|read| read.as_str()).as_deref() {
            None => Self::Author,
            Some("random") => Self::RandomSample,
            Some("servers") => Self::ServerSample,
            Some(_) => Self::HardCases,
        }
    }
}

/// A labelled tool as a training example.
pub(crate) struct TrainingExample {
    /// Number of its server. Folds consist of whole servers.
    pub server: usize,
    label: CategoryLabel,
    source: LabelSource,
    /// Whether the reader was sure.
    is_sure: bool,
    /// Categories that the label allows.
    pub allowed_categories: [bool; 5],
    pub keys: Vec<FeatureKey>,
    /// Weight of the example: tools of one server are similar, and so are their labels.
    pub weight: f64,
}

/// Result of a training.
#[derive(Debug)]
pub struct TrainingResult {
    /// Content of the weights file.
    pub weights_json: String,
    /// Predictions for all labelled tools, each by weights learned from other servers.
    pub held_out: Vec<HeldOutPrediction>,
}

/// Prediction for a tool by weights learned from other servers.
#[derive(Debug)]
pub struct HeldOutPrediction {
    /// Server and name, escaped for display.
    pub tool: String,
    /// Its label.
    pub label: CategoryLabel,
    /// Origin of the label.
    pub source: LabelSource,
    /// The predicted category.
    pub category: Category,
    /// Calibrated confidence of the prediction.
    pub confidence: f64,
    /// Why it cannot be Read.
    pub not_read_reason: Option<String>,
    fold: usize,
    probability: f64,
}

/// Learns from labelled tools; `origin` describes the labels.
///
/// # Errors
/// A data file of this program is not valid, which a test rules out.
pub fn train(tools: &[LabelledTool<'_>], origin: &str) -> Result<TrainingResult, TrainingDataError> {
    let servers = group_by_server(tools);
    let begin = || {
        let mut model = TrainingModel::untrained()?;
        training_vocabulary::add_common_words(&mut model, tools, &servers);
        Ok::<_, TrainingDataError>(model)
    };
    let mut model = begin()?;
    let mut examples: Vec<TrainingExample> =
        tools.iter().filter_map(|tool| make_example(tool, &servers, &model)).collect();
    set_weights(&mut examples);
    let mut unseen = Vec::new();
    for (part, Weights { bias, points }) in fit_folds(&examples, &model).into_iter().enumerate() {
        let mut own = begin()?;
        own.learn(bias, points);
        unseen.extend(tools.iter().filter_map(|tool| predict_held_out(tool, part, &servers, &own)));
    }
    for part in 0..FOLD_COUNT {
        let others = calibrate(unseen.iter().filter(|one| one.fold != part));
        for one in unseen.iter_mut().filter(|one| one.fold == part) {
            one.confidence = others.confidence(one.category, one.probability);
        }
    }
    let Weights { bias, points } = model_fit::fit_model(&examples.iter().collect::<Vec<_>>(), &model);
    model.learn(bias, points);
    let weights = model.to_text(origin, calibrate(&unseen))?;
    Ok(TrainingResult { weights_json: weights, held_out: unseen })
}

/// Fits the weights of each fold from the other folds, in parallel.
fn fit_folds(examples: &[TrainingExample], model: &TrainingModel) -> Vec<Weights> {
    let without = |part: usize| {
        let learned: Vec<&TrainingExample> =
            examples.iter().filter(|example| example.server % FOLD_COUNT != part).collect();
        model_fit::fit_model(&learned, model)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..FOLD_COUNT).map(|part| scope.spawn(move || without(part))).collect();
        running.into_iter().map(|own| own.join().unwrap_or_default()).collect()
    })
}

/// Calibrates the confidence with tools that were drawn at random and read: their frequencies are representative.
fn calibrate<'u>(unseen: impl IntoIterator<Item = &'u HeldOutPrediction>) -> ConfidenceCalibration {
    let mut seen: BTreeMap<String, Vec<(f64, bool)>> = BTreeMap::new();
    for one in
        unseen.into_iter().filter(|one| matches!(one.source, LabelSource::RandomSample | LabelSource::ServerSample))
    {
        let right = seen.entry(one.category.as_str().to_owned()).or_default();
        right.push((one.probability, one.label.matches(one.category)));
    }
    ConfidenceCalibration { curves: seen.into_iter().map(|(category, seen)| (category, fit_line(seen))).collect() }
}

/// Servers with their numbers, by server key.
pub(crate) type TrainingServers = BTreeMap<String, (usize, ServerContext)>;

fn group_by_server(tools: &[LabelledTool<'_>]) -> TrainingServers {
    let mut names: BTreeMap<String, Vec<&LabelledTool<'_>>> = BTreeMap::new();
    for tool in tools {
        names.entry(tool.item.server_key()).or_default().push(tool);
    }
    let server = |own: &[&LabelledTool<'_>]| {
        let name = own.first().map(|tool| &*tool.item.server).unwrap_or_default();
        ServerContext::new(name, None, own.iter().map(|tool| &*tool.item.tool.name))
    };
    names.into_iter().enumerate().map(|(at, (family, own))| (family, (at, server(&own)))).collect()
}

fn make_example(tool: &LabelledTool<'_>, servers: &TrainingServers, model: &TrainingModel) -> Option<TrainingExample> {
    let (at, server) = servers.get(&tool.item.server_key())?;
    let label = tool.label.filter(|label| *label != CategoryLabel::Category(Category::Unknown))?;
    let keys = model.features(&tool.item.tool, server);
    let may_be = MODEL_CATEGORIES.map(|outcome| label.matches(outcome));
    let is_sure = tool.item.entry.get("sure").and_then(|sure| sure.as_bool()) != Some(false);
    Some(TrainingExample {
        server: *at,
        label,
        source: LabelSource::of(&tool.item),
        is_sure,
        allowed_categories: may_be,
        keys,
        weight: 1.0,
    })
}

/// Sets weights: 1 for labels by reading, less if the reader was unsure. The more tools of a server have the same
/// author's label, the less each of them counts.
fn set_weights(examples: &mut [TrainingExample]) {
    let mut alike: BTreeMap<(usize, CategoryLabel), f64> = BTreeMap::new();
    for example in examples.iter().filter(|example| example.source == LabelSource::Author) {
        *alike.entry((example.server, example.label)).or_default() += 1.0;
    }
    for example in examples {
        let count = alike.get(&(example.server, example.label)).copied().unwrap_or(1.0);
        example.weight = match example.source {
            LabelSource::Author => AUTHOR_LABEL_WEIGHT / count.sqrt(),
            _ if example.is_sure => 1.0,
            _ => UNSURE_LABEL_WEIGHT,
        };
    }
}

/// Predicts a held-out tool, if it has a label.
fn predict_held_out(
    tool: &LabelledTool<'_>,
    part: usize,
    servers: &TrainingServers,
    model: &TrainingModel,
) -> Option<HeldOutPrediction> {
    let (_, server) = servers.get(&tool.item.server_key()).filter(|(at, _)| at % FOLD_COUNT == part)?;
    let (item, label) = (&tool.item, tool.label?);
    let CategoryPrediction { category, share, against_read } = model.predict(&item.tool, server);
    Some(HeldOutPrediction {
        tool: format!("{} / {}", escape_for_display(&item.server), escape_for_display(&item.tool.name)),
        label,
        source: LabelSource::of(item),
        category,
        confidence: share,
        not_read_reason: against_read,
        fold: part,
        probability: share,
    })
}
