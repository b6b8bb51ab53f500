//! The thread that commits what callers have written down, has the write-ahead log written through to the disk shortly
//! after, and carries it over into the database when it has grown, so that no call waits for any of it.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::writer_request::SharedWriterState;
use crate::StoreError;
use crate::sqlite::db_file::DbFile;

/// After how much, roughly, the log is carried over.
const LARGE: u64 = 8 << 20;
/// How long groups gather before they are committed and synced together. With the sync itself it stays below 50 ms.
pub(super) const GATHER: Duration = Duration::from_millis(30);

/// The thread. Dropped, it syncs what is left and ends.
#[derive(Debug)]
pub(super) struct Syncer {
    bell: Arc<SyncBell>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is told. The writer puts a file in and rings; the thread takes it out. The newest file wins: there is another one only
/// when the database was opened again, and closing it has synced the one before.
#[derive(Debug, Default)]
pub(super) struct SyncBell {
    wish: Mutex<Wish>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Wish {
    file: Option<Arc<File>>,
    /// What was written since the log was last carried over.
    bytes: u64,
    is_closed: bool,
}

impl Syncer {
    /// Starts the thread, which has `commit` done before each sync.
    pub fn start(
        ledger: DbFile,
        shared: Arc<SharedWriterState>,
        bell: Arc<SyncBell>,
        commit: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let of_thread = Arc::clone(&bell);
        let run = move || of_thread.run(&ledger, &shared, commit);
        let thread = thread::Builder::new().name("ledger-sync".into()).spawn(run)?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl SyncBell {
    /// Has what is held committed soon, and a file synced, in which it makes so much.
    pub fn ring(&self, file: &Arc<File>, bytes: u64) {
        let mut wish = self.lock();
        if wish.file.is_none() {
            self.bell.notify_one();
            wish.file = Some(Arc::clone(file));
        } else if wish.file.as_ref().is_some_and(|known| !Arc::ptr_eq(known, file)) {
            wish.file = Some(Arc::clone(file));
        }
        wish.bytes += bytes;
    }

    fn run(&self, ledger: &DbFile, shared: &SharedWriterState, commit: impl Fn()) {
        loop {
            let mut wish = self.lock();
            while wish.file.is_none() && !wish.is_closed {
                wish = self.bell.wait(wish).unwrap_or_else(PoisonError::into_inner);
            }
            if !wish.is_closed {
                drop(wish);
                thread::sleep(GATHER);
                wish = self.lock();
            }
            // Taken out before the commit: a group that comes during it is a new wish.
            let Some(file) = wish.file.take() else { return };
            let is_large = wish.bytes >= LARGE;
            if is_large {
                wish.bytes = 0;
            }
            drop(wish);
            if shared.has_uncommitted() {
                commit();
            }
            match file.sync_data() {
                Ok(()) => shared.count_sync(),
                Err(_) => shared.count_errors(1),
            }
            if is_large {
                // If it fails, the writer does it when it must.
                if carry_over(ledger).is_ok() {
                    shared.set_checkpointed();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies what is in the log into the database, as far as no reader needs it. Nobody waits for it, and it for nobody.
fn carry_over(ledger: &DbFile) -> Result<(), StoreError> {
    ledger.check_identity()?;
    let connection = ledger.connect()?;
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.bell.lock().is_closed = true;
        self.bell.bell.notify_one();
        // A thread that panicked has nothing more to tell.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
