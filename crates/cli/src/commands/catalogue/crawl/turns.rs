//! Whose turn it is to be read: as many packages at once as there are cores, as long as they are small.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, anyhow};
use tokio::sync::{Semaphore, oneshot};

/// A package with more text than this is large. Reading takes some forty times the text's memory.
const SMALL: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Who may read.
pub struct Turns {
    /// Places for unpacking and for small packages.
    places: Semaphore,
    /// The one thread for large packages: memory that one of them took serves the next.
    large: Mutex<Sender<Job>>,
}

impl Turns {
    pub fn new(places: usize) -> Result<Self> {
        let (large, jobs) = channel::<Job>();
        thread::Builder::new()
            .name("large packages".to_owned())
            // What breaks off one package is told by the silence of its job.
            .spawn(move || jobs.into_iter().for_each(|job| drop(catch_unwind(AssertUnwindSafe(job)))))
            .context("cannot start a thread")?;
        Ok(Self { places: Semaphore::new(places), large: Mutex::new(large) })
    }

    /// Does the work of unpacking something, and then that of reading it, when it is their turn.
    pub async fn read<U, T>(
        &self,
        unpack: impl FnOnce() -> U + Send + 'static,
        size: impl FnOnce(&U) -> usize + Send + 'static,
        read: impl FnOnce(U) -> T + Send + 'static,
    ) -> Result<T>
    where
        U: Send + 'static,
        T: Send + 'static,
    {
        // Sources are in memory only while it is their turn.
        let _place = self.places.acquire().await?;
        let work = move || {
            let unpacked = unpack();
            if size(&unpacked) <= SMALL { Ok(read(unpacked)) } else { Err((unpacked, read)) }
        };
        let (unpacked, read) = match tokio::task::spawn_blocking(work).await? {
            Ok(done) => return Ok(done),
            Err(large) => large,
        };
        let (tell, told) = oneshot::channel();
        let job: Job = Box::new(move || drop(tell.send(read(unpacked))));
        let sent = self.large.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        sent.map_err(|_| anyhow!("the thread for large packages has ended"))?;
        Ok(told.await?)
    }
}
