//! `ledger.db`: counters and the call log. One writer commits batches; readers use their own connections.

mod batch_executor;
mod call_log;
mod counter_cache;
mod counter_usage;
mod ledger_db;
mod ledger_error;
mod ledger_reads;
mod ledger_writer;
mod prune;
mod redo_log;
mod reply_dispatcher;
mod reservation_waiter;
mod row_buffer;
mod row_retry_queue;
#[cfg(test)]
mod tests;
mod wal_sync;
mod writer_queue;
mod writer_request;

use std::future::poll_fn;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::ledger_db::LedgerDb;
use self::ledger_error::LedgerError;
use self::ledger_writer::LedgerWriter;
use self::reply_dispatcher::ReplyDispatcher;
use self::reservation_waiter::ReservationWaiter;
use self::wal_sync::{WalSyncSignal, WalSyncer};
use self::writer_queue::{CallerThreadId, EnqueueError, WriterQueue};
use self::writer_request::{AppendRequest, EncodedRow, ReserveRequest, SharedWriterState, WriterRequest};
use super::chain_head_file::{self, LogTable};
use super::db_file::DbFile;
use super::{migrate, to_open_error};
use crate::clock::Clock;
use crate::model::{CallRecord, CounterCharge, Durability, OpenStoreError, Reservation, ReserveOutcome, StoreError};
use crate::traits::Ledger;

const FILE_NAME: &str = "ledger.db";
const MIGRATIONS: [&str; 1] = [include_str!("ledger/1.sql")];
const CALL_LOG_TABLE: LogTable = LogTable { table: "log", anchor: ledger_reads::read_anchor };
/// Page size of the database. Rows are appended, with many rows per page; with 4 KiB pages, managing the pages would
/// cost more than the rows themselves.
const DB_PAGE_BYTES: u32 = 16 << 10;
/// Maximum time that a call waits for the ledger.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Counters and the call log, in `ledger.db`.
///
/// Dropping it writes all queued rows and stops its threads.
///
/// ```
/// use std::sync::Arc;
///
/// use gatelodge_store::{CallLog, Durability, ManualClock, SqliteLedger};
///
/// # tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime").block_on(async {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # let data_dir = dir.path();
/// let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
/// let ledger = SqliteLedger::open(data_dir, Durability::Process, clock).expect("opened");
/// let report = ledger.verify(Vec::new()).await?;
/// assert_eq!((report.rows, report.chain_break), (0, None));
/// # Ok::<(), gatelodge_store::StoreError>(())
/// # }).expect("verified");
/// ```
#[derive(Debug)]
pub struct SqliteLedger {
    file: DbFile,
    durability: Durability,
    /// Requests to the writer. The writer thread ends when the queue is closed.
    queue: Arc<WriterQueue>,
    /// Delivers replies to callers that do not lead a batch themselves.
    reply_dispatcher: Arc<ReplyDispatcher>,
    writer: Arc<Mutex<LedgerWriter>>,
    writer_thread: Option<JoinHandle<()>>,
    /// Takes the writer lock briefly, and is stopped before the writer.
    syncer: Option<WalSyncer>,
    writer_state: Arc<SharedWriterState>,
}

impl SqliteLedger {
    /// Opens the ledger in a directory. Creates missing files and upgrades an older schema.
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open(dir: &Path, durability: Durability, clock: Arc<dyn Clock>) -> Result<Self, OpenStoreError> {
        let file = DbFile::create(dir, FILE_NAME)?;
        let failed = |source| to_open_error(file.path(), source);
        let mut connection = file.connect().map_err(failed)?;
        // Has no effect on an existing database.
        connection.pragma_update(None, "page_size", DB_PAGE_BYTES).map_err(failed)?;
        migrate::migrate(&mut connection, file.path(), &MIGRATIONS)?;
        drop(connection);
        Self::start(file, durability, clock)
    }

    /// Opens an existing ledger without creating a database or changing the schema, for use on the command line next to
    /// a running gateway. Replays the redo log left by a killed process.
    ///
    /// # Errors
    /// See [`OpenStoreError`].
    pub fn open_existing(dir: &Path, durability: Durability, clock: Arc<dyn Clock>) -> Result<Self, OpenStoreError> {
        Self::start(DbFile::open_existing(dir, FILE_NAME)?, durability, clock)
    }

