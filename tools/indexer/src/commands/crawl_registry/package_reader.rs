//! Reads one package: selects a release file, unpacks its sources and extracts the tools.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read as _, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use data_encoding::HEXLOWER;
use gatelodge_catalogue::{
    ArchiveFormat, ArchiveLimits, ArchiveSkipReason, ExtractDecision, PackageFacts, PackageRegistry, PackageRelease,
    UnpackedArchive, derive_facts, unpack,
};
use gatelodge_indexer::{
    ReleaseFile, extract_javascript_tools, extract_python_tools, find_npm_file, find_pypi_file, is_python_input,
    uses_mcp,
};
use http::Uri;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::package_read_scheduler::PackageReadScheduler;
use super::package_selection::PackageSelectionEntry;
use super::registry_client::{FetchError, RegistryClient};
use super::source_cache::SourceCache;
use super::{crawl_output_files, registry_url};

const PYPI_PAGE_ACCEPT: &str = "application/vnd.pypi.simple.v1+json, text/html;q=0.5";
/// Maximum size of a package's registry page.
const MAX_PAGE_BYTES: usize = 24 << 20;
/// Maximum size of an archive.
const MAX_ARCHIVE_BYTES: usize = 160 << 20;

/// A registry and the resources needed to read packages from it.
pub struct RegistryContext {
    pub source: PackageRegistry,
    pub address: Uri,
    pub client: Arc<RegistryClient>,
    pub cache: Option<SourceCache>,
    pub scheduler: PackageReadScheduler,
    /// Lock held while a registry page is in memory, because some pages are as large as packages.
    pub page_lock: tokio::sync::Mutex<()>,
    pub output_folder: PathBuf,
}

/// Outcome of reading a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageOutcome {
    /// Tools were found.
    Tools,
    /// The line in the names file is not a package name.
    NotAName,
    /// The registry has no page for the package.
    NotFound,
    /// The package has no file in a known format.
    NoFiles,
    /// The archive has no sources.
    NoSources,
    /// The sources do not use MCP.
    NoMcp,
    /// The sources use MCP, but no tool was found.
    NoTools,
    /// Only part of the package could be read: the archive or its content exceeds a limit, or some sources or tools
    /// cannot be represented.
    TooLarge,
    /// The archive does not match the hash that the registry lists.
    WrongHash,
    /// The archive is corrupt or malicious, so only part of it could be read.
    Hostile,
    /// Fetching or reading the package failed. The next run tries again.
    Failed,
    /// The registry stopped answering. This outcome is not logged, so that the next run reads the package.
    #[serde(skip)]
    Unanswered,
}

/// One line of `done.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CrawlLogLine {
    /// The registry. Older versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PackageRegistry>,
    pub package: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version that was requested, or `None` for the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "asked")]
    pub requested_version: Option<String>,
    pub outcome: PackageOutcome,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tools: usize,
    /// Number of tools left out because their names are invalid or because the package has too many tools.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(rename = "odd_names")]
    pub unusable_names: usize,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<ArchiveSkipReason, usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "why")]
    pub reason: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Result of reading one package.
pub struct CrawledPackage {
    pub log_line: CrawlLogLine,
    pub facts: Option<PackageFacts>,
    pub definitions: Vec<crawl_output_files::TrainingToolDefinition>,
}

impl CrawledPackage {
    /// Returns the result for a line in the names file that is not a package name.
    pub fn invalid_name(source: PackageRegistry, line: String) -> Self {
        let (outcome, skipped) = (PackageOutcome::NotAName, BTreeMap::new());
        let (source, package) = (Some(source), line);
        let log_line = CrawlLogLine {
            source,
            package,
            version: None,
            requested_version: None,
            outcome,
            tools: 0,
            unusable_names: 0,
            skipped,
            reason: None,
        };
        Self { log_line, facts: None, definitions: Vec::new() }
    }
}

