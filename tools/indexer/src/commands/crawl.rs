//! `crawl`: reads published packages, without running them, into facts.

mod cache;
mod crawl_log;
pub mod package_reader;
pub mod package_selection;
mod progress;
pub mod registry_client;
pub mod registry_url;
pub mod turns;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result};
use gatelodge_catalogue::PackageRegistry;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

use crate::cli::{CrawlArgs, CrawlCommand};
use crate::environment;
use crate::exit::{Exit, Unreachable, Usage};
use cache::Cache;
use crawl_log::CrawlLog;
use package_reader::{PackageOutcome, RegistryContext};
use package_selection::PackageRequest;
use progress::Progress;
use registry_client::RegistryClient;
use turns::Turns;

/// No more packages are read at once, however many cores there are: each thread keeps memory of its own.
const MOST_READERS: usize = 4;
/// An index that refuses so many packages in a row refuses all.
const MOST_FAILED: usize = 20;

pub fn run(command: CrawlCommand) -> Result<Exit> {
    // Each package is read on a thread of its own. Where threads have memory apart, what one gave back does not serve the
    // next, and stays with the program: a third of all it has. The allocator hears of it only at the start.
    environment::reexec_with_variable("MALLOC_ARENA_MAX", "1");
    match command {
        CrawlCommand::Pypi { only, common } => wait(crawl(PackageRegistry::Pypi, only, common)),
        CrawlCommand::Npm { common } => wait(crawl(PackageRegistry::Npm, Vec::new(), common)),
    }
}

/// How many packages are read at once.
fn readers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_READERS))
}

pub fn wait(work: impl Future<Output = Result<Exit>>) -> Result<Exit> {
    // Large packages have a thread of their own.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(readers() + 1).build()?;
    runtime.block_on(LocalSet::new().run_until(work))
}

async fn crawl(source: PackageRegistry, only: Vec<String>, args: CrawlArgs) -> Result<Exit> {
    if source == PackageRegistry::Npm && args.names.is_none() {
        return Err(Usage("npm has no list of all its packages; name them with `--names FILE`".to_owned()).into());
    }
    let index = registry_url::registry_url(source, args.index.as_deref())?;
    let fetcher = Arc::new(RegistryClient::new(&index, args.connections.into())?);
    let package_selection::PackageSelection { packages: wanted, invalid_lines: not_names } =
        package_selection::select_packages(source, &fetcher, &index, args.names.as_deref(), &only).await?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make `{}`", args.out.display()))?;
    let mut journal = CrawlLog::open(&args.out, source, args.definitions.as_deref())?;
    package_reader::remove_temporary_files(&args.out);
    for line in not_names {
        let wanted = PackageRequest { name: line, version: None };
        if !journal.is_done(&wanted) {
            journal.append(&package_reader::CrawledPackage::invalid_name(source, wanted.name))?;
        }
    }
    let left: Vec<PackageRequest> = wanted.iter().filter(|wanted| !journal.is_done(wanted)).cloned().collect();
    let progress = Progress::start(wanted.len(), wanted.len() - left.len());
    let cache = args.cache.as_deref().map(|folder| Cache::open(folder, args.cache_limit)).transpose()?;
    let (turns, page) = (Turns::new(readers())?, tokio::sync::Mutex::default());
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
    let writing = Mutex::new(Writing { journal, progress, failed: 0, answered: 0 });
    let shared = Arc::new(Shared { queue: Mutex::new(left.into_iter()), writing, ended: OnceLock::new() });
    let mut workers = JoinSet::new();
    for _ in 0..args.connections {
        workers.spawn_local(work(index.clone(), shared.clone()));
    }
    let ticking = tokio::task::spawn_local(tick(shared.clone()));
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker broke off")??;
    }
    ticking.abort();
    let writing = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
    writing.progress.end();
    writing.journal.finish()?;
    if let Some(why) = shared.ended.get() {
        return Err(
            Unreachable(format!("{why}; what was done stays, and the same command goes on with the rest")).into()
        );
    }
    if left_count > 0 && writing.answered == 0 {
        let what =
            format!("the index answered for none of the {left_count} packages; the same command tries them again");
        return Err(Unreachable(what).into());
    }
    Ok(Exit::Fine)
}

/// What all workers share.
struct Shared {
    queue: Mutex<std::vec::IntoIter<PackageRequest>>,
    writing: Mutex<Writing>,
    /// Why there is no more to do before all is done.
    ended: OnceLock<String>,
}

/// What is written, and how it goes.
struct Writing {
    journal: CrawlLog,
    progress: Progress,
    /// Packages in a row that could not be fetched or read, without those that an earlier run could not either.
    failed: usize,
    /// Packages that could.
    answered: usize,
}

async fn work(index: Arc<RegistryContext>, shared: Arc<Shared>) -> Result<()> {
    loop {
        let next = shared.queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(wanted) = next.filter(|_| shared.ended.get().is_none()) else { return Ok(()) };
        let read = package_reader::read_package(&index, &wanted).await;
        let why = || read.log_line.reason.clone().unwrap_or_default();
        if read.log_line.outcome == PackageOutcome::Unanswered {
            shared.ended.get_or_init(|| format!("the index does not answer: {}", why()));
            return Ok(());
        }
        let mut writing = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let has_failed = writing.journal.has_failed(&wanted);
        writing.journal.append(&read)?;
        writing.progress.count(&read.log_line);
        if read.log_line.outcome != PackageOutcome::Failed {
            (writing.failed, writing.answered) = (0, writing.answered + 1);
            continue;
        }
        // Else a run would end where the one before did, again and again.
        writing.failed += usize::from(!has_failed);
        if writing.failed >= MOST_FAILED {
            shared
                .ended
                .get_or_init(|| format!("{MOST_FAILED} packages in a row could not be read, the last: {}", why()));
        }
    }
}

/// Tells how far it is also while nothing gets done.
async fn tick(shared: Arc<Shared>) {
    loop {
        let pause = shared.writing.lock().unwrap_or_else(PoisonError::into_inner).progress.pause();
        tokio::time::sleep(pause).await;
        shared.writing.lock().unwrap_or_else(PoisonError::into_inner).progress.tick();
    }
}
