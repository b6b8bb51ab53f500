//! The index that is in use.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use gatelodge_catalogue::{Advice, Index, IndexedServer, PackageName, Precheck, Reading, Source, ToolFacts, precheck};

use crate::cli::{FromArgs, StoreArgs};
use crate::exit::{Exit, Failed, Usage};
use crate::report::shown;
use crate::{address, config, desk};

/// What the index is called in the data directory.
const FILE: &str = "index.glx";
/// What is kept of changes beside it.
const CHANGES: &str = "catalogue-changes.jsonl";

/// Opens the index: the one that was named, the one in the data directory, or the one that came with the program.
pub fn index(from: &FromArgs) -> Result<Index> {
    if let Some(path) = &from.index {
        let bytes = read(path).map_err(|error| Usage(format!("cannot read `{}`: {error}", path.display())))?;
        return Index::open(&bytes)
            .map_err(|error| Failed(Exit::Fault, format!("`{}` cannot be used: {error}", path.display())).into());
    }
    kept(&from.store)
}

/// The same without one that was named.
pub fn kept(store: &StoreArgs) -> Result<Index> {
    let Some(path) = place(store)?.map(|data| data.join(FILE)) else { return built_in() };
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return built_in(),
        Err(error) => return Err(Failed(Exit::Fault, format!("cannot read `{}`: {error}", path.display())).into()),
    };
    Index::open(&bytes).map_err(|error| {
        let help =
            "`gatelodge catalogue update` brings another; without the file, the one that came with the program is used";
        Failed(Exit::Fault, format!("`{}` cannot be used: {error} ({help})", path.display())).into()
    })
}

fn built_in() -> Result<Index> {
    let opened = Index::open(Index::built_in());
    opened.map_err(|error| Failed(Exit::Fault, format!("the index of the program cannot be used: {error}")).into())
}

/// The data directory; none where there is no home.
fn place(store: &StoreArgs) -> Result<Option<PathBuf>> {
    if store.config.is_none() && store.data.is_none() {
        return Ok(config::default_data());
    }
    let config = desk::configured(store)?.map_err(|desk::Faulty| desk::faulty())?;
    Ok(Some(desk::place(store, config.as_ref())?.data))
}

/// Where a newer index goes, and where changes are kept.
pub fn places(store: &StoreArgs) -> Result<(PathBuf, PathBuf)> {
    let data = place(store)?.ok_or_else(|| {
        Usage("there is no home directory to keep the index in; name a directory with `--data`".to_owned())
    })?;
    Ok((data.join(FILE), data.join(CHANGES)))
}

/// Reads a file, never more than an index may have and one byte.
pub fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(Index::MOST_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Finds a package that was named; an error says what is close to it.
pub fn server<'i>(index: &'i Index, package: &str) -> Result<(PackageName, IndexedServer<'i>)> {
    let named = PackageName::read(package).ok_or_else(|| {
        let package = address::shown(package);
        Usage(format!("`{package}` is no name of a package; say it as `npm:@scope/name` or `pypi:name`"))
    })?;
    let server = index.find(named.source, &named.name).ok_or_else(|| {
        let close = match close(index, &named.name) {
            Some(close) => format!("did you mean `{close}`?"),
            None => "`gatelodge catalogue search` looks for parts of names".to_owned(),
        };
        Failed(Exit::Findings, format!("`{}` is not in the index; {close}", shown(package)))
    })?;
    Ok((named, server))
}

/// Advice on a package as it was named, by the tools of the one that was found for it.
pub fn advise(index: &Index, named: &PackageName, server: &IndexedServer<'_>, tools: &[ToolFacts]) -> Precheck {
    let read = format!("the index has read version {}", shown(server.version()));
    let other = match named.compare(server.source(), server.version()) {
        Reading::Same => None,
        Reading::Other => Some(format!("{read}, not {}", shown(named.version.as_deref().unwrap_or_default()))),
        Reading::Unsure => Some(format!("{read}; whether that is the one that is meant cannot be told")),
    };
    let advice = precheck(tools);
    let mut advice = match other {
        Some(why) => advice.at_least(Advice::ConnectWithRule, why),
        None => advice,
    };
    if let Some(why) = alone(index, named, server) {
        advice = advice.at_least(Advice::ConnectWithRule, why);
    }
    advice.reasons.extend(doubt(index, named, server));
    advice
}

/// What is to be said where no source was named and one has a package of the name: the other may have one that nobody
/// has read, and that may be the one that is meant.
fn alone(index: &Index, named: &PackageName, server: &IndexedServer<'_>) -> Option<String> {
    let is_told = named.source.is_some() || named.version.is_some() || index.namesake(server).is_some();
    let (own, other) = match server.source() {
        Source::Pypi => (Source::Pypi, Source::Npm),
        Source::Npm => (Source::Npm, Source::Pypi),
    };
    (!is_told).then(|| {
        let (own, other, name) = (own.as_str(), other.as_str(), shown(&named.name));
        format!(
            "this is the one of {own}; of a `{name}` of {other} nothing is known: say `{own}:{name}` if it is meant"
        )
    })
}

/// What is to be said where no source was named and both have a package of the name.
pub fn doubt(index: &Index, named: &PackageName, server: &IndexedServer<'_>) -> Option<String> {
    let other = index.namesake(server).filter(|_| named.source.is_none())?;
    let name = |server: &IndexedServer<'_>| format!("{}:{}", server.source().as_str(), shown(server.package()));
    Some(format!(
        "there is `{}` as well; this is the riskier one, `{}`: say which is meant",
        name(&other),
        name(server)
    ))
}

/// The name in the index that is the closest to one that is not in it.
pub fn close(index: &Index, name: &str) -> Option<String> {
    /// Less alike is another name.
    const ALIKE: f64 = 0.88;
    let alike = index.servers().map(|server| (strsim::jaro_winkler(server.package(), name), server.package()));
    let best = alike.max_by(|one, other| one.0.total_cmp(&other.0));
    best.filter(|(alike, _)| *alike >= ALIKE).map(|(_, name)| name.to_owned())
}
