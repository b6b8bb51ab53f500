//! Executes a batch inside its transaction. Each request sees the effects of the requests before it.

use jiff::Timestamp;
use rusqlite::Connection;

use super::counter_cache::CounterCache;
use super::prune;
use super::row_buffer::RowBuffer;
use super::writer_request::{AppendRequest, EncodedRow, ReserveRequest, WriterRequest};
use crate::audit_chain::ChainHead;
use crate::model::{AppliedCharge, ExhaustedCounter, StoreError};

/// Result of one request.
pub(super) enum WriteOutcome {
    Taken(Vec<AppliedCharge>),
    Exhausted(ExhaustedCounter),
    Pruned(u64),
    Swept { more: bool },
    Done,
    Failed(StoreError),
}

/// Executes the requests of a batch, using the ledger's connection and cached state.
pub(super) struct BatchExecutor<'a> {
    connection: &'a Connection,
    counters: &'a mut CounterCache,
    head: &'a mut ChainHead,
    rows: &'a mut RowBuffer,
}

impl<'a> BatchExecutor<'a> {
    pub fn new(
        connection: &'a Connection,
        counters: &'a mut CounterCache,
        head: &'a mut ChainHead,
        rows: &'a mut RowBuffer,
    ) -> Self {
        Self { connection, counters, head, rows }
    }

    /// Executes all requests in a batch and buffers their rows.
    pub fn execute(mut self, batch: &[WriterRequest], now: Timestamp) -> rusqlite::Result<Vec<WriteOutcome>> {
        batch.iter().map(|request| self.execute_one(request, now)).collect()
    }

    fn execute_one(&mut self, request: &WriterRequest, now: Timestamp) -> rusqlite::Result<WriteOutcome> {
        if !request.is_append_only() {
            // It may read the table.
            self.rows.flush(self.connection)?;
        }
        match request {
            WriterRequest::Reserve(reserve) => self.reserve(reserve, now),
            WriterRequest::Append(AppendRequest { row, refunds }) => {
                self.counters.refund(self.connection, refunds)?;
                self.append(row);
                Ok(WriteOutcome::Done)
            }
            WriterRequest::Prune { through, .. } => {
                let anchor_move = match prune::move_anchor(self.connection, *through, now)? {
                    Ok(Some(anchor_move)) => anchor_move,
                    Ok(None) => return Ok(WriteOutcome::Pruned(0)),
                    Err(error) => return Ok(WriteOutcome::Failed(error)),
                };
                self.append(&anchor_move.row);
                Ok(WriteOutcome::Pruned(anchor_move.removed))
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
        for charge in &reserve.charges {
            if !self.counters.load(self.connection, &charge.key)? {
                return Ok(WriteOutcome::Failed(StoreError::Corrupt(format!("counter `{}`", charge.key))));
            }
        }
        match self.counters.charge_all(&reserve.charges, now) {
            Ok(taken) => {
                self.append(&reserve.intent);
                Ok(WriteOutcome::Taken(taken))
            }
            Err(exhausted) => Ok(WriteOutcome::Exhausted(exhausted)),
        }
    }

    /// Buffers the rows of a batch from the redo log.
    pub fn replay_rows(mut self, rows: &[EncodedRow]) {
        rows.iter().for_each(|row| self.append(row));
    }

    fn append(&mut self, row: &EncodedRow) {
        *self.head = self.head.next(row.at, &row.body);
        self.rows.push(*self.head, row);
    }
}
