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
const CHECKPOINT_THRESHOLD_BYTES: u64 = 8 << 20;
/// How long groups gather before they are committed and synced together. With the sync itself it stays below 50 ms.
pub(super) const COMMIT_INTERVAL: Duration = Duration::from_millis(30);

/// The thread. Dropped, it syncs what is left and ends.
#[derive(Debug)]
pub(super) struct WalSyncer {
    signal: Arc<SyncSignal>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is told. The writer puts a file in and rings; the thread takes it out. The newest file wins: there is another one only
/// when the database was opened again, and closing it has synced the one before.
#[derive(Debug, Default)]
pub(super) struct SyncSignal {
    state: Mutex<SyncState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct SyncState {
    wal_file: Option<Arc<File>>,
    /// What was written since the log was last carried over.
    bytes_since_checkpoint: u64,
    is_closed: bool,
}

impl WalSyncer {
    /// Starts the thread, which has `commit` done before each sync.
    pub fn start(
        ledger: DbFile,
        shared: Arc<SharedWriterState>,
        bell: Arc<SyncSignal>,
        commit: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let of_thread = Arc::clone(&bell);
        let run = move || of_thread.run(&ledger, &shared, commit);
        let thread = thread::Builder::new().name("ledger-sync".into()).spawn(run)?;
        Ok(Self { signal: bell, thread: Some(thread) })
    }
}

impl SyncSignal {
    /// Has what is held committed soon, and a file synced, in which it makes so much.
    pub fn request_sync(&self, file: &Arc<File>, bytes: u64) {
        let mut wish = self.lock();
        if wish.wal_file.is_none() {
            self.wake.notify_one();
            wish.wal_file = Some(Arc::clone(file));
        } else if wish.wal_file.as_ref().is_some_and(|known| !Arc::ptr_eq(known, file)) {
            wish.wal_file = Some(Arc::clone(file));
        }
        wish.bytes_since_checkpoint += bytes;
    }

    fn run(&self, ledger: &DbFile, shared: &SharedWriterState, commit: impl Fn()) {
        loop {
            let mut wish = self.lock();
            while wish.wal_file.is_none() && !wish.is_closed {
                wish = self.wake.wait(wish).unwrap_or_else(PoisonError::into_inner);
            }
            if !wish.is_closed {
                drop(wish);
                thread::sleep(COMMIT_INTERVAL);
                wish = self.lock();
            }
            // Taken out before the commit: a group that comes during it is a new wish.
            let Some(file) = wish.wal_file.take() else { return };
            let is_large = wish.bytes_since_checkpoint >= CHECKPOINT_THRESHOLD_BYTES;
            if is_large {
                wish.bytes_since_checkpoint = 0;
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
                if checkpoint(ledger).is_ok() {
                    shared.set_checkpointed();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies what is in the log into the database, as far as no reader needs it. Nobody waits for it, and it for nobody.
fn checkpoint(ledger: &DbFile) -> Result<(), StoreError> {
    ledger.check_identity()?;
    let connection = ledger.connect()?;
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
}

impl Drop for WalSyncer {
    fn drop(&mut self) {
        self.signal.lock().is_closed = true;
        self.signal.wake.notify_one();
        // A thread that panicked has nothing more to tell.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
