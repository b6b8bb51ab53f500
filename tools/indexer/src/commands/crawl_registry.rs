//! `crawl`: reads published packages, without running them, and writes facts about them.

mod crawl_output_files;
mod crawl_progress_bar;
pub mod package_read_scheduler;
pub mod package_reader;
pub mod package_selection;
pub mod registry_client;
pub mod registry_url;
mod source_cache;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result};
use gatelodge_catalogue::PackageRegistry;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

use crate::cli::{CrawlArgs, CrawlSubcommand};
use crate::exit::{IndexerExitCode, IndexerUsageError, RegistryUnreachableError};
use crate::process_environment;
use crawl_output_files::CrawlOutputFiles;
use crawl_progress_bar::CrawlProgressBar;
use package_read_scheduler::PackageReadScheduler;
use package_reader::{PackageOutcome, RegistryContext};
use package_selection::PackageSelectionEntry;
use registry_client::RegistryClient;
use source_cache::SourceCache;

/// Maximum number of packages read at once. It does not depend on the number of cores, because every additional thread
/// uses more memory.
const MAX_CONCURRENT_READS: usize = 4;
/// The crawl stops after this many consecutive failures, because the registry appears to refuse all requests.
const MAX_CONSECUTIVE_FAILURES: usize = 20;

pub fn run(command: CrawlSubcommand) -> Result<IndexerExitCode> {
    // Each package is read on its own thread. With one malloc arena per thread, memory that one thread frees is not
    // reused by the next: a third of the process's memory. glibc reads the variable only at start.
    process_environment::reexec_with_variable("MALLOC_ARENA_MAX", "1");
    match command {
        CrawlSubcommand::Pypi { only, common } => block_on(crawl_packages(PackageRegistry::Pypi, only, common)),
        CrawlSubcommand::Npm { common } => block_on(crawl_packages(PackageRegistry::Npm, Vec::new(), common)),
    }
}

/// Returns the number of packages to read at once.
fn concurrent_reads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_CONCURRENT_READS))
}

pub fn block_on(work: impl Future<Output = Result<IndexerExitCode>>) -> Result<IndexerExitCode> {
    // One more thread is for large packages.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(concurrent_reads() + 1).build()?;
    runtime.block_on(LocalSet::new().run_until(work))
}

async fn crawl_packages(source: PackageRegistry, only: Vec<String>, args: CrawlArgs) -> Result<IndexerExitCode> {
    if source == PackageRegistry::Npm && args.names.is_none() {
        return Err(
            IndexerUsageError("npm has no list of all its packages; name them with `--names FILE`".to_owned()).into()
        );
    }
    let index = registry_url::registry_url(source, args.index.as_deref())?;
    let fetcher = Arc::new(RegistryClient::new(&index, args.connections.into())?);
    let package_selection::PackageSelection { packages: wanted, invalid_lines: not_names } =
        package_selection::select_packages(source, &fetcher, &index, args.names.as_deref(), &only).await?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot create `{}`", args.out.display()))?;
    let mut journal = CrawlOutputFiles::open(&args.out, source, args.definitions.as_deref())?;
    package_reader::remove_temporary_files(&args.out);
    for line in not_names {
        let wanted = PackageSelectionEntry { name: line, version: None };
        if !journal.is_done(&wanted) {
            journal.append(&package_reader::CrawledPackage::invalid_name(source, wanted.name))?;
        }
    }
    let left: Vec<PackageSelectionEntry> = wanted.iter().filter(|wanted| !journal.is_done(wanted)).cloned().collect();
    let progress = CrawlProgressBar::start(wanted.len(), wanted.len() - left.len());
    let cache = args.cache.as_deref().map(|folder| SourceCache::open(folder, args.cache_limit)).transpose()?;
    let (turns, page) = (PackageReadScheduler::new(concurrent_reads())?, tokio::sync::Mutex::default());
    let index = Arc::new(RegistryContext {
        source,
        address: index,
        client: fetcher,
        cache,
        scheduler: turns,
        page_lock: page,
        output_folder: args.out,
    });
    let left_count = left.len();
    let writing = Mutex::new(CrawlOutput { log: journal, progress, consecutive_failures: 0, read_count: 0 });
    let shared = Arc::new(CrawlWorkerContext {
        queue: Mutex::new(left.into_iter()),
        output: writing,
        stop_reason: OnceLock::new(),
    });
    let mut workers = JoinSet::new();
    for _ in 0..args.connections {
        workers.spawn_local(run_worker(index.clone(), shared.clone()));
    }
    let ticking = tokio::task::spawn_local(report_periodically(shared.clone()));
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker stopped unexpectedly")??;
    }
    ticking.abort();
    let writing = shared.output.lock().unwrap_or_else(PoisonError::into_inner);
    writing.progress.finish();
    writing.log.finish()?;
    if let Some(why) = shared.stop_reason.get() {
        return Err(RegistryUnreachableError(format!(
            "{why}; finished packages are kept, run the same command again to continue"
        ))
        .into());
    }
    if left_count > 0 && writing.read_count == 0 {
        let what = format!(
            "the index did not answer for any of the {left_count} packages; run the same command again to retry them"
        );
        return Err(RegistryUnreachableError(what).into());
    }
    Ok(IndexerExitCode::Fine)
}

/// State shared by all workers.
struct CrawlWorkerContext {
    queue: Mutex<std::vec::IntoIter<PackageSelectionEntry>>,
    output: Mutex<CrawlOutput>,
    /// Why the crawl stopped early.
    stop_reason: OnceLock<String>,
}

/// Output files and progress.
struct CrawlOutput {
    log: CrawlOutputFiles,
    progress: CrawlProgressBar,
    /// Number of consecutive failures, not counting packages that had already failed in an earlier run.
    consecutive_failures: usize,
    /// Number of packages read.
    read_count: usize,
}

async fn run_worker(index: Arc<RegistryContext>, shared: Arc<CrawlWorkerContext>) -> Result<()> {
    loop {
        let next = shared.queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(wanted) = next.filter(|_| shared.stop_reason.get().is_none()) else { return Ok(()) };
        let read = package_reader::read_package(&index, &wanted).await;
        let why = || read.log_line.reason.clone().unwrap_or_default();
        if read.log_line.outcome == PackageOutcome::Unanswered {
            shared.stop_reason.get_or_init(|| format!("the index does not answer: {}", why()));
            return Ok(());
        }
        let mut writing = shared.output.lock().unwrap_or_else(PoisonError::into_inner);
        let has_failed = writing.log.has_failed(&wanted);
        writing.log.append(&read)?;
        writing.progress.add_package(&read.log_line);
        if read.log_line.outcome != PackageOutcome::Failed {
            (writing.consecutive_failures, writing.read_count) = (0, writing.read_count + 1);
            continue;
        }
        // Failures of earlier runs do not count: otherwise every run would stop at the same packages again.
        writing.consecutive_failures += usize::from(!has_failed);
        if writing.consecutive_failures >= MAX_CONSECUTIVE_FAILURES {
            shared.stop_reason.get_or_init(|| {
                format!("{MAX_CONSECUTIVE_FAILURES} packages in a row could not be read, the last: {}", why())
            });
        }
    }
}

/// Prints the progress periodically, even while no package finishes.
async fn report_periodically(shared: Arc<CrawlWorkerContext>) {
    loop {
        let pause = shared.output.lock().unwrap_or_else(PoisonError::into_inner).progress.report_interval();
        tokio::time::sleep(pause).await;
        shared.output.lock().unwrap_or_else(PoisonError::into_inner).progress.report_if_due();
    }
}
