//! Learning weights from labels. Offline and without chance: the same labels give the same file, byte for byte.
//!
//! A logistic regression over named features. The lexicon's points are where it begins and what it is pulled back to.

mod calibrate;
mod fit;
mod words;

use std::collections::BTreeMap;

use gatelodge_catalogue::training::{
    ConfidenceCalibration, FeatureKey, Judgement, MODEL_CATEGORIES, TrainingDataError, TrainingModel,
};
use gatelodge_catalogue::{ServerContext, ToolEntry, escape_for_display};
use gatelodge_policy::Category;

use crate::labels::{Label, Labelled};
use calibrate::fit as fit_line;
use fit::Weights;

/// Of so many parts, one is left out at a time, to see how sure one may be of tools that were not learned from.
const PARTS: usize = 8;
/// How much the label of an author counts against one by reading: it is said in passing, and often by habit.
const OF_AUTHORS: f64 = 0.3;

/// The same of a label that its reader was unsure of.
const IF_UNSURE: f64 = 0.5;

/// Who said what a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Its author, by annotations.
    Author,
    /// Somebody who read the definition. Chance drew the tool, a few of each package.
    Random,
    /// The same, with some tools of each server that was run.
    Servers,
    /// The same, with tools that were picked because they are hard to tell.
    Doubtful,
}

impl Source {
    /// Who labelled a line: it has `read` if that was done by reading.
    fn of(item: &ToolEntry<'_>) -> Self {
        match item.entry.get("read").and_then(|read| read.as_str()).as_deref() {
            None => Self::Author,
            Some("random") => Self::Random,
            Some("servers") => Self::Servers,
            Some(_) => Self::Doubtful,
        }
    }
}

/// One tool to learn from.
pub(crate) struct Example {
    /// Whose tool it is: parts are made of whole servers.
    pub server: usize,
    label: Label,
    source: Source,
    /// Whether whoever said so was sure.
    is_sure: bool,
    /// Which outcomes its label leaves open.
    pub may_be: [bool; 5],
    pub keys: Vec<FeatureKey>,
    /// How much it counts: tools of one server are alike, and so are their labels.
    pub weight: f64,
}

/// What was learned.
#[derive(Debug)]
pub struct Training {
    /// The file of weights.
    pub weights: String,
    /// Each labelled tool as it is judged by what was learned from other servers.
    pub unseen: Vec<Unseen>,
}

/// A tool that was judged by what was learned from other servers.
#[derive(Debug)]
pub struct Unseen {
    /// Its server and its name, made visible.
    pub tool: String,
    /// What it is.
    pub label: Label,
    /// Who said so.
    pub source: Source,
    /// What it was taken for.
    pub category: Category,
    /// How sure that is, by tools of other servers.
    pub confidence: f64,
    /// What forbids Read.
    pub against_read: Option<String>,
    part: usize,
    share: f64,
}

/// Learns from labelled tools; `origin` says what they were.
///
/// # Errors
/// A file of ours cannot be read, which a test sees to.
pub fn train(tools: &[Labelled<'_>], origin: &str) -> Result<Training, TrainingDataError> {
    let servers = servers(tools);
    let begin = || {
        let mut model = TrainingModel::untrained()?;
        words::add_common(&mut model, tools, &servers);
        Ok::<_, TrainingDataError>(model)
    };
    let mut model = begin()?;
    let mut examples: Vec<Example> = tools.iter().filter_map(|tool| example(tool, &servers, &model)).collect();
    weigh(&mut examples);
    let mut unseen = Vec::new();
    for (part, Weights { bias, points }) in in_parts(&examples, &model).into_iter().enumerate() {
        let mut own = begin()?;
        own.learn(bias, points);
        unseen.extend(tools.iter().filter_map(|tool| judge(tool, part, &servers, &own)));
    }
    for part in 0..PARTS {
        let others = calibration(unseen.iter().filter(|one| one.part != part));
        for one in unseen.iter_mut().filter(|one| one.part == part) {
            one.confidence = others.confidence(one.category, one.share);
        }
    }
    let Weights { bias, points } = fit::fit(&examples.iter().collect::<Vec<_>>(), &model);
    model.learn(bias, points);
    let weights = model.to_text(origin, calibration(&unseen))?;
    Ok(Training { weights, unseen })
}

/// Weights for each part, learned from the others; side by side, because each takes a while.
fn in_parts(examples: &[Example], model: &TrainingModel) -> Vec<Weights> {
    let without = |part: usize| {
        let learned: Vec<&Example> = examples.iter().filter(|example| example.server % PARTS != part).collect();
        fit::fit(&learned, model)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..PARTS).map(|part| scope.spawn(move || without(part))).collect();
        running.into_iter().map(|own| own.join().unwrap_or_default()).collect()
    })
}

