//! Learns the weights of the catalogue from labelled tools: `train ORIGIN LABELS… > data/weights.json`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]

use std::process::ExitCode;

use gatelodge_catalogue::{Item, Training, Unseen, labelled, read_tools, train};
use gatelodge_policy::Category;
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
    let share = |what: &str, counted: Vec<bool>| {
        let right = counted.iter().filter(|right| **right).count();
        eprintln!("{what}: {right} of {} ({:.1} %)", counted.len(), 100.0 * right as f64 / counted.len().max(1) as f64);
    };
    for wrong in unseen.iter().filter(|one| !one.label.fits(one.category)) {
        let (label, category) = (wrong.label.as_str(), wrong.category.as_str());
        let why = wrong.against_read.as_deref().unwrap_or_default();
        eprintln!("{}: is {label}, taken for {category} ({:.2}) {why}", wrong.tool, wrong.share);
    }
    let is_read = |one: &Unseen| one.category == Category::Read;
    let is_gone = |one: &Unseen| one.category == Category::Destructive;
    share("right", unseen.iter().map(|one| one.label.fits(one.category)).collect());
    share("Read or not", unseen.iter().map(|one| one.label.is_read() == is_read(one)).collect());
    share("Destructive or not", unseen.iter().map(|one| one.label.is_destructive() == is_gone(one)).collect());
    let not_read = unseen.iter().filter(|one| !one.label.is_read());
    share("of the not-Read called Read", not_read.map(is_read).collect());
}
