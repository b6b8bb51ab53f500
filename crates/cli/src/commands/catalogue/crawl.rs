//! `catalogue crawl`: reads published packages, without running them, into facts.

mod address;
mod cache;
mod fetch;
mod journal;
mod names;
mod package;
mod progress;
mod turns;

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use gatelodge_catalogue::Source;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

use crate::cli::{CrawlArgs, CrawlCommand};
use crate::exit::{Exit, Usage};
use cache::Cache;
use fetch::Fetcher;
use journal::Journal;
use names::Wanted;
use package::Index;
use progress::Progress;
use turns::Turns;

/// No more packages are read at once, however many cores there are: each thread keeps memory of its own.
const MOST_READERS: usize = 4;

pub fn run(command: CrawlCommand) -> Result<Exit> {
    match command {
        CrawlCommand::Pypi { only, common } => wait(crawl(Source::Pypi, only, common)),
        CrawlCommand::Npm { common } => wait(crawl(Source::Npm, Vec::new(), common)),
    }
}

/// How many packages are read at once.
fn readers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_READERS))
}

fn wait(work: impl Future<Output = Result<Exit>>) -> Result<Exit> {
    // Large packages have a thread of their own.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(readers() + 1).build()?;
    runtime.block_on(LocalSet::new().run_until(work))
}

async fn crawl(source: Source, only: Vec<String>, args: CrawlArgs) -> Result<Exit> {
    if source == Source::Npm && args.names.is_none() {
        return Err(Usage("npm has no list of all its packages; name them with `--names FILE`".to_owned()).into());
    }
    let index = address::index(source, args.index.as_deref())?;
    let fetcher = Arc::new(Fetcher::new(&index)?);
    let names::Asked { packages: wanted, not_names } =
        names::wanted(source, &fetcher, &index, args.names.as_deref(), &only).await?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make `{}`", args.out.display()))?;
    let mut journal = Journal::open(&args.out, source, args.definitions.as_deref())?;
    for line in not_names.into_iter().filter(|line| !journal.is_done(line)).collect::<Vec<_>>() {
        journal.write(&package::Read::not_a_name(line))?;
    }
    let left: Vec<Wanted> = wanted.iter().filter(|wanted| !journal.is_done(&wanted.name)).cloned().collect();
    let progress = Progress::start(wanted.len(), wanted.len() - left.len());
    let cache = args.cache.as_deref().map(|folder| Cache::open(folder, args.cache_limit)).transpose()?;
    let index =
        Arc::new(Index { source, address: index, fetcher, cache, turns: Turns::new(readers())?, out: args.out });
    let shared = Arc::new(Shared { queue: Mutex::new(left.into_iter()), writing: Mutex::new((journal, progress)) });
    let mut workers = JoinSet::new();
    for _ in 0..args.connections.get() {
        workers.spawn_local(work(index.clone(), shared.clone()));
    }
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker broke off")??;
    }
    let writing = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
    let (journal, progress) = &*writing;
    progress.end();
    journal.finish()?;
    Ok(Exit::Fine)
}

/// What all workers share.
struct Shared {
    queue: Mutex<std::vec::IntoIter<Wanted>>,
    writing: Mutex<(Journal, Progress)>,
}

async fn work(index: Arc<Index>, shared: Arc<Shared>) -> Result<()> {
    loop {
        let next = shared.queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(wanted) = next else { return Ok(()) };
        let read = package::read(&index, &wanted).await;
        let mut writing = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (journal, progress) = &mut *writing;
        journal.write(&read)?;
        progress.count(&read.line);
    }
}
