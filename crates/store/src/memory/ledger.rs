//! Counters and the call log in memory.

use std::sync::{MutexGuard, PoisonError};

use async_trait::async_trait;
use gatelodge_policy::Amount;
use jiff::Timestamp;

use super::{MemoryLogRow, MemoryStore, append, page_after};
use crate::audit_chain::{ChainHead, ChainReport, ChainVerification, ChainedRow, prune_record};
use crate::clock::to_unix_nanoseconds;
use crate::counters::CounterMap;
use crate::model::{
    CallLogFilter, CallLogRow, CallRecord, CounterCharge, CounterUsage, Reservation, ReserveOutcome, StoreError,
};
use crate::traits::Ledger;

/// The ledger's state.
#[derive(Debug)]
pub(super) struct MemoryLedgerState {
    counters: CounterMap,
    /// The last pruned row.
    anchor: ChainHead,
    log: Vec<MemoryLogRow>,
}

impl MemoryLedgerState {
    pub fn new() -> Self {
        Self { counters: CounterMap::new(), anchor: ChainHead::EMPTY, log: Vec::new() }
    }

    fn head(&self) -> ChainHead {
        self.log.last().map_or(self.anchor, |line| line.head)
    }

    fn write(&mut self, at: Timestamp, body: String) {
        let end = self.head();
        append(&mut self.log, end, to_unix_nanoseconds(at), body);
    }
}

impl MemoryStore {
    fn ledger(&self) -> MutexGuard<'_, MemoryLedgerState> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Ledger for MemoryStore {
    async fn reserve(&self, charges: Vec<CounterCharge>, intent: &CallRecord) -> Result<ReserveOutcome, StoreError> {
        let body = intent.to_body()?;
        let mut ledger = self.ledger();
        match ledger.counters.charge_all(&charges, self.clock.now()) {
            Ok(applied) => {
                ledger.write(intent.at, body);
                Ok(ReserveOutcome::Taken(Reservation { charges: applied }))
            }
            Err(exhausted) => Ok(ReserveOutcome::Exhausted(exhausted)),
        }
    }

    async fn release(&self, reservation: Reservation, outcome: &CallRecord) -> Result<(), StoreError> {
        let body = outcome.to_body()?;
        let mut ledger = self.ledger();
        ledger.counters.refund_all(&reservation.charges);
        ledger.write(outcome.at, body);
        Ok(())
    }

    async fn write(&self, record: &CallRecord) -> Result<(), StoreError> {
        let body = record.to_body()?;
        self.ledger().write(record.at, body);
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn error_count(&self) -> u64 {
        0
    }

    async fn rows(&self, filter: CallLogFilter) -> Result<Vec<CallLogRow>, StoreError> {
        let ledger = self.ledger();
        let mut rows = Vec::new();
        let before = filter.before.unwrap_or(u64::MAX);
        for line in ledger.log.iter().rev().skip_while(|line| line.head.seq >= before) {
            if rows.len() >= filter.limit {
                break;
            }
            let row = CallLogRow { seq: line.head.seq, record: CallRecord::from_body(&line.body)? };
            if filter.admits(&row) {
                rows.push(row);
            }
        }
        rows.reverse();
        Ok(rows)
    }

    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError> {
        let ledger = self.ledger();
        Ok(page_after(&ledger.log, ledger.anchor, after))
    }

    async fn head(&self) -> Result<ChainHead, StoreError> {
        Ok(self.ledger().head())
    }

    async fn verify(&self, known: Vec<ChainHead>) -> Result<ChainReport, StoreError> {
        let ledger = self.ledger();
        let mut inspection = ChainVerification::start(ledger.anchor, known);
        for line in &ledger.log {
            let (seq, at, body, hash) = line.parts();
            if !inspection.verify_call_row(seq, at, body, hash) {
                break;
            }
        }
        Ok(inspection.finish())
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut ledger = self.ledger();
        let is_kept = |line: &MemoryLogRow| line.at >= to_unix_nanoseconds(before);
        let count = ledger.log.iter().position(is_kept).unwrap_or(ledger.log.len());
        let Some(last) = ledger.log.iter().take(count).next_back().map(|line| line.head) else { return Ok(0) };
        let record = prune_record(last, count as u64, self.clock.now())?;
        let body = record.to_body()?;
        ledger.log.drain(..count);
        ledger.anchor = last;
        ledger.write(record.at, body);
        Ok(count as u64)
    }

    async fn usage(&self) -> Result<Vec<CounterUsage>, StoreError> {
        let ledger = self.ledger();
        let mut usage = Vec::with_capacity(ledger.counters.len());
        for (key, counter) in ledger.counters.iter() {
            if let Some(used) = Amount::of_billionths(counter.used_billionths()) {
                usage.push(CounterUsage { key: key.clone(), used });
            }
        }
        usage.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(usage)
    }
}
