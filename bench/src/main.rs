//! Measures what the pure parts cost, and holds the ratios against their targets.
//!
//! `cargo run --release -p gatelodge-bench [MAX_BATCH_REQUESTS] [--json]`. Exit code 1: a target is missed; 2: misuse.
#![allow(clippy::expect_used, reason = "a broken benchmark should stop")]

mod allocations;
mod compile;
mod decisions;
mod document;
mod measure;
mod reading;
mod report;

use std::process::ExitCode;

use report::{Figure, Group};

const GROUPS: [Group; 4] = [
    Group { name: "decide", run: decisions::figures },
    Group { name: "read", run: reading::figures },
    Group { name: "compile", run: compile::figures },
    Group { name: "allocations", run: allocations::figures },
];

fn main() -> ExitCode {
    let (flags, filters): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let filter = filters.first().map_or("", String::as_str);
    let groups: Vec<&Group> = GROUPS.iter().filter(|group| group.name.contains(filter)).collect();
    if groups.is_empty() || filters.len() > 1 || flags.iter().any(|flag| flag != "--json") {
        let names: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
        eprintln!("usage: gatelodge-bench [GROUP] [--json]\ngroups: {}", names.join(", "));
        return ExitCode::from(2);
    }
    let figures: Vec<(&str, Vec<Figure>)> = groups.iter().map(|group| (group.name, (group.run)())).collect();
    let text = if flags.is_empty() { report::table(&figures) } else { report::json(&figures) };
    print!("{text}");
    let is_missed = figures.iter().flat_map(|(_, group)| group).any(|figure| !figure.is_met());
    ExitCode::from(u8::from(is_missed))
}
