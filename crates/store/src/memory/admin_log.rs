//! The log of changes in memory.

use async_trait::async_trait;

use super::{Line, MemoryStore, append, kept};
use crate::StoreError;
use crate::admin_log::{AdminEntry, AdminLog};
use crate::chain_inspection::ChainInspection;
use crate::clock::nanoseconds;
use crate::hash_chain::ChainHead;
use crate::kept::KeptRow;
use crate::ledger::ChainReport;

#[async_trait]
impl AdminLog for MemoryStore {
    async fn append(&self, entry: AdminEntry) -> Result<(), StoreError> {
        write(&mut self.state().admin_log, &entry)
    }

    async fn recent(&self, limit: usize) -> Result<Vec<AdminEntry>, StoreError> {
        let read = |line: &Line| serde_json::from_str(&line.body);
        let entries: Result<_, _> = self.state().admin_log.iter().rev().take(limit).map(read).collect();
        entries.map_err(|error| StoreError::Corrupt(error.to_string()))
    }

    async fn kept(&self, after: u64) -> Result<Vec<KeptRow>, StoreError> {
        Ok(kept(&self.state().admin_log, ChainHead::EMPTY, after))
    }

    async fn head(&self) -> Result<ChainHead, StoreError> {
        Ok(end_of(&self.state().admin_log))
    }

    async fn verify(&self, head: Option<ChainHead>) -> Result<ChainReport, StoreError> {
        let mut inspection = ChainInspection::start(ChainHead::EMPTY, head.into_iter().collect());
        for line in &self.state().admin_log {
            let (seq, at, body, hash) = line.parts();
            if !inspection.verify_row(seq, at, body, hash) {
                break;
            }
        }
        Ok(inspection.finish())
    }
}

pub(super) fn write(log: &mut Vec<Line>, entry: &AdminEntry) -> Result<(), StoreError> {
    let (end, body) = (end_of(log), entry.to_body()?);
    append(log, end, nanoseconds(entry.at), body);
    Ok(())
}

fn end_of(log: &[Line]) -> ChainHead {
    log.last().map_or(ChainHead::EMPTY, |line| line.head)
}
