//! Learns the weights of the catalogue from labelled tools: `train ORIGIN LABELS… > data/weights.json`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]

use std::process::ExitCode;

use gatelodge_catalogue::{Item, Label, Training, labelled, read_tools, train};
use gatelodge_policy::Category;

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
    match train(&tools, &origin) {
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

/// Tells how tools of servers that were left out come out.
fn tell(unseen: &[(Label, Category)]) {
    let share = |what: &str, counted: Vec<bool>| {
        let right = counted.iter().filter(|right| **right).count();
        eprintln!("{what}: {right} of {} ({:.1} %)", counted.len(), 100.0 * right as f64 / counted.len().max(1) as f64);
    };
    let is = |category: Category, wanted: Category| category == wanted;
    share("right", unseen.iter().map(|(label, own)| label.fits(*own)).collect());
    share("Read or not", unseen.iter().map(|(label, own)| label.is_read() == is(*own, Category::Read)).collect());
    let gone = |(label, own): &(Label, Category)| label.is_destructive() == is(*own, Category::Destructive);
    share("Destructive or not", unseen.iter().map(gone).collect());
    let not_read = unseen.iter().filter(|(label, _)| !label.is_read());
    share("of the not-Read called Read", not_read.map(|(_, own)| is(*own, Category::Read)).collect());
}
