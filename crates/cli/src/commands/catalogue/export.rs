//! `catalogue export`: the static site.

mod progress;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gatelodge_catalogue::{Change, IndexedServer, Page, Site};
use serde_json::Value;

use super::open;
use crate::cli::{SiteArgs, StoreArgs};
use crate::exit::{Exit, Usage};
use crate::report::say;
use progress::Progress;

pub fn run(args: &SiteArgs) -> Result<Exit> {
    let index = open::index(&args.from)?;
    let servers: Vec<IndexedServer<'_>> = match args.server.as_slice() {
        [] => index.servers().collect(),
        named => named.iter().map(|name| open::server(&index, name)).collect::<Result<_>>()?,
    };
    make_empty(&args.out)?;
    let site = Site::new(&index, servers).with_history(history(&args.from.store));
    let mut progress = Progress::new("files", site.file_count());
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    site.write(|page| {
        put(&args.out, &page, &mut folders)?;
        progress.step();
        Ok::<(), anyhow::Error>(())
    })?;
    say(&format!("wrote {} to `{}`; open `index.html` in it", progress.end(), args.out.display()));
    Ok(Exit::Fine)
}

/// The changes that updates left behind, as far as they can be read.
fn history(store: &StoreArgs) -> Vec<(String, Change)> {
    let Ok((_, log)) = open::places(store) else { return Vec::new() };
    let text = fs::read_to_string(log).unwrap_or_default();
    let read = |line: &str| {
        let change: Value = serde_json::from_str(line).ok()?;
        let date = change.get("date")?.as_str()?.to_owned();
        Some((date, serde_json::from_value(change).ok()?))
    };
    text.lines().filter_map(read).collect()
}

/// Makes the folder. What is in it already may be somebody's work.
fn make_empty(folder: &Path) -> Result<()> {
    let shown = folder.display();
    fs::create_dir_all(folder).map_err(|error| Usage(format!("cannot make `{shown}`: {error}")))?;
    let mut inside = fs::read_dir(folder).map_err(|error| Usage(format!("cannot read `{shown}`: {error}")))?;
    match inside.next() {
        Some(_) => Err(Usage(format!("`{shown}` is not empty; name another folder, or remove what is in it")).into()),
        None => Ok(()),
    }
}

fn put(root: &Path, page: &Page, folders: &mut BTreeSet<PathBuf>) -> Result<()> {
    let path = root.join(&page.path);
    if let Some(folder) = path.parent()
        && !folders.contains(folder)
    {
        fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        folders.insert(folder.to_owned());
    }
    fs::write(&path, &page.text)
        .with_context(|| format!("cannot write `{}`; what is there is not whole", path.display()))
}