/// Reads a package. Every failure is reported as an outcome.
pub async fn read_package(index: &Arc<RegistryContext>, wanted: &PackageSelectionEntry) -> CrawledPackage {
    let (mut version, mut skipped, mut odd_names) = (None, BTreeMap::new(), 0);
    let done = async {
        let listed = fetch_release_file(index, wanted).await?;
        version = Some(listed.version.clone());
        let archive = fetch_archive(index, wanted, &listed).await?;
        let release = PackageRelease {
            source: index.source,
            package: wanted.name.clone(),
            version: listed.version,
            date: listed.date,
        };
        let own = index.clone();
        let unpack = move || archive.unpack_sources(&own);
        let size = |unpacked: &Result<UnpackedArchive, PackageFailure>| unpacked.as_ref().map_or(0, text_bytes);
        let read = move |unpacked: Result<UnpackedArchive, PackageFailure>| {
            let mut unpacked = unpacked?;
            let found = read_contents(&release, &mut unpacked);
            Ok((found, unpacked.skipped))
        };
        let broken = |error| (PackageOutcome::Failed, Some(format!("reading stopped unexpectedly: {error}")));
        let (found, left_out) = index.scheduler.run(unpack, size, read).await.map_err(broken)??;
        skipped = left_out;
        let found = found?;
        odd_names = found.unusable_names;
        // A part of the tools must not be published as all tools.
        if odd_names > 0 {
            return Err((PackageOutcome::TooLarge, Some(format!("{odd_names} of its tools cannot be represented"))));
        }
        Ok((found.facts, found.definitions))
    };
    let (outcome, why, facts, definitions) = match done.await {
        Ok((facts, definitions)) => (PackageOutcome::Tools, None, Some(facts), definitions),
        Err((outcome, why)) => (outcome, why, None, Vec::new()),
    };
    let tools = facts.as_ref().map_or(0, |facts| facts.tools.len());
    let (source, package, requested_version) = (Some(index.source), wanted.name.clone(), wanted.version.clone());
    let line = CrawlLogLine {
        source,
        package,
        version,
        requested_version,
        outcome,
        tools,
        unusable_names: odd_names,
        skipped,
        reason: why,
    };
    CrawledPackage { log_line: line, facts, definitions }
}

type PackageFailure = (PackageOutcome, Option<String>);

async fn fetch_release_file(
    index: &RegistryContext,
    wanted: &PackageSelectionEntry,
) -> Result<ReleaseFile, PackageFailure> {
    let address = registry_url::package_page_url(&index.address, index.source, &wanted.name)
        .ok_or((PackageOutcome::NotFound, None))?;
    let (accept, version) = match index.source {
        PackageRegistry::Pypi => (PYPI_PAGE_ACCEPT, wanted.version.as_deref()),
        PackageRegistry::Npm => ("application/json", wanted.version.as_deref()),
    };
    let (mut file, _) = index
        .client
        .fetch_file(&address, accept, MAX_PAGE_BYTES, || create_temporary_file(index))
        .await
        .map_err(fetch_failure)?;
    let _turn = index.page_lock.lock().await;
    let mut page = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut page));
    read.map_err(|error| (PackageOutcome::Failed, Some(format!("cannot read the registry page: {error}"))))?;
    let listed = match index.source {
        PackageRegistry::Pypi => find_pypi_file(&page, &wanted.name, version),
        PackageRegistry::Npm => find_npm_file(&page, version),
    };
    let mut listed = listed.ok_or((PackageOutcome::NoFiles, None))?;
    let whole = registry_url::resolve_url(&address, &listed.address).ok_or((PackageOutcome::NoFiles, None))?;
    listed.address = whole.to_string();
    Ok(listed)
}