/// How sure to be, by tools that chance drew and somebody read: they are as frequent as they come.
fn calibration<'u>(unseen: impl IntoIterator<Item = &'u Unseen>) -> ConfidenceCalibration {
    let mut seen: BTreeMap<String, Vec<(f64, bool)>> = BTreeMap::new();
    for one in unseen.into_iter().filter(|one| matches!(one.source, Source::Random | Source::Servers)) {
        let right = seen.entry(one.category.as_str().to_owned()).or_default();
        right.push((one.share, one.label.fits(one.category)));
    }
    ConfidenceCalibration { curves: seen.into_iter().map(|(category, seen)| (category, fit_line(seen))).collect() }
}

/// Each server with its number, by its family.
pub(crate) type Servers = BTreeMap<String, (usize, ServerContext)>;

fn servers(tools: &[Labelled<'_>]) -> Servers {
    let mut names: BTreeMap<String, Vec<&Labelled<'_>>> = BTreeMap::new();
    for tool in tools {
        names.entry(tool.item.server_key()).or_default().push(tool);
    }
    let server = |own: &[&Labelled<'_>]| {
        let name = own.first().map(|tool| &*tool.item.server).unwrap_or_default();
        ServerContext::new(name, None, own.iter().map(|tool| &*tool.item.tool.name))
    };
    names.into_iter().enumerate().map(|(at, (family, own))| (family, (at, server(&own)))).collect()
}

fn example(tool: &Labelled<'_>, servers: &Servers, model: &TrainingModel) -> Option<Example> {
    let (at, server) = servers.get(&tool.item.server_key())?;
    let label = tool.label.filter(|label| *label != Label::Category(Category::Unknown))?;
    let keys = model.features(&tool.item.tool, server);
    let may_be = MODEL_CATEGORIES.map(|outcome| label.fits(outcome));
    let is_sure = tool.item.entry.get("sure").and_then(|sure| sure.as_bool()) != Some(false);
    Some(Example { server: *at, label, source: Source::of(&tool.item), is_sure, may_be, keys, weight: 1.0 })
}

/// What was read counts as it is, or half if the reader was unsure. Of many tools of one server that its author labelled alike, each counts less.
fn weigh(examples: &mut [Example]) {
    let mut alike: BTreeMap<(usize, Label), f64> = BTreeMap::new();
    for example in examples.iter().filter(|example| example.source == Source::Author) {
        *alike.entry((example.server, example.label)).or_default() += 1.0;
    }
    for example in examples {
        let count = alike.get(&(example.server, example.label)).copied().unwrap_or(1.0);
        example.weight = match example.source {
            Source::Author => OF_AUTHORS / count.sqrt(),
            _ if example.is_sure => 1.0,
            _ => IF_UNSURE,
        };
    }
}

/// How a tool of a part comes out, if it has a label.
fn judge(tool: &Labelled<'_>, part: usize, servers: &Servers, model: &TrainingModel) -> Option<Unseen> {
    let (_, server) = servers.get(&tool.item.server_key()).filter(|(at, _)| at % PARTS == part)?;
    let (item, label) = (&tool.item, tool.label?);
    let Judgement { category, share, against_read } = model.judge(&item.tool, server);
    Some(Unseen {
        tool: format!("{} / {}", escape_for_display(&item.server), escape_for_display(&item.tool.name)),
        label,
        source: Source::of(item),
        category,
        confidence: share,
        against_read,
        part,
        share,
    })
}
