//! Learns the weights of the catalogue from labelled tools: `train ORIGIN LABELS… > data/weights.json`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]

use std::collections::BTreeSet;
use std::process::ExitCode;

use gatelodge_catalogue::{
    Evaluation, Item, LabelSource, Share, Training, Unseen, category_name, labelled, read_tools, train,
};
use sha2::{Digest, Sha256};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let origin = arguments.next().unwrap_or_default();
    let texts: Result<Vec<Vec<u8>>, std::io::Error> = arguments.map(std::fs::read).collect();
    let Ok(texts) = texts else {
        eprintln!("usage: train ORIGIN LABELS…: a file cannot be read");
        return ExitCode::from(2);
    };
    let documents: Vec<_> = texts.iter().flat_map(|text| read_tools(text)).collect();
    let mut tools = Vec::new();
    for (number, document) in &documents {
        let Ok(document) = document else { continue };
        let items = Item::all(document, *number).into_iter().flatten();
        tools.extend(items.filter_map(|item| labelled(item).ok()));
    }
    match train(&tools, &format!("{origin}; SHA-256 of the labels {}", digest(&texts))) {
        Ok(Training { weights, unseen }) => {
            println!("{weights}");
            tell(&unseen);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Which labels they were: the same give the same weights.
fn digest(texts: &[Vec<u8>]) -> String {
    let mut hasher = Sha256::new();
    texts.iter().for_each(|text| hasher.update(text));
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tells how tools of servers that were left out come out.
fn tell(unseen: &[Unseen]) {
    for wrong in unseen.iter().filter(|one| !one.label.fits(one.category)) {
        let (label, category) = (wrong.label.as_str(), category_name(wrong.category));
        let why = wrong.against_read.as_deref().unwrap_or_default();
        eprintln!("{}: is {label}, taken for {category} ({:.2}) {why}", wrong.tool, wrong.confidence);
    }
    for (title, source) in [
        ("by annotations", LabelSource::Author),
        ("by reading, tools that are hard to tell", LabelSource::Doubtful),
        ("by reading, some of each server that was run", LabelSource::Servers),
        ("by reading, one of each package", LabelSource::Random),
    ] {
        let mut evaluation = Evaluation::default();
        unseen.iter().filter(|one| one.source == source).for_each(|one| evaluation.add_unseen(one));
        figures(title, &evaluation);
    }
}

fn figures(title: &str, evaluation: &Evaluation) {
    let share = |what: &str, share: Share| {
        eprintln!("{what:30}{:5.1} %  {} of {}", 100.0 * share.value(), share.count, share.of);
    };
    eprintln!("\nlabels {title}; each tool judged by what was learned from other servers");
    share("right", evaluation.right);
    share("Read or not", evaluation.read_or_not);
    share("Destructive or not", evaluation.destructive_or_not);
    share("of the not-Read, called Read", evaluation.called_read);
    eprintln!("{:30}{:.3}", "calibration error", evaluation.calibration_error());
    let called: BTreeSet<&str> = evaluation.confusion.values().flat_map(|row| row.keys().copied()).collect();
    eprintln!("{:24}{}", "is \\ called", called.iter().map(|name| format!("{name:>13}")).collect::<String>());
    for (label, row) in &evaluation.confusion {
        let counts = called.iter().map(|name| format!("{:>13}", row.get(name).copied().unwrap_or_default()));
        eprintln!("{label:24}{}", counts.collect::<String>());
    }
}
