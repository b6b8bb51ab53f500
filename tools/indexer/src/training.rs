//! Learning weights from labels. Offline and without chance: the same labels give the same file, byte for byte.
//!
//! A logistic regression over named features. The lexicon's points are where it begins and what it is pulled back to.

mod calibrate;
mod model_fit;
mod training_vocabulary;

use std::collections::BTreeMap;

use gatelodge_catalogue::training::{
    ConfidenceCalibration, FeatureKey, Judgement, MODEL_CATEGORIES, TrainingDataError, TrainingModel,
};
use gatelodge_catalogue::{ServerContext, ToolEntry, escape_for_display};
use gatelodge_policy::Category;

use crate::category_labels::{CategoryLabel, LabelledTool};
use calibrate::fit as fit_line;
use model_fit::Weights;

/// Of so many parts, one is left out at a time, to see how sure one may be of tools that were not learned from.
const FOLD_COUNT: usize = 8;
/// How much the label of an author counts against one by reading: it is said in passing, and often by habit.
const AUTHOR_LABEL_WEIGHT: f64 = 0.3;

/// The same of a label that its reader was unsure of.
const UNSURE_LABEL_WEIGHT: f64 = 0.5;

/// Who said what a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelSource {
    /// Its author, by annotations.
    Author,
    /// Somebody who read the definition. Chance drew the tool, a few of each package.
    RandomSample,
    /// The same, with some tools of each server that was run.
    ServerSample,
    /// The same, with tools that were picked because they are hard to tell.
    HardCases,
}

impl LabelSource {
    /// Who labelled a line: it has `read` if that was done by reading.
    fn of(item: &ToolEntry<'_>) -> Self {
        match item.entry.get("read").and_then(|read| read.as_str()).as_deref() {
            None => Self::Author,
            Some("random") => Self::RandomSample,
            Some("servers") => Self::ServerSample,
            Some(_) => Self::HardCases,
        }
    }
}

/// One tool to learn from.
pub(crate) struct TrainingExample {
    /// Whose tool it is: parts are made of whole servers.
    pub server: usize,
    label: CategoryLabel,
    source: LabelSource,
    /// Whether whoever said so was sure.
    is_sure: bool,
    /// Which outcomes its label leaves open.
    pub allowed_categories: [bool; 5],
    pub keys: Vec<FeatureKey>,
    /// How much it counts: tools of one server are alike, and so are their labels.
    pub weight: f64,
}

/// What was learned.
#[derive(Debug)]
pub struct TrainingResult {
    /// The file of weights.
    pub weights_json: String,
    /// Each labelled tool as it is judged by what was learned from other servers.
    pub held_out: Vec<HeldOutPrediction>,
}

/// A tool that was judged by what was learned from other servers.
#[derive(Debug)]
pub struct HeldOutPrediction {
    /// Its server and its name, made visible.
    pub tool: String,
    /// What it is.
    pub label: CategoryLabel,
    /// Who said so.
    pub source: LabelSource,
    /// What it was taken for.
    pub category: Category,
    /// How sure that is, by tools of other servers.
    pub confidence: f64,
    /// What forbids Read.
    pub not_read_reason: Option<String>,
    fold: usize,
    probability: f64,
}

/// Learns from labelled tools; `origin` says what they were.
///
/// # Errors
/// A file of ours cannot be read, which a test sees to.
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

/// Weights for each part, learned from the others; side by side, because each takes a while.
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

/// How sure to be, by tools that chance drew and somebody read: they are as frequent as they come.
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

/// Each server with its number, by its family.
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

/// What was read counts as it is, or half if the reader was unsure. Of many tools of one server that its author labelled alike, each counts less.
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

/// How a tool of a part comes out, if it has a label.
fn predict_held_out(
    tool: &LabelledTool<'_>,
    part: usize,
    servers: &TrainingServers,
    model: &TrainingModel,
) -> Option<HeldOutPrediction> {
    let (_, server) = servers.get(&tool.item.server_key()).filter(|(at, _)| at % FOLD_COUNT == part)?;
    let (item, label) = (&tool.item, tool.label?);
    let Judgement { category, share, against_read } = model.judge(&item.tool, server);
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
