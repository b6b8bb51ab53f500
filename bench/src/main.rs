//! Measures the pure parts and compares ratios with their targets.
//!
//! `cargo run --release -p gatelodge-bench [GROUP] [--json]`. Exit code 1: a target is missed; 2: usage.
#![allow(clippy::expect_used, reason = "a broken benchmark should stop")]

mod allocation_bench;
mod compile_bench;
mod decision_bench;
mod figure_report;
mod interleaved_timing;
mod json_read_bench;
mod policy_fixtures;

use std::process::ExitCode;

use figure_report::{BenchFigure, BenchGroup};

const GROUPS: [BenchGroup; 4] = [
    BenchGroup { name: "decide", run: decision_bench::figures },
    BenchGroup { name: "read", run: json_read_bench::figures },
    BenchGroup { name: "compile", run: compile_bench::figures },
    BenchGroup { name: "allocations", run: allocation_bench::figures },
];

fn main() -> ExitCode {
    let (flags, filters): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let filter = filters.first().map_or("", String::as_str);
    let groups: Vec<&BenchGroup> = GROUPS.iter().filter(|group| group.name.contains(filter)).collect();
    if groups.is_empty() || filters.len() > 1 || flags.iter().any(|flag| flag != "--json") {
        let names: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
        eprintln!("usage: gatelodge-bench [GROUP] [--json]\ngroups: {}", names.join(", "));
        return ExitCode::from(2);
    }
    let figures: Vec<(&str, Vec<BenchFigure>)> = groups.iter().map(|group| (group.name, (group.run)())).collect();
    let text =
        if flags.is_empty() { figure_report::figures_table(&figures) } else { figure_report::figures_json(&figures) };
    print!("{text}");
    let is_missed = figures.iter().flat_map(|(_, group)| group).any(|figure| !figure.is_met());
    ExitCode::from(u8::from(is_missed))
}
