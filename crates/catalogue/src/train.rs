//! Learning weights from labels. Offline and without chance: the same labels give the same file, byte for byte.
//!
//! A logistic regression over named features. The lexicon's points are where it begins and what it is pulled back to.

mod fit;
mod words;

use std::collections::BTreeMap;

use gatelodge_policy::Category;

use crate::calibrate::{Calibration, fit as fit_line};
use crate::classify::look;
use crate::decide::{Verdict, decide};
use crate::features::Key;
use crate::labels::{Label, Labelled};
use crate::read::ReadError;
use crate::rulebook::{Rulebook, RulebookError};
use crate::server::Server;
use crate::shown::shown;
use crate::tool::Annotations;
use crate::trained::Trained;

/// Of so many parts, one is left out at a time, to see how sure one may be of tools that were not learned from.
const PARTS: usize = 8;

/// One tool to learn from.
pub(crate) struct Example {
    /// Whose tool it is: parts are made of whole servers.
    pub server: usize,
    pub label: Label,
    pub keys: Vec<Key>,
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
    /// What it was taken for.
    pub category: Category,
    /// The model's share for that.
    pub share: f64,
    /// What forbids Read.
    pub against_read: Option<String>,
}

/// Learns from labelled tools; `origin` says what they were.
///
/// # Errors
/// A file of ours cannot be read, which a test sees to.
pub fn train(tools: &[Labelled<'_>], origin: &str) -> Result<Training, ReadError> {
    let broken = |error: RulebookError| ReadError { number: 0, why: error.to_string() };
    let servers = servers(tools);
    let mut book = Rulebook::untrained().map_err(broken)?;
    words::add_common(&mut book.lexicon, tools, &servers);
    let mut examples: Vec<Example> = tools.iter().filter_map(|tool| example(tool, &servers, &book)).collect();
    weigh(&mut examples);
    let mut seen: BTreeMap<String, Vec<(f64, bool)>> = BTreeMap::new();
    let mut unseen = Vec::new();
    for part in 0..PARTS {
        let learned: Vec<&Example> = examples.iter().filter(|example| example.server % PARTS != part).collect();
        let mut own = Rulebook::untrained().map_err(broken)?;
        words::add_common(&mut own.lexicon, tools, &servers);
        own.model = fit::fit(&learned, &book);
        for tool in tools {
            let around = servers.get(&tool.item.family()).filter(|(at, _)| at % PARTS == part);
            let (Some(label), Some((_, around))) = (tool.label, around) else { continue };
            let verdict = judge(tool, around, &own);
            let right = seen.entry(verdict.category.as_str().to_owned()).or_default();
            right.push((verdict.share, label.fits(verdict.category)));
            let (server, name) = (shown(&tool.item.server), shown(&tool.item.tool.name));
            let tool = format!("{server} / {name}");
            let (category, share) = (verdict.category, verdict.share);
            let against_read = verdict.hindrance.map(|own| own.why);
            unseen.push(Unseen { tool, label, category, share, against_read });
        }
    }
    let lines = seen.into_iter().map(|(category, seen)| (category, fit_line(seen))).collect();
    book.model = fit::fit(&examples.iter().collect::<Vec<_>>(), &book);
    let trained = Trained::of(&book, origin.to_owned(), Calibration { lines });
    let weights = serde_json::to_string_pretty(&trained);
    let weights = weights.map_err(|error| ReadError { number: 0, why: error.to_string() })?;
    Ok(Training { weights, unseen })
}

/// Each server with its number, by its family.
pub(crate) type Servers = BTreeMap<String, (usize, Server)>;

fn servers(tools: &[Labelled<'_>]) -> Servers {
    let mut names: BTreeMap<String, Vec<&Labelled<'_>>> = BTreeMap::new();
    for tool in tools {
        names.entry(tool.item.family()).or_default().push(tool);
    }
    let server = |own: &[&Labelled<'_>]| {
        let name = own.first().map(|tool| &*tool.item.server).unwrap_or_default();
        Server::new(name, None, own.iter().map(|tool| &*tool.item.tool.name))
    };
    names.into_iter().enumerate().map(|(at, (family, own))| (family, (at, server(&own)))).collect()
}

fn example(tool: &Labelled<'_>, servers: &Servers, book: &Rulebook) -> Option<Example> {
    let (at, server) = servers.get(&tool.item.family())?;
    let label = tool.label?;
    let keys = look(&tool.item.tool, server, book, |_, features| features.iter().map(|feature| feature.key).collect());
    Some(Example { server: *at, label, keys, weight: 1.0 })
}

/// Of many tools of one server with one label, each counts less; what is not Read counts more, because a mistake there
/// does.
fn weigh(examples: &mut [Example]) {
    const NOT_READ: f64 = 2.0;
    let mut alike: BTreeMap<(usize, Label), usize> = BTreeMap::new();
    for example in &*examples {
        *alike.entry((example.server, example.label)).or_default() += 1;
    }
    for example in examples {
        let count = alike.get(&(example.server, example.label)).copied().unwrap_or(1) as f64;
        example.weight = if example.label.is_read() { 1.0 } else { NOT_READ } / count.sqrt();
    }
}

fn judge(tool: &Labelled<'_>, server: &Server, book: &Rulebook) -> Verdict {
    look(&tool.item.tool, server, book, |found, features| decide(found, features, Annotations::default(), book))
}
