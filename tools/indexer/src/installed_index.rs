//! The index and the change events in the data directory of `gatelodge`. This program only reads them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etcetera::BaseStrategy;
use gatelodge_catalogue::{CHANGES_FILE, INDEX_FILE, PackageIndex, ToolChange, index_hash, pending_changes_file};
use serde_json::Value;

use crate::cli::InputIndexArgs;
use crate::exit::{IndexerError, IndexerExitCode, IndexerUsageError};
use crate::file_io;

/// Opens the index named on the command line, the one in the data directory, or the one built into the program.
pub fn open_index(args: &InputIndexArgs) -> Result<PackageIndex> {
    let path = match (&args.index, directory(args)) {
        (Some(path), _) => path.clone(),
        (None, Some(data)) => data.join(INDEX_FILE),
        (None, None) => return built_in(),
    };
    let shown = path.display();
    match file_io::read_up_to(&path, PackageIndex::MAX_FILE_BYTES + 1) {
        Ok(bytes) => PackageIndex::open(&bytes)
            .map_err(|error| IndexerError(IndexerExitCode::Fault, format!("`{shown}` cannot be used: {error}")).into()),
        Err(error) if args.index.is_some() => Err(IndexerUsageError(format!("cannot read `{shown}`: {error}")).into()),
        Err(error) if error.kind() == ErrorKind::NotFound => built_in(),
        Err(error) => Err(IndexerError(IndexerExitCode::Fault, format!("cannot read `{shown}`: {error}")).into()),
    }
}

/// Returns the change events recorded by index updates, each with its date. There are none for an index named on the
/// command line.
pub fn changes(args: &InputIndexArgs) -> Result<Vec<(String, ToolChange)>> {
    let Some(data) = directory(args).filter(|_| args.index.is_none()) else { return Ok(Vec::new()) };
    let log = change_log(&data);
    let text = match fs::read_to_string(&log) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(|| format!("cannot read the changes in `{}`", log.display()))?,
    };
    let read = |line: &str| {
        let change: Value = serde_json::from_str(line).ok()?;
        let date = change.get("date")?.as_str()?.to_owned();
        Some((date, serde_json::from_value(change).ok()?))
    };
    Ok(text.lines().filter_map(read).collect())
}

/// Returns the path of the change log. If an update was killed after it replaced the index, this is the path of the
/// pending change log, which the update did not get to rename.
fn change_log(data: &Path) -> PathBuf {
    let index = fs::read(data.join(INDEX_FILE)).unwrap_or_default();
    let pending = data.join(pending_changes_file(&index_hash(&index)));
    if pending.exists() { pending } else { data.join(CHANGES_FILE) }
}

fn built_in() -> Result<PackageIndex> {
    let opened = PackageIndex::open(PackageIndex::built_in());
    opened.map_err(|error| {
        IndexerError(IndexerExitCode::Fault, format!("the built-in index cannot be used: {error}")).into()
    })
}

fn directory(args: &InputIndexArgs) -> Option<PathBuf> {
    let default = || etcetera::choose_base_strategy().ok().map(|base| base.data_dir().join("gatelodge"));
    args.data.clone().or_else(default)
}