fn fetch_failure(error: FetchError) -> PackageFailure {
    match error {
        FetchError::NotFound => (PackageOutcome::NotFound, None),
        FetchError::TooLarge => (PackageOutcome::TooLarge, None),
        FetchError::Unresponsive(why) => (PackageOutcome::Unanswered, Some(why)),
        error => (PackageOutcome::Failed, Some(error.to_string())),
    }
}

/// A package's archive. `file` is `None` if the archive's sources are already in the cache.
struct PackageArchive {
    cache_key: String,
    format: ArchiveFormat,
    file: Option<File>,
}

async fn fetch_archive(
    index: &RegistryContext,
    wanted: &PackageSelectionEntry,
    listed: &ReleaseFile,
) -> Result<PackageArchive, PackageFailure> {
    // Without a hash, the URL identifies the content.
    let other = listed.sha512.as_ref().unwrap_or(&listed.address);
    let key = listed.sha256.clone().unwrap_or_else(|| HEXLOWER.encode(&Sha256::digest(other.as_bytes())));
    let form = listed.format;
    if index.cache.as_ref().is_some_and(|cache| cache.contains(&key)) {
        return Ok(PackageArchive { cache_key: key, format: form, file: None });
    }
    let address: Uri = listed.address.parse().map_err(|_| (PackageOutcome::NoFiles, None))?;
    let (file, came) = index
        .client
        .fetch_file(&address, "*/*", MAX_ARCHIVE_BYTES, || create_temporary_file(index))
        .await
        .map_err(fetch_failure)?;
    let is_other = listed.sha256.as_ref().is_some_and(|expected| !expected.eq_ignore_ascii_case(&came.sha256))
        || listed.sha512.as_ref().is_some_and(|expected| *expected != came.sha512);
    if is_other {
        return Err((PackageOutcome::WrongHash, Some(format!("`{}` has the hash {}", wanted.name, came.sha256))));
    }
    Ok(PackageArchive { cache_key: key, format: form, file: Some(file) })
}

impl PackageArchive {
    /// Returns the package's source files, from the cache if possible.
    fn unpack_sources(&self, index: &RegistryContext) -> Result<UnpackedArchive, PackageFailure> {
        let failed = |why: &str| (PackageOutcome::Failed, Some(why.to_owned()));
        // A large package is unpacked twice. The first time puts it into the cache.
        if let Some(cached) = index.cache.as_ref().and_then(|cache| cache.get(&self.cache_key)) {
            return Ok(cached);
        }
        let file = self.file.as_ref().ok_or_else(|| failed("its cache entry was corrupt and has been removed"))?;
        let (wanted, bounds): (fn(&str) -> ExtractDecision, _) = match index.source {
            PackageRegistry::Pypi => {
                (select_python_file, ArchiveLimits { max_file_bytes: 2 << 20, ..ArchiveLimits::default() })
            }
            PackageRegistry::Npm => (select_javascript_file, ArchiveLimits::default()),
        };
        let mut file = BufReader::new(file);
        file.rewind().map_err(|error| failed(&error.to_string()))?;
        let unpacked = unpack(file, self.format, &bounds, wanted);
        // Incomplete results are not cached: a later version may extract more.
        if let Some(cache) = index.cache.as_ref().filter(|_| unpacked.skipped.is_empty()) {
            cache.put(&self.cache_key, &unpacked);
        }
        Ok(unpacked)
    }
}

/// Returns the total size of the unpacked source files.
fn text_bytes(unpacked: &UnpackedArchive) -> usize {
    unpacked.files.values().map(String::len).sum()
}

/// Prefix of the names of temporary files. Each file is unlinked as soon as it has been created.
const TEMPORARY_FILE_PREFIX: &str = ".archive-";