    fn start(file: DbFile, durability: Durability, clock: Arc<dyn Clock>) -> Result<Self, OpenStoreError> {
        let failed = |source| to_open_error(file.path(), source);
        let connection = file.connect().map_err(failed)?;
        migrate::check_version(&connection, file.path(), &MIGRATIONS)?;
        chain_head_file::reconcile(&connection, &file, CALL_LOG_TABLE)?;
        drop(connection);

        let shared = Arc::new(SharedWriterState::default());
        let queue = Arc::new(WriterQueue::default());
        let open = LedgerDb::open(&file, durability).map_err(|error| error.into_open_error(file.path()))?;
        let no_thread = |source| OpenStoreError::Thread { path: file.path().into(), source };
        let sync_signal = Arc::<WalSyncSignal>::default();
        let reply_dispatcher = Arc::new(ReplyDispatcher::new(Arc::clone(&shared), Arc::clone(&queue)));
        let for_writer = (Arc::clone(&queue), Arc::clone(&shared), Arc::clone(&reply_dispatcher));
        let for_syncer = Arc::clone(&shared);
        let writer = LedgerWriter::new(file.clone(), durability, clock, for_writer, open, Arc::clone(&sync_signal));
        let writer = Arc::new(Mutex::new(writer));
        let commit = {
            let (writer, queue) = (Arc::clone(&writer), Arc::clone(&queue));
            move || ledger_writer::commit_and_drain(&writer, &queue)
        };
        let syncer = Some(WalSyncer::start(file.clone(), for_syncer, sync_signal, commit).map_err(no_thread)?);
        let run = {
            let (writer, queue) = (Arc::clone(&writer), Arc::clone(&queue));
            move || ledger_writer::run_writer(&writer, &queue)
        };
        let thread = thread::Builder::new().name("ledger-writer".into()).spawn(run).map_err(no_thread)?;
        Ok(Self {
            file,
            durability,
            queue,
            reply_dispatcher,
            writer,
            writer_thread: Some(thread),
            syncer,
            writer_state: shared,
        })
    }

    /// Reads on a blocking thread. The read sees everything that was confirmed before it.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&DbFile, &Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (shared, writer, queue) =
            (Arc::clone(&self.writer_state), Arc::clone(&self.writer), Arc::clone(&self.queue));
        ledger_reads::run_blocking(&self.file, move |file| {
            if shared.has_uncommitted() {
                ledger_writer::commit_and_drain(&writer, &queue);
            }
            drop(writer);
            read(file, &file.connect_read_only()?)
        })
        .await
    }

    /// Queues a request, waiting for space.
    async fn enqueue(&self, request: WriterRequest) -> Result<(), StoreError> {
        self.queue.push_timeout(request, CALL_TIMEOUT).await.map_err(|why| match why {
            EnqueueError::Full => StoreError::Unavailable("the queue of the ledger stays full".into()),
            EnqueueError::Closed => writer_ended_error(),
        })
    }

    /// Queues a row without waiting for it to be written.
    async fn enqueue_row(&self, record: &CallRecord, reservation: Reservation) -> Result<(), StoreError> {
        let append = AppendRequest { row: EncodedRow::of(record)?, refunds: reservation.charges };
        let sent = self.enqueue(WriterRequest::Append(append)).await;
        if sent.is_err() {
            self.writer_state.count_errors(1);
        }
        sent
    }

    /// Sends a request to the writer and waits for its reply.
    async fn request<T>(
        &self,
        make_request: impl FnOnce(writer_request::ReplySender<T>) -> WriterRequest,
    ) -> Result<T, StoreError> {
        let (sender, reply) = oneshot::channel();
        self.enqueue(make_request(sender)).await?;
        match timeout(CALL_TIMEOUT, reply).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(writer_ended_error()),
            Err(_) => Err(timeout_error()),
        }
    }
}

/// Yields once to the tasks already queued in the scheduler. `tokio::task::yield_now` would poll the I/O driver each
/// time.
async fn yield_once() {
    let mut has_waited = false;
    poll_fn(|cx| match std::mem::replace(&mut has_waited, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

fn writer_ended_error() -> StoreError {
    StoreError::Unavailable("the writer thread of the ledger has ended".into())
}

fn timeout_error() -> StoreError {
    StoreError::Unavailable("the ledger did not respond in time".into())
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn reserve(&self, charges: Vec<CounterCharge>, intent: &CallRecord) -> Result<ReserveOutcome, StoreError> {
        let (reply, receiver) = oneshot::channel();
        let caller = match self.durability {
            Durability::Process => CallerThreadId::current(),
            Durability::Power => self.reply_dispatcher.caller_thread(),
        };
        let request =
            WriterRequest::Reserve(ReserveRequest { caller, charges, intent: EncodedRow::of(intent)?, reply });
        let pushed = match self.durability {
            Durability::Process => self.queue.push_without_wake(request),
            Durability::Power => self.queue.push(request),
        };
        pushed.map_err(|why| match why {
            EnqueueError::Full => StoreError::Unavailable("the queue of the ledger is full".into()),
            EnqueueError::Closed => writer_ended_error(),
        })?;
        let waiting = ReservationWaiter { reply: receiver, queue: &self.queue, shared: &self.writer_state };
        if self.durability == Durability::Process {
            if self.writer_state.is_batch_likely() {
                // The requests of these tasks join the same batch.
                yield_once().await;
            }
            if !waiting.has_reply() {
                ledger_writer::lead_batch(&self.writer, &self.queue, caller);
            }
        }
        waiting.outcome().await
    }

    async fn release(&self, reservation: Reservation, outcome: &CallRecord) -> Result<(), StoreError> {
        self.enqueue_row(outcome, reservation).await
    }

    async fn write(&self, record: &CallRecord) -> Result<(), StoreError> {
        self.enqueue_row(record, Reservation::default()).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.request(WriterRequest::Flush).await
    }

    fn error_count(&self) -> u64 {
        self.writer_state.errors()
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        // First, so that the refunds of replies without a receiver are written, too.
        self.reply_dispatcher.close();
        self.queue.close();
        if self.writer_thread.take().is_some_and(|thread| thread.join().is_err()) {
            self.writer_state.count_errors(1);
        }
        drop(self.syncer.take());
    }
}
