//! The changes that are kept beside the index: a line each, with a number that is the cursor of whoever reads them.
//!
//! Servers that people use are few among many, so each server that changed is told, and its gravest changes one by one.
//! What is more than that is counted for the server.

mod page;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gatelodge_catalogue::{PackageIndex, index_changes, pending_changes_file};
use serde::Serialize;
use serde_json::Value;

use crate::source_file;
pub use page::{Page, behind};

/// Lines that are kept; the oldest go first.
const MOST_KEPT: usize = 80_000;
/// Lines that one update adds.
const MOST_ADDED: usize = 40_000;
/// How many changes of a server are told one by one: the first of these with which all fit.
const EACH: [usize; 6] = [50, 20, 10, 4, 1, 0];
/// Bytes that are kept; the oldest lines go first.
const MOST_BYTES: usize = 64 << 20;

/// What became of changes.
#[derive(Debug, Default, Serialize)]
pub struct Kept {
    /// Tools that changed.
    pub changes: usize,
    /// Servers with such tools.
    pub servers: usize,
    /// Tools that are told one by one.
    pub told: usize,
    /// Tools that are counted for their server.
    pub counted: usize,
    /// Tools that are in neither.
    pub left_out: usize,
    /// Older lines that made room.
    pub dropped: usize,
}

/// Adds what changed between two indexes to what is kept: beside it, until the new index, which has this hash, is in use.
pub fn keep(log: &Path, date: &str, old: &PackageIndex, new: &PackageIndex, hash: &str) -> Result<Kept> {
    let sizes: Vec<usize> = index_changes(old, new).map(|server| server.len()).collect();
    let mut kept = Kept { changes: sizes.iter().sum(), servers: sizes.len(), ..Kept::default() };
    if sizes.is_empty() {
        return Ok(kept);
    }
    let size = |each: usize| sizes.iter().map(|own| if *own > each { each + 1 } else { *own }).sum::<usize>();
    let each = EACH.into_iter().find(|each| size(*each) <= MOST_ADDED).unwrap_or_default();
    let before: Vec<String> =
        lines(log).and_then(Iterator::collect).with_context(|| format!("cannot read `{}`", log.display()))?;
    let mut cursor = before.iter().filter_map(|line| number(line)).max().unwrap_or_default();
    let (mut added, mut count) = (String::new(), 0);
    for server in index_changes(old, new) {
        let told = server.first_changes(each);
        let mut own = String::new();
        for (change, cursor) in told.iter().zip(cursor + 1..) {
            write_line(&mut own, cursor, date, &serde_json::to_value(change)?);
        }
        if count + told.len() > MOST_ADDED || added.len() + own.len() > MOST_BYTES {
            kept.left_out += server.len();
            continue;
        }
        for change in &told {
            match change.counts.values().sum::<usize>() {
                0 => kept.told += 1,
                more => kept.counted += more,
            }
        }
        cursor += told.len() as u64;
        count += told.len();
        added.push_str(&own);
    }
    let (mut lines, mut bytes) = (MOST_KEPT.saturating_sub(count), MOST_BYTES - added.len());
    let fits = |line: &&String| match (lines.checked_sub(1), bytes.checked_sub(line.len() + 1)) {
        (Some(fewer), Some(less)) => {
            (lines, bytes) = (fewer, less);
            true
        }
        _ => false,
    };
    let stays = before.iter().rev().take_while(fits).count();
    kept.dropped = before.len() - stays;
    let mut whole: String = before.iter().skip(kept.dropped).flat_map(|line| [line.as_str(), "\n"]).collect();
    whole.push_str(&added);
    source_file::replace_file(&waiting(log, hash), whole.as_bytes())?;
    Ok(kept)
}

/// Puts changes that wait for the index in use into the feed. An update that was killed may have left them.
pub fn settle(log: &Path, hash: &str) -> io::Result<()> {
    match fs::rename(waiting(log, hash), log) {
        // Somebody else did, or there are none.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Drops what updates left that were killed. Only for who holds the lock of updates.
pub fn sweep(index: &Path, log: &Path) {
    let names = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (index_name, log_name) = (names(index), names(log));
    for entry in index.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_new = [&index_name, &log_name]
            .iter()
            .any(|own| name.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with(".new-")));
        let is_draft = is_new || name.starts_with(&pending_changes_file(""));
        if is_draft {
            // What stays is in nobody's way.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Where changes wait for the index that has this hash.
fn waiting(log: &Path, hash: &str) -> PathBuf {
    log.with_file_name(pending_changes_file(hash))
}

/// The lines that are kept, the oldest first. Of a file that is longer than what we write, the oldest are not read: what
/// is new is told in any case.
pub fn lines(log: &Path) -> io::Result<impl Iterator<Item = io::Result<String>>> {
    let mut file = match File::open(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        opened => Some(opened?),
    };
    let mut is_cut = false;
    if let Some(file) = &mut file {
        let over = file.metadata()?.len().saturating_sub(MOST_BYTES as u64);
        // From the byte before, so that a line which begins just there is whole.
        file.seek(SeekFrom::Start(over.saturating_sub(1)))?;
        is_cut = over > 0;
    }
    let mut reader = file.map(|file| BufReader::new(file.take(MOST_BYTES as u64 + 1)));
    if let Some(reader) = reader.as_mut().filter(|_| is_cut) {
        reader.skip_until(b'\n')?;
    }
    Ok(reader.into_iter().flat_map(BufRead::lines))
}

fn number(line: &str) -> Option<u64> {
    serde_json::from_str::<Value>(line).ok()?.get("cursor")?.as_u64()
}

fn write_line(out: &mut String, cursor: u64, date: &str, change: &Value) {
    let mut line = serde_json::Map::from_iter([("cursor".to_owned(), cursor.into()), ("date".to_owned(), date.into())]);
    line.extend(change.as_object().cloned().unwrap_or_default());
    let _ = writeln!(out, "{}", Value::Object(line));
}