/// Creates a temporary file that is already unlinked, so that nothing is left when the process ends.
fn create_temporary_file(index: &RegistryContext) -> std::io::Result<File> {
    static NEXT_FILE_NUMBER: AtomicU64 = AtomicU64::new(0);
    let path = index.output_folder.join(format!(
        "{TEMPORARY_FILE_PREFIX}{}-{}",
        std::process::id(),
        NEXT_FILE_NUMBER.fetch_add(1, Ordering::Relaxed)
    ));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Removes temporary files left by a run that was killed before it unlinked them.
pub fn remove_temporary_files(out: &Path) {
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY_FILE_PREFIX) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn select_python_file(path: &str) -> ExtractDecision {
    if is_python_input(path) { ExtractDecision::Extract } else { ExtractDecision::Skip }
}

fn select_javascript_file(path: &str) -> ExtractDecision {
    const SOURCE_EXTENSIONS: [&str; 8] = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx"];
    let name = path.rsplit('/').next().unwrap_or(path);
    if path.contains("/node_modules/") {
        return ExtractDecision::Skip;
    }
    // Other data files are skipped, whatever their size.
    let is_manifest = matches!(name, "package.json" | "manifest.json");
    match name.contains('.') {
        true if is_manifest || SOURCE_EXTENSIONS.iter().any(|end| name.ends_with(end)) => ExtractDecision::Extract,
        true => ExtractDecision::Skip,
        false => ExtractDecision::ExtractIfScript,
    }
}

/// A package's facts and tools.
struct PackageAnalysis {
    facts: PackageFacts,
    definitions: Vec<crawl_output_files::TrainingToolDefinition>,
    unusable_names: usize,
}

/// Returns the outcome for an archive that was only partly unpacked. An incomplete list of tools must not be published
/// as if it were complete.
fn find_incomplete_outcome(unpacked: &UnpackedArchive) -> Option<PackageOutcome> {
    let is_hostile = unpacked.skipped.keys().any(|skip| skip.is_hostile());
    let outcome = if is_hostile { PackageOutcome::Hostile } else { PackageOutcome::TooLarge };
    (!unpacked.skipped.is_empty()).then_some(outcome)
}

fn read_contents(release: &PackageRelease, unpacked: &mut UnpackedArchive) -> Result<PackageAnalysis, PackageFailure> {
    if let Some(outcome) = find_incomplete_outcome(unpacked) {
        return Err((outcome, None));
    }
    let files = unpacked.source_files();
    let gatelodge_indexer::ToolExtraction { mut tools, alternatives: others, unread_parts: passed_over } =
        match release.source {
            PackageRegistry::Pypi => extract_python_tools(&files),
            PackageRegistry::Npm => extract_javascript_tools(&files),
        };
    if passed_over > 0 {
        *unpacked.skipped.entry(ArchiveSkipReason::LargeTotal).or_default() += passed_over;
        return Err((PackageOutcome::TooLarge, None));
    }
    if tools.is_empty() {
        let speaks = match release.source {
            PackageRegistry::Pypi => uses_mcp(&files),
            PackageRegistry::Npm => files.iter().any(|file| file.text.contains("modelcontextprotocol")),
        };
        // Files that declare the entry points of a Python package are not sources.
        let is_source = |path: &str| release.source == PackageRegistry::Npm || path.ends_with(".py");
        let outcome = match (files.iter().any(|file| is_source(file.path)), speaks) {
            (false, _) => PackageOutcome::NoSources,
            (_, false) => PackageOutcome::NoMcp,
            _ => PackageOutcome::NoTools,
        };
        return Err((outcome, None));
    }
    let count = tools.len();
    tools.extend(others);
    let facts = derive_facts(release, &tools);
    tools.truncate(count);
    let odd_names = count - facts.tools.len();
    let published: HashSet<&str> = facts.tools.iter().map(|tool| tool.name.as_str()).collect();
    let definitions = tools.into_iter().filter(|tool| published.contains(tool.name.as_str()));
    let definitions = definitions.map(|tool| crawl_output_files::TrainingToolDefinition::of(release, tool)).collect();
    Ok(PackageAnalysis { facts, definitions, unusable_names: odd_names })
}
