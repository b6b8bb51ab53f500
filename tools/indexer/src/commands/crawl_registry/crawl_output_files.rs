//! Output files of a crawl, written so that an interrupted run can continue.
//!
//! A package's facts are appended before its line in `done.jsonl`. A package without such a line is read again, and if
//! its facts were written more than once, the last ones apply.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gatelodge_catalogue::{ExtractedTool, PackageRegistry, PackageRelease};
use serde::{Deserialize, Serialize};

use super::package_reader::{CrawlLogLine, CrawledPackage, PackageOutcome};
use super::package_selection::{PackageSelectionEntry, canonical_name};
use crate::console_output;
use crate::exit::IndexerUsageError;

/// A tool definition that includes text written by the author. It is for training only and must not be shared.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrainingToolDefinition {
    package: String,
    server: String,
    #[serde(flatten)]
    tool: ExtractedTool,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'static str>,
}

impl TrainingToolDefinition {
    pub fn of(release: &PackageRelease, tool: ExtractedTool) -> Self {
        let (name, version) = (&release.package, &release.version);
        let package = match release.source {
            PackageRegistry::Pypi => format!("pypi:{name}=={version}"),
            PackageRegistry::Npm => format!("npm:{name}@{version}"),
        };
        let hint = |name: &str| tool.annotations.get(name).and_then(serde_json::Value::as_bool);
        // Only explicit annotations make a label.
        let category = match (hint("readOnlyHint"), hint("destructiveHint")) {
            (Some(true), _) => Some("Read"),
            (Some(false), Some(true)) => Some("Destructive"),
            (Some(false), Some(false)) => Some("NotReadNotDestructive"),
            _ => None,
        };
        Self { package, server: name.clone(), tool, category }
    }
}

/// The output files of a crawl.
pub struct CrawlOutputFiles {
    folder: PathBuf,
    source: PackageRegistry,
    /// What has been recorded about each package, keyed by canonical package name.
    records: HashMap<String, PriorCrawlOutcome>,
    log_file: File,
    facts_file: File,
    definitions_file: Option<File>,
}

/// What `done.jsonl` records about a package.
struct PriorCrawlOutcome {
    outcome: PackageOutcome,
    requested_version: Option<String>,
    read_version: Option<String>,
}

impl PriorCrawlOutcome {
    fn of(line: &CrawlLogLine) -> Self {
        Self {
            outcome: line.outcome,
            requested_version: line.requested_version.clone(),
            read_version: line.version.clone(),
        }
    }
}

/// The package name in a JSON line, used to sort the lines.
#[derive(Deserialize)]
struct PackageLineKey {
    package: String,
}

/// The registry named in a line of `facts.jsonl`.
#[derive(Deserialize)]
struct FactsLineRegistry {
    source: PackageRegistry,
}

