//! The change feed of the package index: a JSON Lines file next to the index. Each line has a sequence number that
//! clients use as a cursor.
//!
//! A user typically runs only a few of the indexed servers, and any of them may have changed. The feed therefore aims
//! to mention every changed server: its most severe changes get a line each, and the rest are counted in one more line.

mod index_change_page;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gatelodge_catalogue::{PackageIndex, index_changes, pending_changes_file};
use serde::Serialize;
use serde_json::Value;

use crate::file_output;

pub use index_change_page::{IndexChangePage, events_after};

/// Maximum number of lines in the feed; the oldest are dropped first.
const MAX_FEED_LINES: usize = 80_000;
/// Maximum number of lines that one index update adds to the feed.
const MAX_ADDED_LINES: usize = 40_000;
/// Possible limits on the number of changes listed per server, in descending order. An update uses the first limit that
/// keeps it within [`MAX_ADDED_LINES`].
const CHANGES_PER_SERVER_STEPS: [usize; 6] = [50, 20, 10, 4, 1, 0];
/// Maximum size of the feed file; the oldest lines are dropped first.
const MAX_FEED_BYTES: usize = 64 << 20;

/// Summary of what [`stage_changes`] added to the feed, left out and dropped.
#[derive(Debug, Default, Serialize)]
pub struct FeedUpdateSummary {
    /// Number of tools that changed.
    pub changes: usize,
    /// Number of servers with changed tools.
    pub servers: usize,
    /// Number of changed tools that have their own line in the feed.
    #[serde(rename = "told")]
    pub listed: usize,
    /// Number of changed tools that are only counted, in a summary line for their server.
    pub counted: usize,
    /// Number of changed tools that do not appear in the feed at all because it would become too large.
    pub left_out: usize,
    /// Number of old lines that were dropped from the feed.
    pub dropped: usize,
}

/// Adds the changes between two indexes to the feed, and writes the result to a staging file named after the new
/// index's hash. [`publish_staged`] replaces the feed with that file once the new index is installed.
pub fn stage_changes(
    log: &Path,
    date: &str,
    old: &PackageIndex,
    new: &PackageIndex,
    hash: &str,
) -> Result<FeedUpdateSummary> {
    let sizes: Vec<usize> = index_changes(old, new).map(|server| server.len()).collect();
    let mut kept =
        FeedUpdateSummary { changes: sizes.iter().sum(), servers: sizes.len(), ..FeedUpdateSummary::default() };
    if sizes.is_empty() {
        return Ok(kept);
    }
    let size = |each: usize| sizes.iter().map(|own| if *own > each { each + 1 } else { *own }).sum::<usize>();
    let each = CHANGES_PER_SERVER_STEPS.into_iter().find(|each| size(*each) <= MAX_ADDED_LINES).unwrap_or_default();
    let before: Vec<String> =
        feed_lines(log).and_then(Iterator::collect).with_context(|| format!("cannot read `{}`", log.display()))?;
    let mut cursor = before.iter().filter_map(|line| line_cursor(line)).max().unwrap_or_default();
    let (mut added, mut count) = (String::new(), 0);
    for server in index_changes(old, new) {
        let listed = server.first_changes(each);
        let mut own = String::new();
        for (change, cursor) in listed.iter().zip(cursor + 1..) {
            write_line(&mut own, cursor, date, &serde_json::to_value(change)?);
        }
        if count + listed.len() > MAX_ADDED_LINES || added.len() + own.len() > MAX_FEED_BYTES {
            kept.left_out += server.len();
            continue;
        }
        for change in &listed {
            match change.counts.values().sum::<usize>() {
                0 => kept.listed += 1,
                more => kept.counted += more,
            }
        }
        cursor += listed.len() as u64;
        count += listed.len();
        added.push_str(&own);
    }
    let (mut lines, mut bytes) = (MAX_FEED_LINES.saturating_sub(count), MAX_FEED_BYTES - added.len());
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
    file_output::replace_file(&staged_path(log, hash), whole.as_bytes())?;
    Ok(kept)
}

/// Replaces the feed with the one staged for the index with the given hash, if there is one. Also called after an
/// interrupted update, which may have left a staged feed unpublished.
pub fn publish_staged(log: &Path, hash: &str) -> io::Result<()> {
    match fs::rename(staged_path(log, hash), log) {
        // Another process published it, or nothing is staged.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Removes files left behind by interrupted updates. The caller must hold the update lock.
pub fn remove_stale_files(index: &Path, log: &Path) {
    let names = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (index_name, log_name) = (names(index), names(log));
    for entry in index.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_new = [&index_name, &log_name]
            .iter()
            .any(|own| name.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with(".new-")));
        let is_draft = is_new || name.starts_with(&pending_changes_file(""));
        if is_draft {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the path of the feed staged for the index with the given hash.
fn staged_path(log: &Path, hash: &str) -> PathBuf {
    log.with_file_name(pending_changes_file(hash))
}

/// Reads the lines of the feed, oldest first. If the file is larger than [`MAX_FEED_BYTES`], skips the oldest lines, so
/// that the newest changes are always returned.
pub fn feed_lines(log: &Path) -> io::Result<impl Iterator<Item = io::Result<String>>> {
    let mut file = match File::open(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        opened => Some(opened?),
    };
    let mut is_truncated = false;
    if let Some(file) = &mut file {
        let over = file.metadata()?.len().saturating_sub(MAX_FEED_BYTES as u64);
        // Starts one byte earlier, so that a line that begins exactly there is kept.
        file.seek(SeekFrom::Start(over.saturating_sub(1)))?;
        is_truncated = over > 0;
    }
    let mut reader = file.map(|file| BufReader::new(file.take(MAX_FEED_BYTES as u64 + 1)));
    if let Some(reader) = reader.as_mut().filter(|_| is_truncated) {
        reader.skip_until(b'\n')?;
    }
    Ok(reader.into_iter().flat_map(BufRead::lines))
}

fn line_cursor(line: &str) -> Option<u64> {
    serde_json::from_str::<Value>(line).ok()?.get("cursor")?.as_u64()
}

fn write_line(out: &mut String, cursor: u64, date: &str, change: &Value) {
    let mut line = serde_json::Map::from_iter([("cursor".to_owned(), cursor.into()), ("date".to_owned(), date.into())]);
    line.extend(change.as_object().cloned().unwrap_or_default());
    let _ = writeln!(out, "{}", Value::Object(line));
}
