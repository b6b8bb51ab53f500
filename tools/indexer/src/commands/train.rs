//! `train`: learns the classifier's weights from labeled tools.

use std::collections::BTreeSet;

use anyhow::Result;
use data_encoding::HEXLOWER;
use gatelodge_catalogue::{ToolListEntry, category_name, read_tools};
use gatelodge_indexer::{
    ClassifierEvaluation, EvaluationRatio, HeldOutPrediction, LabelSource, TrainingResult, read_labeled_tool, train,
};
use sha2::{Digest, Sha256};

use crate::cli::TrainArgs;
use crate::console_output::{self, say};
use crate::exit::IndexerExitCode;
use crate::file_io;

pub fn run(args: &TrainArgs) -> Result<IndexerExitCode> {
    let texts = args.labels.iter().map(|path| file_io::read(path)).collect::<Result<Vec<Vec<u8>>, _>>()?;
    let documents: Vec<_> = texts.iter().flat_map(|text| read_tools(text)).collect();
    let mut tools = Vec::new();
    for (number, document) in &documents {
        let Ok(document) = document else { continue };
        let items = ToolListEntry::read_all(document, *number).into_iter().flatten();
        tools.extend(items.filter_map(|item| read_labeled_tool(item).ok()));
    }
    let origin = format!("{}; SHA-256 of the labels {}", args.origin, digest(&texts));
    let TrainingResult { weights_json: weights, held_out: unseen } = train(&tools, &origin)?;
    console_output::print(&format!("{weights}\n"))?;
    report(&unseen);
    Ok(IndexerExitCode::Fine)
}

/// Returns a hash that identifies the labels. The same labels always give the same weights.
fn digest(texts: &[Vec<u8>]) -> String {
    let mut hasher = Sha256::new();
    texts.iter().for_each(|text| hasher.update(text));
    HEXLOWER.encode(&hasher.finalize())
}

/// Prints how well tools from servers held out of training are classified.
fn report(unseen: &[HeldOutPrediction]) {
    for wrong in unseen.iter().filter(|one| !one.label.matches(one.category)) {
        let (label, category) = (wrong.label.as_str(), category_name(wrong.category));
        let why = wrong.not_read_reason.as_deref().unwrap_or_default();
        say(&format!("{}: is {label}, classified as {category} ({:.2}) {why}", wrong.tool, wrong.confidence));
    }
    for (title, source) in [
        ("by annotations", LabelSource::Author),
        ("by reading, hard cases", LabelSource::HardCases),
        ("by reading, a sample of each server that was run", LabelSource::ServerSample),
        ("by reading, one of each package", LabelSource::RandomSample),
    ] {
        let mut evaluation = ClassifierEvaluation::default();
        unseen.iter().filter(|one| one.source == source).for_each(|one| evaluation.add_held_out(one));
        figures(title, &evaluation);
    }
}

fn figures(title: &str, evaluation: &ClassifierEvaluation) {
    let share = |what: &str, share: EvaluationRatio| {
        say(&format!("{what:34}{:5.1} %  {} of {}", 100.0 * share.ratio(), share.count, share.total));
    };
    say(&format!("\nlabels {title}; each tool is classified by weights learned from other servers"));
    share("right", evaluation.right);
    share("Read or not", evaluation.read_or_not);
    share("Destructive or not", evaluation.destructive_or_not);
    share("not Read, but classified as Read", evaluation.misread_as_read);
    say(&format!("{:34}{:.3}", "calibration error", evaluation.calibration_error()));
    let called: BTreeSet<&str> = evaluation.confusion.values().flat_map(|row| row.keys().copied()).collect();
    say(&format!("{:24}{}", "is \\ called", called.iter().map(|name| format!("{name:>13}")).collect::<String>()));
    for (label, row) in &evaluation.confusion {
        let counts = called.iter().map(|name| format!("{:>13}", row.get(name).copied().unwrap_or_default()));
        say(&format!("{label:24}{}", counts.collect::<String>()));
    }
}