impl CrawlOutputFiles {
    /// Opens the files in a folder and determines which packages are done. An incomplete last line is dropped.
    pub fn open(folder: &Path, source: PackageRegistry, definitions: Option<&Path>) -> Result<Self> {
        let of_another = || {
            IndexerUsageError(format!("`{}` has packages of another source; use a separate folder", folder.display()))
        };
        let path = folder.join("done.jsonl");
        let append = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.with_context(|| format!("cannot write `{}`", path.display()))
        };
        let own = append(&path)?;
        // Held until the end: two runs in one folder would drop each other's results.
        match own.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let what = format!("another run writes to `{}`; wait for it, or use another folder", folder.display());
                return Err(IndexerUsageError(what).into());
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock `{}`", path.display()));
            }
        }
        let mut done = HashMap::new();
        drop_torn_line(&path)?;
        for (at, line) in read_lines(&path)?.enumerate() {
            let damaged = || {
                let what = format!("`{}`, line {}: cannot read the line", path.display(), at + 1);
                format!("{what}; remove the line to continue, its package is read again")
            };
            let line: CrawlLogLine = serde_json::from_str(&line?).with_context(damaged)?;
            if line.source.is_some_and(|own| own != source) {
                return Err(of_another().into());
            }
            done.insert(canonical_name(source, &line.package), PriorCrawlOutcome::of(&line));
        }
        let facts = folder.join("facts.jsonl");
        drop_torn_line(&facts)?;
        if let Some(line) = read_lines(&facts)?.next() {
            let first: FactsLineRegistry =
                serde_json::from_str(&line?).with_context(|| format!("in `{}`", facts.display()))?;
            if first.source != source {
                return Err(of_another().into());
            }
        }
        if let Some(definitions) = definitions {
            drop_torn_line(definitions)?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            source,
            records: done,
            log_file: own,
            facts_file: append(&facts)?,
            definitions_file: definitions.map(append).transpose()?,
        })
    }

    /// Returns whether a package can be skipped because it has already been read. A package is read again if a
    /// different version is requested this time, or if reading it failed.
    pub fn is_done(&self, wanted: &PackageSelectionEntry) -> bool {
        let Some(done) = self.records.get(&canonical_name(self.source, &wanted.name)) else { return false };
        let is_same = done.requested_version == wanted.version
            || (wanted.version.is_some() && done.read_version == wanted.version);
        is_same && done.outcome != PackageOutcome::Failed
    }

    /// Returns whether the package failed in an earlier run.
    pub fn has_failed(&self, wanted: &PackageSelectionEntry) -> bool {
        self.records
            .get(&canonical_name(self.source, &wanted.name))
            .is_some_and(|done| done.outcome == PackageOutcome::Failed)
    }

    /// Appends a package to the files, with its line in `done.jsonl` written last.
    pub fn append(&mut self, read: &CrawledPackage) -> Result<()> {
        if let Some(facts) = &read.facts {
            self.facts_file.write_all(format!("{}\n", serde_json::to_string(facts)?).as_bytes())?;
        }
        if let Some(file) = &mut self.definitions_file {
            let mut text = String::new();
            for definition in &read.definitions {
                text.push_str(&serde_json::to_string(definition)?);
                text.push('\n');
            }
            file.write_all(text.as_bytes())?;
        }
        self.log_file.write_all(format!("{}\n", serde_json::to_string(&read.log_line)?).as_bytes())?;
        self.records.insert(canonical_name(self.source, &read.log_line.package), PriorCrawlOutcome::of(&read.log_line));
        Ok(())
    }

    /// Sorts both files, removes duplicates and prints a summary. Tool definitions stay in the order in which they were
    /// read.
    pub fn finish(&self) -> Result<()> {
        let done = self.sort_lines("done.jsonl", |_| true)?;
        // A package may have had tools when it was read earlier and have none now.
        self.sort_lines("facts.jsonl", |own| own.outcome == PackageOutcome::Tools)?;
        let mut counts: BTreeMap<PackageOutcome, usize> = BTreeMap::new();
        let (mut tools, mut odd_names, mut skips) = (0, 0, BTreeMap::new());
        for line in &done {
            let line: CrawlLogLine = serde_json::from_str(line)?;
            *counts.entry(line.outcome).or_default() += 1;
            tools += line.tools;
            odd_names += line.unusable_names;
            for (skip, count) in line.skipped {
                *skips.entry(skip).or_insert(0) += count;
            }
        }
        let mut rows = vec![
            vec!["packages".to_owned(), done.len().to_string()],
            vec!["tools in total".to_owned(), tools.to_string()],
        ];
        rows.extend(counts.iter().map(|(outcome, count)| vec![wire_name(outcome), count.to_string()]));
        if odd_names > 0 {
            rows.push(vec!["unusable tool names".to_owned(), odd_names.to_string()]);
        }
        rows.extend(
            skips.iter().map(|(skip, count)| vec![format!("parts skipped: {}", wire_name(skip)), count.to_string()]),
        );
        console_output::print(&console_output::table(&rows))
    }

    /// Sorts the lines of a file by package, keeping only the last line for each package.
    fn sort_lines(&self, file: &str, stays: impl Fn(&PriorCrawlOutcome) -> bool) -> Result<Vec<String>> {
        let path = self.folder.join(file);
        let mut by_package: BTreeMap<String, String> = BTreeMap::new();
        for line in read_lines(&path)? {
            let line = line?;
            let named: PackageLineKey =
                serde_json::from_str(&line).with_context(|| format!("in `{}`", path.display()))?;
            let key = canonical_name(self.source, &named.package);
            if self.records.get(&key).is_some_and(&stays) {
                by_package.insert(key, line);
            }
        }
        let part = path.with_extension("part");
        let mut out = std::io::BufWriter::new(File::create(&part)?);
        for line in by_package.values() {
            writeln!(out, "{line}")?;
        }
        out.into_inner().map_err(|error| error.into_error())?.sync_all()?;
        fs::rename(&part, &path)?;
        Ok(by_package.into_values().collect())
    }
}

/// Returns the string that a value is serialized to.
fn wire_name(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn read_lines(path: &Path) -> Result<impl Iterator<Item = std::io::Result<String>>> {
    let file = match File::open(path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    };
    Ok(file.into_iter().flat_map(|file| BufReader::new(file).lines()))
}

/// Truncates the file after its last complete line.
fn drop_torn_line(path: &Path) -> Result<()> {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return Ok(()) };
    let (mut whole, mut at) = (0, 0);
    let mut reader = BufReader::new(&file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        at += read as u64;
        if line.ends_with(b"\n") {
            whole = at;
        }
    }
    if whole < at {
        file.set_len(whole)?;
    }
    Ok(())
}
