//! The thread that has the write-ahead log written through to the disk shortly after each commit, and carries it over
//! into the database when it has grown, so that no call waits for either.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::job::Shared;
use crate::StoreError;
use crate::sqlite::file::DbFile;

/// After how many pages, roughly, the log is carried over: some 8 MB.
const LARGE: usize = 2_000;
/// How long commits gather before they are synced together. With the sync itself it stays below 50 ms.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// The thread and what it is told. Dropped, it syncs what is left and ends.
pub(super) struct Syncer {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// The writer puts a file in and rings; the thread takes it out. The newest file wins: there is another one only
/// when the database was opened again, and closing it has synced the one before.
#[derive(Default)]
struct State {
    wish: Mutex<Wish>,
    bell: Condvar,
}

#[derive(Default)]
struct Wish {
    file: Option<Arc<File>>,
    /// Pages that were written since the log was last carried over.
    pages: usize,
    is_closed: bool,
}

impl Syncer {
    pub fn start(ledger: DbFile, shared: Arc<Shared>) -> io::Result<Self> {
        let state = Arc::new(State::default());
        let of_thread = Arc::clone(&state);
        let run = move || of_thread.run(&ledger, &shared);
        let thread = thread::Builder::new().name("ledger-sync".into()).spawn(run)?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Has a file synced soon, into which a transaction of so many rows was written.
    pub fn sync(&self, file: &Arc<File>, rows: usize) {
        let mut wish = self.state.lock();
        if wish.file.is_none() {
            self.state.bell.notify_one();
        }
        wish.file = Some(Arc::clone(file));
        // Each commit writes the last pages of the tables anew; a page holds some eight rows.
        wish.pages += 4 + rows / 8;
    }
}

impl State {
    fn run(&self, ledger: &DbFile, shared: &Shared) {
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
            // Taken out before the sync: a commit during it is a new wish.
            let Some(file) = wish.file.take() else { return };
            let is_large = wish.pages >= LARGE;
            if is_large {
                wish.pages = 0;
            }
            drop(wish);
            match file.sync_data() {
                Ok(()) => shared.count_sync(),
                Err(_) => shared.count_faults(1),
            }
            if is_large {
                // If it fails, the writer does it when it must.
                if carry_over(ledger).is_ok() {
                    shared.note_carried_over();
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
    ledger.check()?;
    let connection = ledger.connect()?;
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.state.lock().is_closed = true;
        self.state.bell.notify_one();
        // A thread that panicked has nothing more to tell.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
