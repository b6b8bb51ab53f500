//! The changes that are kept beside the index: a line each, with a number that is the cursor of whoever reads them.
//!
//! Servers that people use are few among many, so each server that changed is told, and its gravest changes one by one.
//! What is more than that is counted for the server.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Result};
use gatelodge_catalogue::{Index, changes};
use serde::Serialize;
use serde_json::Value;

use crate::file;

/// Lines that are kept; the oldest go first.
const MOST_KEPT: usize = 80_000;
/// Lines that one update adds.
const MOST_ADDED: usize = 40_000;
/// How many changes of a server are told one by one: the first of these with which all fit.
const EACH: [usize; 6] = [50, 20, 10, 4, 1, 0];
/// No log of ours is longer.
const LONGEST: u64 = 64 << 20;

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

/// Adds what changed between two indexes to what is kept.
pub fn keep(log: &Path, date: &str, old: &Index, new: &Index) -> Result<Kept> {
    let sizes: Vec<usize> = changes(old, new).map(|server| server.len()).collect();
    let mut kept = Kept { changes: sizes.iter().sum(), servers: sizes.len(), ..Kept::default() };
    if sizes.is_empty() {
        return Ok(kept);
    }
    let lines = |each: usize| sizes.iter().map(|size| if *size > each { each + 1 } else { *size }).sum::<usize>();
    let each = EACH.into_iter().find(|each| lines(*each) <= MOST_ADDED).unwrap_or_default();
    let before = read(log)?;
    let mut cursor = before.lines().filter_map(number).max().unwrap_or_default();
    let (mut added, mut count) = (String::new(), 0);
    for server in changes(old, new) {
        let told = server.told(each);
        if count + told.len() > MOST_ADDED {
            kept.left_out += server.len();
            continue;
        }
        for change in told {
            cursor += 1;
            count += 1;
            match change.counts.values().sum::<usize>() {
                0 => kept.told += 1,
                more => kept.counted += more,
            }
            write_line(&mut added, cursor, date, &serde_json::to_value(change)?);
        }
    }
    let room = MOST_KEPT.saturating_sub(count);
    kept.dropped = before.lines().count().saturating_sub(room);
    let mut whole: String = before.lines().skip(kept.dropped).flat_map(|line| [line, "\n"]).collect();
    whole.push_str(&added);
    file::replace(log, whole.as_bytes())?;
    Ok(kept)
}

fn read(log: &Path) -> Result<String> {
    let mut text = String::new();
    match File::open(log).and_then(|file| file.take(LONGEST).read_to_string(&mut text)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot read `{}`", log.display()))
        }
        _ => Ok(text),
    }
}

fn number(line: &str) -> Option<u64> {
    serde_json::from_str::<Value>(line).ok()?.get("cursor")?.as_u64()
}

fn write_line(out: &mut String, cursor: u64, date: &str, change: &Value) {
    let mut line = serde_json::Map::from_iter([("cursor".to_owned(), cursor.into()), ("date".to_owned(), date.into())]);
    line.extend(change.as_object().cloned().unwrap_or_default());
    let _ = writeln!(out, "{}", Value::Object(line));
}
