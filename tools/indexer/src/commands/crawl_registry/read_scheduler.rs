//! Whose turn it is to be read: as many packages at once as there are cores, as long as they are small.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, anyhow};
use tokio::sync::{Semaphore, oneshot};

/// A package with more text than this is large. Reading takes some forty times the text's memory.
const MAX_SMALL_PACKAGE_BYTES: usize = 1 << 20;
/// A package with more text than this is read while no other is.
const MAX_CONCURRENT_PACKAGE_BYTES: usize = 4 << 20;

type ReadJob = Box<dyn FnOnce() + Send>;

/// Who may read.
pub struct ReadScheduler {
    /// Places for unpacking and for small packages.
    permits: Semaphore,
    permit_count: u32,
    /// The one thread for large packages: memory that one of them took serves the next.
    large_package_queue: Mutex<Sender<ReadJob>>,
}

impl ReadScheduler {
    pub fn new(places: usize) -> Result<Self> {
        let (large, jobs) = channel::<ReadJob>();
        thread::Builder::new()
            .name("large packages".to_owned())
            // What breaks off one package is told by the silence of its job.
            .spawn(move || jobs.into_iter().for_each(|job| drop(catch_unwind(AssertUnwindSafe(job)))))
            .context("cannot start a thread")?;
        Ok(Self {
            permits: Semaphore::new(places),
            permit_count: places as u32,
            large_package_queue: Mutex::new(large),
        })
    }

    /// Does the work of unpacking something, and then that of reading it, when it is their turn. What is read alone is
    /// unpacked again: many that wait must not be in memory.
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
        // Sources are in memory only while it is their turn.
        let place = self.permits.acquire().await?;
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
        let _places = match unpacked {
            Some(_) => place,
            None => {
                drop(place);
                self.permits.acquire_many(self.permit_count).await?
            }
        };
        let (tell, told) = oneshot::channel();
        let job: ReadJob = Box::new(move || drop(tell.send(read(unpacked.unwrap_or_else(unpack)))));
        let sent = self.large_package_queue.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        sent.map_err(|_| anyhow!("the thread for large packages has ended"))?;
        Ok(told.await?)
    }
}
