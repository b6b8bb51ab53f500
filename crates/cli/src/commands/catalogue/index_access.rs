//! The index that is in use.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use gatelodge_catalogue::{
    CHANGES_FILE, INDEX_FILE, IndexedServer, PackageIndex, PackageName, PackageRegistry, PrecheckResult,
    PrecheckVerdict, ToolFacts, VersionComparison, index_hash, precheck,
};

use super::index_change_feed;
use crate::cli::{IndexSourceArgs, StoreArgs};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::{admin_context, config, server_url};

/// Opens the index: the one that was named, the one in the data directory, or the one that came with the program.
pub fn open_index(from: &IndexSourceArgs) -> Result<PackageIndex> {
    if let Some(path) = &from.index {
        let bytes =
            read_index_file(path).map_err(|error| UsageError(format!("cannot read `{}`: {error}", path.display())))?;
        return PackageIndex::open(&bytes).map_err(|error| {
            ExitError(CommandExitCode::InternalError, format!("`{}` cannot be used: {error}", path.display())).into()
        });
    }
    open_installed(&from.store)
}

/// The same without one that was named. Whether the program came with a newer one is told.
pub fn open_installed(store: &StoreArgs) -> Result<PackageIndex> {
    let index = open_installed_quietly(store)?;
    warn_if_outdated(&index);
    Ok(index)
}

/// The same for who puts another in its place.
pub fn open_installed_quietly(store: &StoreArgs) -> Result<PackageIndex> {
    let Some(path) = data_directory(store)?.map(|data| data.join(INDEX_FILE)) else { return open_built_in() };
    let bytes = match read_index_file(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return open_built_in(),
        Err(error) => {
            return Err(ExitError(
                CommandExitCode::InternalError,
                format!("cannot read `{}`: {error}", path.display()),
            )
            .into());
        }
    };
    PackageIndex::open(&bytes).map_err(|error| {
        let help =
            "`gatelodge catalogue update --from FILE` or `URL` brings another; without the file, the one that came with the program is used";
        ExitError(CommandExitCode::InternalError, format!("`{}` cannot be used: {error} ({help})", path.display())).into()
    })
}

/// Says that the program came with a newer index than the one in use. That stays in use: somebody put it there, perhaps
/// with servers of their own, and an update keeps what changed between the two.
fn warn_if_outdated(index: &PackageIndex) {
    let own = PackageIndex::built_in_date().unwrap_or_default();
    if index.metadata().date < own {
        let of = &index.metadata().date;
        print_stderr(&format!(
            "the index in use is of {of}, and the one that came with the program of {own}: `gatelodge catalogue update --built-in` puts that in its place"
        ));
    }
}

fn open_built_in() -> Result<PackageIndex> {
    let opened = PackageIndex::open(PackageIndex::built_in());
    opened.map_err(|error| {
        ExitError(CommandExitCode::InternalError, format!("the index of the program cannot be used: {error}")).into()
    })
}

/// The data directory; none where there is no home.
fn data_directory(store: &StoreArgs) -> Result<Option<PathBuf>> {
    if store.config.is_none() && store.data.is_none() {
        return Ok(config::default_data_directory());
    }
    let config = admin_context::load_config(store)?
        .map_err(|admin_context::InvalidConfigError| admin_context::invalid_config_error())?;
    Ok(Some(admin_context::resolve_store_config(store, config.as_ref())?.data))
}

/// Where a newer index goes, and where changes are kept.
pub fn index_paths(store: &StoreArgs) -> Result<(PathBuf, PathBuf)> {
    let data = data_directory(store)?.ok_or_else(|| {
        UsageError("there is no home directory to keep the index in; name a directory with `--data`".to_owned())
    })?;
    Ok((data.join(INDEX_FILE), data.join(CHANGES_FILE)))
}

/// Tells the changes of the index in use that wait to be told. Where that fails, they go on waiting.
pub fn publish_staged_changes(index: &Path, log: &Path) {
    if let Ok(bytes) = read_index_file(index) {
        let _ = index_change_feed::publish_staged(log, &index_hash(&bytes));
    }
}

/// Reads a file, never more than an index may have and one byte.
pub fn read_index_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(PackageIndex::MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Finds a package that was named; an error says what is close to it.
pub fn require_package<'i>(index: &'i PackageIndex, package: &str) -> Result<(PackageName, IndexedServer<'i>)> {
    let named = PackageName::read(package).ok_or_else(|| {
        let package = server_url::redact_url(package);
        UsageError(format!("`{package}` is no name of a package; say it as `npm:@scope/name` or `pypi:name`"))
    })?;
    let server = index.find(named.source, &named.name).ok_or_else(|| {
        let alike = similar_package(index, &named)
            .map(|alike| format!(" ({alike}, which is another package, has a name like it)"));
        let (package, alike) = (escape_for_terminal(package), alike.unwrap_or_default());
        let help = "`gatelodge catalogue search` looks for parts of names";
        ExitError(CommandExitCode::Findings, format!("`{package}` is not in the index{alike}; {help}"))
    })?;
    Ok((named, server))
}

