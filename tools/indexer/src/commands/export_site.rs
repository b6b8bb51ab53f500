//! `export`: writes the static site.

mod export_progress_bar;

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gatelodge_catalogue::{IndexedServer, PackageIndex, PackageReference, SiteFile, StaticSite, VersionComparison};

use crate::cli::ExportSiteArgs;
use crate::console_output::{say, shown};
use crate::exit::{IndexerError, IndexerExitCode, IndexerUsageError};
use crate::installed_index;
use export_progress_bar::ExportProgressBar;

pub fn run(args: &ExportSiteArgs) -> Result<IndexerExitCode> {
    let index = installed_index::open_index(&args.source)?;
    let mut servers: Vec<IndexedServer<'_>> = match args.server.as_slice() {
        [] => index.servers().collect(),
        named => named.iter().map(|name| require_server(&index, name)).collect::<Result<_>>()?,
    };
    // A server may be named several times in different spellings.
    let mut taken = HashSet::new();
    servers.retain(|own| taken.insert((own.source(), own.package().to_owned())));
    let site = StaticSite::new(&index, servers).with_history(installed_index::changes(&args.source)?);
    create_empty_folder(&args.out)?;
    let mut progress = ExportProgressBar::new("files", site.file_count());
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    site.write(|page| {
        write_file(&args.out, &page, &mut folders)?;
        progress.advance();
        Ok::<(), anyhow::Error>(())
    })?;
    say(&format!("wrote {} to `{}`; open `index.html` in it", progress.finish(), args.out.display()));
    Ok(IndexerExitCode::Fine)
}

/// Finds a server in the index by package name, and warns if the index describes a different version.
fn require_server<'i>(index: &'i PackageIndex, package: &str) -> Result<IndexedServer<'i>> {
    // The argument is not repeated: it may be a URL that contains a secret.
    let named = PackageReference::read(package).ok_or_else(|| {
        IndexerUsageError("`--server` takes a package name, such as `npm:@scope/name` or `pypi:name`".to_owned())
    })?;
    let server = index.find(named.source, &named.name).ok_or_else(|| {
        let help = "`gatelodge catalogue search` finds packages by parts of their names";
        IndexerError(IndexerExitCode::Findings, format!("`{}` is not in the index; {help}", shown(package)))
    })?;
    let read = format!("`{}`: the index has read version {}", shown(package), shown(server.version()));
    match named.compare_version(server.source(), server.version()) {
        VersionComparison::Same => {}
        VersionComparison::Different => {
            say(&format!("{read}, not {}", shown(named.version.as_deref().unwrap_or_default())))
        }
        VersionComparison::Unknown => say(&format!("{read}; whether that is the requested version is unknown")),
    }
    Ok(server)
}

/// Creates the folder. An existing folder must be empty, so that none of the user's files are overwritten.
fn create_empty_folder(folder: &Path) -> Result<()> {
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("cannot create `{shown}`"))?;
    let mut inside = fs::read_dir(folder).with_context(|| format!("cannot read `{shown}`"))?;
    match inside.next() {
        Some(_) => {
            Err(IndexerUsageError(format!("`{shown}` is not empty; use another folder, or empty this one")).into())
        }
        None => Ok(()),
    }
}

fn write_file(root: &Path, page: &SiteFile, folders: &mut BTreeSet<PathBuf>) -> Result<()> {
    let path = root.join(&page.path);
    if let Some(folder) = path.parent()
        && !folders.contains(folder)
    {
        fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        folders.insert(folder.to_owned());
    }
    fs::write(&path, &page.text).with_context(|| format!("cannot write `{}`; the site is incomplete", path.display()))
}
