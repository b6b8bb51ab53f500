//! A group of jobs inside its transaction: each is decided by what those before it left.

use jiff::Timestamp;
use rusqlite::Connection;

use super::counter_cache::Counters;
use super::prune;
use super::row_buffer::RowBuffer;
use super::writer_request::{AppendRequest, EncodedRow, ReserveRequest, WriterRequest};
use crate::StoreError;
use crate::counter::AppliedCharge;
use crate::hash_chain::ChainHead;
use crate::ledger::ExhaustedCounter;

/// What a group's transaction says to one job.
pub(super) enum WriteOutcome {
    Taken(Vec<AppliedCharge>),
    Exhausted(ExhaustedCounter),
    Pruned(u64),
    Swept { more: bool },
    Done,
    Failed(StoreError),
}

/// What a group is decided with.
pub(super) struct BatchExecutor<'a> {
    connection: &'a Connection,
    counters: &'a mut Counters,
    head: &'a mut ChainHead,
    rows: &'a mut RowBuffer,
}

impl<'a> BatchExecutor<'a> {
    pub fn new(
        connection: &'a Connection,
        counters: &'a mut Counters,
        head: &'a mut ChainHead,
        rows: &'a mut RowBuffer,
    ) -> Self {
        Self { connection, counters, head, rows }
    }

    /// Decides all of a group, and hands on their rows.
    pub fn execute(mut self, group: &[WriterRequest], now: Timestamp) -> rusqlite::Result<Vec<WriteOutcome>> {
        group.iter().map(|job| self.execute_one(job, now)).collect()
    }

    fn execute_one(&mut self, job: &WriterRequest, now: Timestamp) -> rusqlite::Result<WriteOutcome> {
        if !job.is_append_only() {
            // It may look into the table.
            self.rows.flush(self.connection)?;
        }
        match job {
            WriterRequest::Reserve(reserve) => self.reserve(reserve, now),
            WriterRequest::Append(AppendRequest { row: entry, refunds: taken }) => {
                self.counters.give_back(self.connection, taken)?;
                self.append(entry);
                Ok(WriteOutcome::Done)
            }
            WriterRequest::Prune { through, .. } => {
                let entry = match prune::move_anchor(self.connection, *through, now)? {
                    Ok(Some(moved)) => moved,
                    Ok(None) => return Ok(WriteOutcome::Pruned(0)),
                    Err(error) => return Ok(WriteOutcome::Failed(error)),
                };
                self.append(&entry.row);
                Ok(WriteOutcome::Pruned(entry.removed))
            }
            WriterRequest::Sweep(_) => Ok(WriteOutcome::Swept { more: prune::delete_pruned_rows(self.connection)? }),
            WriterRequest::Flush(_) | WriterRequest::Wake => Ok(WriteOutcome::Done),
            #[cfg(test)]
            WriterRequest::Tamper(tamper, _) => {
                tamper(self.connection);
                Ok(WriteOutcome::Done)
            }
        }
    }

    fn reserve(&mut self, reserve: &ReserveRequest, now: Timestamp) -> rusqlite::Result<WriteOutcome> {
        for claim in &reserve.charges {
            if !self.counters.load(self.connection, &claim.key)? {
                return Ok(WriteOutcome::Failed(StoreError::Corrupt(format!("counter `{}`", claim.key))));
            }
        }
        match self.counters.take(&reserve.charges, now) {
            Ok(taken) => {
                self.append(&reserve.intent);
                Ok(WriteOutcome::Taken(taken))
            }
            Err(exhausted) => Ok(WriteOutcome::Exhausted(exhausted)),
        }
    }

    /// Hands on rows that were decided before.
    pub fn replay_rows(mut self, rows: &[EncodedRow]) {
        rows.iter().for_each(|row| self.append(row));
    }

    fn append(&mut self, entry: &EncodedRow) {
        *self.head = self.head.next(entry.at, &entry.body);
        self.rows.push(*self.head, entry);
    }
}
