//! Learns the classifier's weights from labels. Training is deterministic: the same labels give the same file, byte for
//! byte.
//!
//! The model is a logistic regression over named features. The points of the lexicon serve as its initial values and as
//! its prior.

mod calibrate;
mod model_fit;
mod training_vocabulary;

use std::collections::BTreeMap;

use gatelodge_catalogue::training_interface::{
    CategoryPrediction, ClassifierDataFileError, ConfidenceCalibration, FeatureKey, MODEL_CATEGORIES, TrainingModel,
};
use gatelodge_catalogue::{ServerContext, ToolListEntry, escape_for_display};
use gatelodge_policy::Category;

use crate::category_labels::{CategoryLabel, LabeledTool};
use calibrate::fit as fit_line;
use model_fit::Weights;

/// Number of folds in the cross-validation.
const FOLD_COUNT: usize = 8;
/// Weight of a label from the author's annotations, relative to a label by a person who read the definition. It is low
/// because authors often annotate without much thought or out of habit.
const AUTHOR_LABEL_WEIGHT: f64 = 0.3;

/// Weight of a label by a person who was unsure of it.
const UNSURE_LABEL_WEIGHT: f64 = 0.5;

/// Where a label comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelSource {
    /// The author's annotations.
    Author,
    /// A person read the definition. The tools were drawn at random, a few per package.
    RandomSample,
    /// A person read the definition. The tools were taken from servers that had been run, some tools from each server.
    ServerSample,
    /// A person read the definition. The tools were selected because they are hard to classify.
    HardCases,
}

impl LabelSource {
    /// Returns the source of the label in a line of a label file. The line has the member `read` if a person labeled
    /// the tool by reading its definition.
    fn of(item: &ToolListEntry<'_>) -> Self {
        match item.entry.get("read").and_then(|read| read.as_str()).as_deref() {
            None => Self::Author,
            Some("random") => Self::RandomSample,
            Some("servers") => Self::ServerSample,
            Some(_) => Self::HardCases,
        }
    }
}

/// A labeled tool, prepared as a training example.
pub(crate) struct TrainingExample {
    /// Number that identifies the tool's server. All tools of a server are in the same fold.
    pub server: usize,
    label: CategoryLabel,
    source: LabelSource,
    /// Whether the person who labeled the tool was sure.
    is_sure: bool,
    /// Categories that the label allows.
    pub allowed_categories: [bool; 5],
    pub keys: Vec<FeatureKey>,
    /// Weight of the example. It takes into account that a server's tools and their labels are similar to one another.
    pub weight: f64,
}

/// The result of training.
#[derive(Debug)]
pub struct TrainingResult {
    /// The content of the weights file.
    pub weights_json: String,
    /// Predictions for all labeled tools, each made with weights learned from other servers.
    pub held_out: Vec<HeldOutPrediction>,
}

/// The prediction for a tool, made with weights learned from other servers.
#[derive(Debug)]
pub struct HeldOutPrediction {
    /// The tool's server and name, escaped for display.
    pub tool: String,
    /// The tool's label.
    pub label: CategoryLabel,
    /// Where the label comes from.
    pub source: LabelSource,
    /// The predicted category.
    pub category: Category,
    /// The calibrated confidence of the prediction.
    pub confidence: f64,
    /// Why the classifier ruled out Read for the tool, if it did.
    pub not_read_reason: Option<String>,
    fold: usize,
    probability: f64,
}

/// Learns from labeled tools; `origin` describes the labels.
///
/// # Errors
/// An embedded data file is invalid. A test guards against this.
pub fn train(tools: &[LabeledTool<'_>], origin: &str) -> Result<TrainingResult, ClassifierDataFileError> {
    let servers = group_by_server(tools);
    let begin = || {
        let mut model = TrainingModel::untrained()?;
        training_vocabulary::add_common_words(&mut model, tools, &servers);
        Ok::<_, ClassifierDataFileError>(model)
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

/// For each fold, fits weights to the examples in the other folds. The folds are fitted in parallel.
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

/// Calibrates the confidence on the sampled tools that a person labeled, because categories are about as frequent
/// among them as among all tools.
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

/// The number of each server and the server's context for the classifier, keyed by server key.
pub(crate) type TrainingServers = BTreeMap<String, (usize, ServerContext)>;

fn group_by_server(tools: &[LabeledTool<'_>]) -> TrainingServers {
    let mut names: BTreeMap<String, Vec<&LabeledTool<'_>>> = BTreeMap::new();
    for tool in tools {
        names.entry(tool.item.server_key()).or_default().push(tool);
    }
    let server = |own: &[&LabeledTool<'_>]| {
        let name = own.first().map(|tool| &*tool.item.server).unwrap_or_default();
        ServerContext::new(name, None, own.iter().map(|tool| &*tool.item.tool.name))
    };
    names.into_iter().enumerate().map(|(at, (family, own))| (family, (at, server(&own)))).collect()
}

fn make_example(tool: &LabeledTool<'_>, servers: &TrainingServers, model: &TrainingModel) -> Option<TrainingExample> {
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

/// Sets the weights of the examples. The weight is 1 for a label by a person who read the definition, and less if that
/// person was unsure. For labels from the author, the weight decreases with the number of the server's tools that have
/// the same label.
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

/// Predicts the category of a held-out tool, if the tool has a label.
fn predict_held_out(
    tool: &LabeledTool<'_>,
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
