//! Opens the package index and looks up packages in it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use gatelodge_admin::server_url;
use gatelodge_catalogue::{
    CHANGES_FILE, ConnectionAdvice, INDEX_FILE, IndexedServer, PackageIndex, PackageReference, PackageRegistry,
    PrecheckVerdict, ToolFacts, VersionComparison, index_hash, precheck,
};
use gatelodge_server::config;

use super::index_change_feed;
use crate::cli::{IndexSourceArgs, StoreArgs};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::store_command_context;

/// Opens the index given with `--index`, else the index in the data directory, else the built-in index.
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

/// Opens the index in the data directory, else the built-in index. Warns if the built-in index is newer.
pub fn open_installed(store: &StoreArgs) -> Result<PackageIndex> {
    let index = open_installed_quietly(store)?;
    warn_if_outdated(&index);
    Ok(index)
}

/// Like [`open_installed`], but without the warning, for callers that are about to replace the index.
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
            "`gatelodge catalogue update --from FILE` or `URL` installs another; if you remove the file, the built-in index is used";
        ExitError(CommandExitCode::InternalError, format!("`{}` cannot be used: {error} ({help})", path.display())).into()
    })
}

/// Warns if the built-in index is newer than the installed one. The installed index stays in use until the user runs
/// `catalogue update`, because it may contain private servers, and because the update records what has changed.
fn warn_if_outdated(index: &PackageIndex) {
    let own = PackageIndex::built_in_date().unwrap_or_default();
    if index.metadata().date < own {
        let date = &index.metadata().date;
        print_stderr(&format!(
            "the index in use is from {date}, and the built-in one from {own}: `gatelodge catalogue update --built-in` installs that one"
        ));
    }
}

fn open_built_in() -> Result<PackageIndex> {
    let opened = PackageIndex::open(PackageIndex::built_in());
    opened.map_err(|error| {
        ExitError(CommandExitCode::InternalError, format!("cannot use the built-in index: {error}")).into()
    })
}

/// Returns the data directory, or `None` if none is configured and there is no home directory.
fn data_directory(store: &StoreArgs) -> Result<Option<PathBuf>> {
    if store.config.is_none() && store.data.is_none() {
        return Ok(config::default_data_directory());
    }
    let config = store_command_context::load_config(store)?
        .map_err(|store_command_context::InvalidConfigError| store_command_context::invalid_config_error())?;
    Ok(Some(store_command_context::resolve_store_config(store, config.as_ref())?.data))
}

/// Returns the paths of the installed index and its change feed.
pub fn index_paths(store: &StoreArgs) -> Result<(PathBuf, PathBuf)> {
    let data = data_directory(store)?.ok_or_else(|| {
        UsageError("there is no home directory for the index; name a directory with `--data`".to_owned())
    })?;
    Ok((data.join(INDEX_FILE), data.join(CHANGES_FILE)))
}

/// Publishes the changes staged for the installed index. If that fails, they stay staged.
pub fn publish_staged_changes(index: &Path, log: &Path) {
    if let Ok(bytes) = read_index_file(index) {
        let _ = index_change_feed::publish_staged(log, &index_hash(&bytes));
    }
}

/// Reads an index file. At most one byte more than the maximum size is read, which is enough for the caller to detect
/// that a file is too large.
pub fn read_index_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(PackageIndex::MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Finds a package in the index. The error mentions an indexed package with a similar name, if there is one.
pub fn require_package<'i>(index: &'i PackageIndex, package: &str) -> Result<(PackageReference, IndexedServer<'i>)> {
    let named = PackageReference::read(package).ok_or_else(|| {
        let package = server_url::redact_url(package);
        UsageError(format!("`{package}` is not a package name; use `npm:@scope/name` or `pypi:name`"))
    })?;
    let server = index.find(named.source, &named.name).ok_or_else(|| {
        let alike = similar_package(index, &named)
            .map(|alike| format!(" ({alike} is a different package with a similar name)"));
        let (package, alike) = (escape_for_terminal(package), alike.unwrap_or_default());
        let help = "`gatelodge catalogue search` finds packages by parts of their names";
        ExitError(CommandExitCode::Findings, format!("`{package}` is not in the index{alike}; {help}"))
    })?;
    Ok((named, server))
}

