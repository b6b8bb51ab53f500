//! `catalogue update`: a newer index in place of the one in use.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use gatelodge_catalogue::{Change, Index, changes};
use serde_json::json;

use super::open;
use crate::cli::UpdateArgs;
use crate::exit::{Exit, Failed, Unreachable, Usage};
use crate::report::say;
use crate::{address, client, desk, file, output};

/// A slow line brings eight megabytes in this time.
const TIME: Duration = Duration::from_secs(300);
/// Changes that are kept; the oldest go first.
const MOST_CHANGES: usize = 100_000;

pub fn run(args: &UpdateArgs) -> Result<Exit> {
    let (place, log) = open::places(&args.store)?;
    let bytes = fetch(&args.from)?;
    let refused =
        |why: String| Failed(Exit::Findings, format!("`{}` {why}; the old index stays", address::shown(&args.from)));
    let new = Index::open(&bytes).map_err(|error| refused(format!("cannot be used: {error}")))?;
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    }
    // Held until the end: of two at once, the second compares with what the first has put there.
    let lock = place.with_extension("lock");
    let held = File::create(&lock).and_then(|file| file.lock().map(|()| file));
    let _held = held.with_context(|| format!("cannot lock `{}`", lock.display()))?;
    // One that cannot be read any more has nothing to compare with, and is what an update mends.
    let old = open::kept(&args.store).or_else(|_| Index::open(Index::BUILT_IN).map_err(anyhow::Error::from))?;
    let (before, after) = (old.about(), new.about());
    if after.date < before.date && !args.allow_older {
        let why = format!("is of {}, and the one in use of {}; `--allow-older` takes it", after.date, before.date);
        return Err(refused(why).into());
    }
    let changed = changes(&old, &new);
    // Events first: one that is told twice is better than one that is never told.
    keep(&log, &after.date, &changed)?;
    file::replace(&place, &bytes)?;
    let told = json!({"date": after.date, "servers": after.servers, "tools": after.tools, "changes": changed.len(),
        "before": {"date": before.date, "servers": before.servers, "tools": before.tools}});
    match args.json {
        true => output::json(&told)?,
        false => say(&format!(
            "in use: {} servers and {} tools of {}, before {} and {} of {}; {} tools changed",
            after.servers,
            after.tools,
            after.date,
            before.servers,
            before.tools,
            before.date,
            changed.len()
        )),
    }
    Ok(Exit::Fine)
}

fn fetch(from: &str) -> Result<Vec<u8>> {
    if !from.contains("://") {
        let read = open::read(Path::new(from));
        return read.map_err(|error| Usage(format!("cannot read `{}`: {error}", address::shown(from))).into());
    }
    let url = address::parse(from)
        .map_err(|error| Usage(format!("`{}` {}; {}", address::shown(from), error.message(), error.help())))?;
    desk::wait(async {
        let file = client::download(url, TIME, Index::MOST_FILE_BYTES).await;
        let file = file.map_err(|error| Unreachable(format!("cannot fetch the index: {error}; the old one stays")))?;
        Ok(file.to_vec())
    })
}

/// Adds changes to those that are kept. Each line has its number, which is the cursor of whoever reads them.
fn keep(log: &Path, date: &str, changes: &[Change]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let old = match std::fs::read_to_string(log) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", log.display())),
    };
    let number = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?.get("cursor")?.as_u64();
    let mut cursor = old.lines().filter_map(number).max().unwrap_or_default();
    let mut added = String::new();
    for change in changes {
        cursor += 1;
        let mut line = serde_json::to_value(change)?;
        if let serde_json::Value::Object(fields) = &mut line {
            fields.insert("cursor".to_owned(), cursor.into());
            fields.insert("date".to_owned(), date.into());
        }
        let _ = writeln!(added, "{line}");
    }
    let whole = format!("{old}{added}");
    let lines: Vec<&str> = whole.lines().collect();
    let last = lines.get(lines.len().saturating_sub(MOST_CHANGES)..).unwrap_or_default();
    file::replace(log, format!("{}\n", last.join("\n")).as_bytes())
}
