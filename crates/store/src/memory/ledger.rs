//! The ledger in memory.

use std::sync::{MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;

use super::{MemoryLogRow, MemoryStore, append};
use crate::audit_chain::ChainHead;
use crate::clock::to_unix_nanoseconds;
use crate::counters::CounterMap;
use crate::model::{CallRecord, CounterCharge, Reservation, ReserveOutcome, StoreError};
use crate::traits::Ledger;

/// The ledger's state.
#[derive(Debug)]
pub(super) struct MemoryLedgerState {
    pub counters: CounterMap,
    /// The last pruned row.
    pub anchor: ChainHead,
    pub log: Vec<MemoryLogRow>,
}

impl MemoryLedgerState {
    pub fn new() -> Self {
        Self { counters: CounterMap::new(), anchor: ChainHead::EMPTY, log: Vec::new() }
    }

    pub fn head(&self) -> ChainHead {
        self.log.last().map_or(self.anchor, |line| line.head)
    }

    pub fn write(&mut self, at: Timestamp, body: String) {
        let end = self.head();
        append(&mut self.log, end, to_unix_nanoseconds(at), body);
    }
}

impl MemoryStore {
    pub(super) fn ledger(&self) -> MutexGuard<'_, MemoryLedgerState> {
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
}