/// Rates an indexed package. The result includes warnings about the package's version, its registry and known
/// incidents.
pub fn advise(
    index: &PackageIndex,
    named: &PackageReference,
    server: &IndexedServer<'_>,
    tools: &[ToolFacts],
) -> ConnectionAdvice {
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

/// Returns a warning if the version that the user named differs from the indexed version or cannot be compared with it.
pub fn version_mismatch(named: &PackageReference, server: &IndexedServer<'_>) -> Option<String> {
    let read = format!("the indexed version is {}", escape_for_terminal(server.version()));
    match named.compare_version(server.source(), server.version()) {
        VersionComparison::Same => None,
        VersionComparison::Different => {
            Some(format!("{read}, not {}", escape_for_terminal(named.version.as_deref().unwrap_or_default())))
        }
        VersionComparison::Unknown => Some(format!("{read}; the version you mean is not known")),
    }
}

/// Returns a warning if the user did not specify a registry and only one of npm and PyPI has an indexed package with
/// this name. The user may mean a package with the same name in the other registry.
fn single_source_warning(index: &PackageIndex, named: &PackageReference, server: &IndexedServer<'_>) -> Option<String> {
    let is_unambiguous = named.source.is_some() || index.same_name_elsewhere(server).is_some();
    let (own, other) = match server.source() {
        PackageRegistry::Pypi => (PackageRegistry::Pypi, PackageRegistry::Npm),
        PackageRegistry::Npm => (PackageRegistry::Npm, PackageRegistry::Pypi),
    };
    (!is_unambiguous).then(|| {
        let (own, other, name) = (own.as_str(), other.as_str(), escape_for_terminal(&named.name));
        format!(
            "this is the {own} package; a `{name}` on {other} is not indexed: write `{own}:{name}` if you mean this one"
        )
    })
}

/// Returns a warning if the user did not specify a registry and the index has packages with this name from both npm and
/// PyPI.
pub fn ambiguous_source_warning(
    index: &PackageIndex,
    named: &PackageReference,
    server: &IndexedServer<'_>,
) -> Option<String> {
    let other = index.same_name_elsewhere(server).filter(|_| named.source.is_none())?;
    let name =
        |server: &IndexedServer<'_>| format!("{}:{}", server.source().as_str(), escape_for_terminal(server.package()));
    Some(format!("there is `{}` as well; this is the riskier one, `{}`: name the source", name(&other), name(server)))
}

/// Rates a package that is not in the index.
pub fn advise_unknown(index: &PackageIndex, named: &PackageReference) -> ConnectionAdvice {
    let advice = ConnectionAdvice::unknown("it is not in the index, so its tools are not known");
    let mut advice = advice.with_incidents(&named.incidents(None));
    advice.reasons.extend(similar_package(index, named).map(|alike| {
        format!("{alike} has a similar name: it is a different package, perhaps by a different author, and not a suggested replacement")
    }));
    advice
}

/// Finds an indexed package whose name differs from `named` by one or two typos, and formats it with its registry and
/// version.
fn similar_package(index: &PackageIndex, named: &PackageReference) -> Option<String> {
    /// Minimum length of names to compare. In a shorter name, changing one letter often gives a different word.
    const MIN_NAME_LENGTH: usize = 6;
    /// Minimum length of a name for which two differences still count as typos.
    const LONG_NAME_LENGTH: usize = 14;
    let (scope, name) = split_scope(&named.name);
    let max_distance = if name.len() >= LONG_NAME_LENGTH { 2 } else { 1 };
    let servers = index.servers().filter(|own| named.source.is_none_or(|source| source == own.source()));
    let alike = servers.filter_map(|server| {
        let (own_scope, own) = split_scope(server.package());
        let fits = own_scope == scope
            && own.len().min(name.len()) >= MIN_NAME_LENGTH
            && own.len().abs_diff(name.len()) <= max_distance;
        let distance = fits.then(|| strsim::osa_distance(own, name)).filter(|distance| *distance <= max_distance)?;
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

/// Splits a package name such as `@scope/name` into its scope and the rest.
fn split_scope(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}
