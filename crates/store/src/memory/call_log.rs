//! The call log in memory.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{MemoryLogRow, MemoryStore, page_after};
use crate::audit_chain::{ChainHead, ChainReport, ChainVerification, ChainedRow, prune_record};
use crate::clock::to_unix_nanoseconds;
use crate::model::{CallLogFilter, CallLogRow, CallRecord, StoreError};
use crate::traits::CallLog;

#[async_trait]
impl CallLog for MemoryStore {
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
}
