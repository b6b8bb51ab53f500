//! Schedules packages for reading: small ones in parallel, large ones one after another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, anyhow};
use tokio::sync::{Semaphore, oneshot};

/// A package whose sources are larger than this counts as large. Reading it takes about forty times as much memory as
/// its sources.
const MAX_SMALL_PACKAGE_BYTES: usize = 1 << 20;
/// A package whose sources are larger than this is not read at the same time as any other package.
const MAX_CONCURRENT_PACKAGE_BYTES: usize = 4 << 20;

type ReadJob = Box<dyn FnOnce() + Send>;

/// Limits how many packages are in memory at once.
pub struct PackageReadScheduler {
    /// Permits for keeping the sources of a package in memory.
    permits: Semaphore,
    permit_count: u32,
    /// Queue of the single thread for large packages. With one thread, the memory that one package frees is reused for
    /// the next.
    large_package_queue: Mutex<Sender<ReadJob>>,
}

impl PackageReadScheduler {
    pub fn new(places: usize) -> Result<Self> {
        let (large, jobs) = channel::<ReadJob>();
        thread::Builder::new()
            .name("large packages".to_owned())
            // A panic drops the job's sender, which its receiver notices.
            .spawn(move || jobs.into_iter().for_each(|job| drop(catch_unwind(AssertUnwindSafe(job)))))
            .context("cannot start a thread")?;
        Ok(Self {
            permits: Semaphore::new(places),
            permit_count: places as u32,
            large_package_queue: Mutex::new(large),
        })
    }

    /// Unpacks a package and then reads it, waiting for a permit before each step. A large package is unpacked a second
    /// time when its turn comes, so that waiting packages do not occupy memory.
    pub async fn run<U, T>(
        &self,
        unpack: impl Fn() -> U + Send + 'static,
        size: impl FnOnce(&U) -> usize + Send + 'static,
        read: impl FnOnce(U) -> T + Send + 'static,
    ) -> Result<T>
    where
        U: Send + 'static,
        T: Send + 'static,
    {
        // Sources are in memory only while a permit is held.
        let permit = self.permits.acquire().await?;
        let work = move || {
            let unpacked = unpack();
            let size = size(&unpacked);
            if size <= MAX_SMALL_PACKAGE_BYTES {
                return Ok(read(unpacked));
            }
            Err(((size <= MAX_CONCURRENT_PACKAGE_BYTES).then_some(unpacked), unpack, read))
        };
        let (unpacked, unpack, read) = match tokio::task::spawn_blocking(work).await? {
            Ok(done) => return Ok(done),
            Err(large) => large,
        };
        let _permits = match unpacked {
            Some(_) => permit,
            None => {
                drop(permit);
                self.permits.acquire_many(self.permit_count).await?
            }
        };
        let (sender, receiver) = oneshot::channel();
        let job: ReadJob = Box::new(move || drop(sender.send(read(unpacked.unwrap_or_else(unpack)))));
        let sent = self.large_package_queue.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        sent.map_err(|_| anyhow!("the thread for large packages has ended"))?;
        Ok(receiver.await?)
    }
}
