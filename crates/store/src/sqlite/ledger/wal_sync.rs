//! The sync thread: commits confirmed batches, syncs the write-ahead log shortly afterwards, and checkpoints it when it
//! has grown, so that no call has to wait for any of this.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::writer_request::SharedWriterState;
use crate::model::StoreError;
use crate::sqlite::db_file::DbFile;

/// Approximate size of the write-ahead log that triggers a checkpoint.
const CHECKPOINT_THRESHOLD_BYTES: u64 = 8 << 20;
/// How long batches accumulate before they are committed and synced together. Including the sync itself, the delay
/// stays below 50 ms.
pub(super) const COMMIT_INTERVAL: Duration = Duration::from_millis(30);

/// Handle to the sync thread. Dropping it syncs what is left and ends the thread.
#[derive(Debug)]
pub(super) struct WalSyncer {
    signal: Arc<WalSyncSignal>,
    thread: Option<JoinHandle<()>>,
}

/// Requests to the sync thread. The writer stores the file to sync and notifies the thread, which takes the file out. A
/// newer file replaces one that has not been taken out yet: the file changes only when the database is reopened, and
/// closing the database has already synced the previous file.
#[derive(Debug, Default)]
pub(super) struct WalSyncSignal {
    state: Mutex<WalSyncState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct WalSyncState {
    wal_file: Option<Arc<File>>,
    /// Bytes written since the last checkpoint.
    bytes_since_checkpoint: u64,
    is_closed: bool,
}

impl WalSyncer {
    /// Starts the sync thread, which calls `commit` before each sync.
    pub fn start(
        ledger: DbFile,
        shared: Arc<SharedWriterState>,
        signal: Arc<WalSyncSignal>,
        commit: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let thread_signal = Arc::clone(&signal);
        let run = move || thread_signal.run(&ledger, &shared, commit);
        let thread = thread::Builder::new().name("ledger-sync".into()).spawn(run)?;
        Ok(Self { signal, thread: Some(thread) })
    }
}

impl WalSyncSignal {
    /// Requests a commit and a sync of `file`. `bytes` is the estimated number of bytes by which the file grows.
    pub fn request_sync(&self, file: &Arc<File>, bytes: u64) {
        let mut state = self.lock();
        if state.wal_file.is_none() {
            self.wake.notify_one();
            state.wal_file = Some(Arc::clone(file));
        } else if state.wal_file.as_ref().is_some_and(|known| !Arc::ptr_eq(known, file)) {
            state.wal_file = Some(Arc::clone(file));
        }
        state.bytes_since_checkpoint += bytes;
    }

    fn run(&self, ledger: &DbFile, shared: &SharedWriterState, commit: impl Fn()) {
        loop {
            let mut state = self.lock();
            while state.wal_file.is_none() && !state.is_closed {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !state.is_closed {
                drop(state);
                thread::sleep(COMMIT_INTERVAL);
                state = self.lock();
            }
            // Taken out before the commit: a batch that arrives during it is a new request.
            let Some(file) = state.wal_file.take() else { return };
            let is_large = state.bytes_since_checkpoint >= CHECKPOINT_THRESHOLD_BYTES;
            if is_large {
                state.bytes_since_checkpoint = 0;
            }
            drop(state);
            if shared.has_uncommitted() {
                commit();
            }
            match file.sync_data() {
                Ok(()) => shared.count_sync(),
                Err(_) => shared.count_errors(1),
            }
            if is_large {
                // If it fails, the writer's automatic checkpoint follows.
                if checkpoint(ledger).is_ok() {
                    shared.set_checkpointed();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WalSyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies the write-ahead log into the database, except for parts that a reader still needs. It neither blocks nor
/// waits for other connections.
fn checkpoint(ledger: &DbFile) -> Result<(), StoreError> {
    ledger.check_identity()?;
    let connection = ledger.connect()?;
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
}

impl Drop for WalSyncer {
    fn drop(&mut self) {
        self.signal.lock().is_closed = true;
        self.signal.wake.notify_one();
        // A panic of the thread was already reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
