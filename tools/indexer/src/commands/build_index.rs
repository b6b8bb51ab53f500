//! `index`: builds the index file from facts.

mod facts_from_tool_list;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{IndexMetadata, PackageFacts, PackageIndex, PackageRegistry};
use gatelodge_indexer::write_index;
use serde::Deserialize;

use crate::cli::BuildIndexArgs;
use crate::console_output::{counted, say, shown};
use crate::exit::{IndexerError, IndexerExitCode, IndexerUsageError};
use crate::{file_io, process_environment};

/// Maximum size of a line in an input file. Each line describes one package.
const MAX_LINE_BYTES: u64 = 32 << 20;

/// One line of `done.jsonl`.
#[derive(Debug, Deserialize)]
struct CrawlOutcomeLine {
    /// The registry. Crawls by older versions did not record it.
    #[serde(default)]
    source: Option<PackageRegistry>,
    package: String,
    outcome: String,
    /// Number of skipped parts of the package, by reason.
    #[serde(default)]
    skipped: BTreeMap<String, u64>,
    #[serde(default)]
    #[serde(rename = "odd_names")]
    unusable_names: u64,
}

impl CrawlOutcomeLine {
    /// Returns whether only part of the package was read. The outcome alone does not show this, because older versions
    /// recorded the outcome `tools` for such packages.
    fn is_incomplete(&self) -> bool {
        !self.skipped.is_empty() || self.unusable_names > 0
    }
}

pub fn run(args: &BuildIndexArgs) -> Result<IndexerExitCode> {
    let date = match &args.date {
        Some(date) => date
            .parse::<jiff::civil::Date>()
            .map(|date| date.to_string())
            .map_err(|_| IndexerUsageError(format!("`{}` is not a date; write it as `2026-11-16`", shown(date))))?,
        None => process_environment::today(),
    };
    let mut packages: Vec<PackageFacts> = Vec::new();
    for path in &args.facts {
        read_json_lines(path, |package| packages.push(package))?;
    }
    for named in &args.listed {
        packages.push(facts_from_tool_list::facts_from_tool_list(named)?);
    }
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    for path in &args.outcomes {
        // A package that was retried has several lines. The last one applies.
        let mut last: BTreeMap<(Option<PackageRegistry>, String), CrawlOutcomeLine> = BTreeMap::new();
        read_json_lines(path, |done: CrawlOutcomeLine| drop(last.insert((done.source, done.package.clone()), done)))?;
        packages.retain(|own| {
            let mut lines =
                [Some(own.source), None].into_iter().filter_map(|from| last.get(&(from, own.package.clone())));
            !lines.any(CrawlOutcomeLine::is_incomplete)
        });
        for done in last.into_values() {
            let outcome =
                if done.outcome == "tools" && done.is_incomplete() { "too-large".to_owned() } else { done.outcome };
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    let about = IndexMetadata { date, outcomes, ..IndexMetadata::default() };
    let bytes =
        write_index(packages, &about).map_err(|error| IndexerError(IndexerExitCode::Findings, error.to_string()))?;
    // Reads the result back before it replaces the old file.
    let index = PackageIndex::open(&bytes)?;
    file_io::replace(&args.out, &bytes)?;
    let about = index.metadata();
    let (servers, tools) = (counted(about.servers, "server"), counted(about.tools, "tool"));
    say(&format!("wrote `{}`: {servers}, {tools}, {} bytes", args.out.display(), bytes.len()));
    Ok(IndexerExitCode::Fine)
}

/// Reads a file of JSON lines. A line longer than `MAX_LINE_BYTES` is refused.
fn read_json_lines<T: for<'de> Deserialize<'de>>(path: &Path, mut take: impl FnMut(T)) -> Result<()> {
    let shown = path.display();
    let cannot = |error: std::io::Error| IndexerUsageError(format!("cannot read `{shown}`: {error}"));
    let mut input = BufReader::new(File::open(path).map_err(cannot)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(cannot)?;
        if read == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let fact = serde_json::from_slice(&line).map_err(|error| {
            IndexerError(IndexerExitCode::Findings, format!("`{shown}`, line {number}: {error}; nothing was written"))
        })?;
        take(fact);
    }
    Ok(())
}
