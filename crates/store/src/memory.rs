//! An in-memory store for tests and demonstrations. It meets all requirements, except that it does not outlive the
//! process.

mod admin_log;
mod call_log;
mod change_feed;
mod counter_usage;
mod grants;
mod ledger;
mod policies;
mod servers;
mod sessions;
mod task_owners;
mod tool_pins;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::audit_chain::{ChainHead, ChainedRow, LogPage, RowHash};
use crate::clock::Clock;
use crate::model::{
    AdminLogEntry, Grant, IdDigest, PolicyName, ServerName, ServerTools, SessionRow, StoreError, StoredPolicy,
    StoredServer, TaskOwner,
};

/// All parts of a store, kept in memory.
///
/// ```
/// use std::sync::Arc;
///
/// use gatelodge_store::{CallId, CallLog, CallRecord, Ledger, ManualClock, MemoryStore, RecordKind, ReserveOutcome};
///
/// # tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async {
/// let now = "2026-11-15T12:00:00Z".parse().expect("a time");
/// let store = MemoryStore::new(Arc::new(ManualClock::at(now)));
/// let intent = CallRecord::new(RecordKind::Intent, CallId::new(now, [7; 10]), now);
/// let outcome = store.reserve(Vec::new(), &intent).await?;
/// assert!(matches!(outcome, ReserveOutcome::Taken(_)));
/// assert_eq!(CallLog::head(&store).await?.seq, 1);
/// # Ok::<(), gatelodge_store::StoreError>(())
/// # }).expect("reserved");
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    state: Mutex<MemoryState>,
    ledger: Mutex<ledger::MemoryLedgerState>,
    /// Version of the state. Changes increment it, and `ChangeFeed` waits for it to change.
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct MemoryState {
    servers: BTreeMap<ServerName, StoredServer>,
    /// The versions of each policy, oldest first; never empty.
    policies: BTreeMap<PolicyName, Vec<StoredPolicy>>,
    /// The grants, in order of creation.
    grants: Vec<Grant>,
    /// Each server's pinned and listed tools.
    tools: BTreeMap<ServerName, ServerTools>,
    sessions: BTreeMap<IdDigest, SessionRow>,
    tasks: BTreeMap<IdDigest, TaskOwner>,
    admin_log: Vec<MemoryLogRow>,
}

/// A row in a log, with the fields that its hash covers.
#[derive(Debug)]
struct MemoryLogRow {
    at: i64,
    body: String,
    head: ChainHead,
}

impl MemoryStore {
    /// Creates an empty store that uses `clock` for the windows of its counters.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let (version, _) = watch::channel(0);
        Self { clock, state: Mutex::default(), ledger: Mutex::new(ledger::MemoryLedgerState::new()), version }
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change and writes its entry, or does neither. If `work` fails, it must not have changed anything.
    fn change<T>(
        &self,
        mut entry: AdminLogEntry,
        work: impl FnOnce(&mut MemoryState, &mut AdminLogEntry) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // An entry that cannot be serialized is refused before anything changes.
        entry.to_body()?;
        let mut state = self.state();
        let done = work(&mut state, &mut entry)?;
        admin_log::write(&mut state.admin_log, &entry)?;
        drop(state);
        self.version.send_modify(|version| *version += 1);
        Ok(done)
    }
}

/// Adds a row to a log.
fn append(log: &mut Vec<MemoryLogRow>, end: ChainHead, at: i64, body: String) {
    let head = end.next(at, &body);
    log.push(MemoryLogRow { at, body, head });
}

/// Returns a page of a log after a sequence number.
fn page_after(log: &[MemoryLogRow], anchor: ChainHead, after: u64) -> Vec<ChainedRow> {
    let (mut end, mut page) = (anchor, LogPage::default());
    for MemoryLogRow { at, body, head } in log {
        let row =
            || ChainedRow { seq: head.seq, nanoseconds: *at, body: body.clone(), previous: end.hash, hash: head.hash };
        if head.seq > after && !page.push(row()) {
            break;
        }
        end = *head;
    }
    page.into_rows()
}

impl MemoryLogRow {
    fn parts(&self) -> (u64, i64, &str, RowHash) {
        (self.head.seq, self.at, &self.body, self.head.hash)
    }
}