/// Advice on a package as it was named, by the tools of the one that was found for it.
pub fn advise(
    index: &PackageIndex,
    named: &PackageName,
    server: &IndexedServer<'_>,
    tools: &[ToolFacts],
) -> PrecheckResult {
    let advice = precheck(tools);
    let mut advice = match version_mismatch(named, server) {
        Some(why) => advice.at_least(PrecheckVerdict::ConnectWithRule, why),
        None => advice,
    };
    if let Some(why) = single_source_warning(index, named, server) {
        advice = advice.at_least(PrecheckVerdict::ConnectWithRule, why);
    }
    advice.reasons.extend(ambiguous_source_warning(index, named, server));
    advice.with_incidents(&named.incidents(Some(server)))
}

/// What is to be said where another version is named than was read, or it cannot be told which.
pub fn version_mismatch(named: &PackageName, server: &IndexedServer<'_>) -> Option<String> {
    let read = format!("the index has read version {}", escape_for_terminal(server.version()));
    match named.compare_version(server.source(), server.version()) {
        VersionComparison::Same => None,
        VersionComparison::Different => {
            Some(format!("{read}, not {}", escape_for_terminal(named.version.as_deref().unwrap_or_default())))
        }
        VersionComparison::Unknown => Some(format!("{read}; whether that is the one that is meant cannot be told")),
    }
}

/// What is to be said where no source was named and one has a package of the name: the other may have one that nobody
/// has read, and that may be the one that is meant.
fn single_source_warning(index: &PackageIndex, named: &PackageName, server: &IndexedServer<'_>) -> Option<String> {
    let is_told = named.source.is_some() || index.same_name_elsewhere(server).is_some();
    let (own, other) = match server.source() {
        PackageRegistry::Pypi => (PackageRegistry::Pypi, PackageRegistry::Npm),
        PackageRegistry::Npm => (PackageRegistry::Npm, PackageRegistry::Pypi),
    };
    (!is_told).then(|| {
        let (own, other, name) = (own.as_str(), other.as_str(), escape_for_terminal(&named.name));
        format!(
            "this is the one of {own}; of a `{name}` of {other} nothing is known: say `{own}:{name}` if it is meant"
        )
    })
}

/// What is to be said where no source was named and both have a package of the name.
pub fn ambiguous_source_warning(
    index: &PackageIndex,
    named: &PackageName,
    server: &IndexedServer<'_>,
) -> Option<String> {
    let other = index.same_name_elsewhere(server).filter(|_| named.source.is_none())?;
    let name =
        |server: &IndexedServer<'_>| format!("{}:{}", server.source().as_str(), escape_for_terminal(server.package()));
    Some(format!(
        "there is `{}` as well; this is the riskier one, `{}`: say which is meant",
        name(&other),
        name(server)
    ))
}

/// Advice on a package that is not in the index.
pub fn advise_unknown(index: &PackageIndex, named: &PackageName) -> PrecheckResult {
    let advice = PrecheckResult::unknown("it is not in the index, so nothing is known of its tools");
    let mut advice = advice.with_incidents(&named.incidents(None));
    advice.reasons.extend(similar_package(index, named).map(|alike| {
        format!("{alike} has a name like this one: it is another package, perhaps a stranger's, and not meant as a replacement")
    }));
    advice
}

/// A package of the index whose name could be mistaken for one that is not in it, with its source and the version that
/// was read. What differs by more than a slip of the hand is another name.
fn similar_package(index: &PackageIndex, named: &PackageName) -> Option<String> {
    /// In shorter names, one letter makes another word.
    const MIN_NAME_LENGTH: usize = 6;
    /// In longer ones, two letters may be a slip.
    const LONG_NAME_LENGTH: usize = 14;
    let (scope, name) = split_scope(&named.name);
    let most = if name.len() >= LONG_NAME_LENGTH { 2 } else { 1 };
    let servers = index.servers().filter(|own| named.source.is_none_or(|source| source == own.source()));
    let alike = servers.filter_map(|server| {
        let (own_scope, own) = split_scope(server.package());
        let fits = own_scope == scope
            && own.len().min(name.len()) >= MIN_NAME_LENGTH
            && own.len().abs_diff(name.len()) <= most;
        let distance = fits.then(|| strsim::osa_distance(own, name)).filter(|distance| *distance <= most)?;
        Some((distance, server))
    });
    let (_, server) = alike.min_by_key(|(distance, _)| *distance)?;
    Some(format!(
        "`{}:{}` {}",
        server.source().as_str(),
        escape_for_terminal(server.package()),
        escape_for_terminal(server.version())
    ))
}

/// The scope of a name, and what stands behind it.
fn split_scope(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}
