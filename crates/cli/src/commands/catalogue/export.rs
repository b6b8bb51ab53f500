//! `catalogue export`: the static site.

mod progress;

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gatelodge_catalogue::{Change, Index, IndexedServer, Page, Site};
use serde_json::Value;

use super::{feed, open};
use crate::cli::{FromArgs, SiteArgs};
use crate::exit::{Exit, Usage};
use crate::report::{say, shown};
use progress::Progress;

pub fn run(args: &SiteArgs) -> Result<Exit> {
    let index = open::index(&args.from)?;
    let mut servers: Vec<IndexedServer<'_>> = match args.server.as_slice() {
        [] => index.servers().collect(),
        named => named.iter().map(|name| of_version(&index, name)).collect::<Result<_>>()?,
    };
    // One may be named in several spellings.
    let mut taken = HashSet::new();
    servers.retain(|own| taken.insert((own.source(), own.package().to_owned())));
    let site = Site::new(&index, servers).with_history(history(&args.from)?);
    make_empty(&args.out)?;
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

/// A server that was named; that another version of it was named is told.
fn of_version<'i>(index: &'i Index, name: &str) -> Result<IndexedServer<'i>> {
    let (named, server) = open::server(index, name)?;
    open::unread(&named, &server).iter().for_each(|unread| say(&format!("`{}`: {unread}", shown(name))));
    Ok(server)
}

/// The changes that updates left behind. They are those of the index in use, not of one that was named.
fn history(from: &FromArgs) -> Result<Vec<(String, Change)>> {
    let lines: Vec<String> = match open::places(&from.store) {
        Ok((index, log)) if from.index.is_none() => {
            open::settle(&index, &log);
            feed::lines(&log)
                .and_then(Iterator::collect)
                .with_context(|| format!("cannot read the changes in `{}`", log.display()))?
        }
        _ => Vec::new(),
    };
    let read = |line: &String| {
        let change: Value = serde_json::from_str(line).ok()?;
        let date = change.get("date")?.as_str()?.to_owned();
        Some((date, serde_json::from_value(change).ok()?))
    };
    Ok(lines.iter().filter_map(read).collect())
}

/// Makes the folder. What is in it already may be somebody's work.
fn make_empty(folder: &Path) -> Result<()> {
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{shown}`"))?;
    let mut inside = fs::read_dir(folder).with_context(|| format!("cannot read `{shown}`"))?;
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
