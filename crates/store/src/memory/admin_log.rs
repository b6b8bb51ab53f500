//! The admin log, stored in memory.

use async_trait::async_trait;

use super::{MemoryLogRow, MemoryStore, append, page_after};
use crate::audit_chain::{ChainHead, ChainReport, ChainVerification, ChainedRow};
use crate::clock::to_unix_nanoseconds;
use crate::model::{AdminLogEntry, StoreError};
use crate::traits::AdminLog;

#[async_trait]
impl AdminLog for MemoryStore {
    async fn append(&self, entry: AdminLogEntry) -> Result<(), StoreError> {
        write(&mut self.state().admin_log, &entry)
    }

    async fn recent(&self, limit: usize) -> Result<Vec<AdminLogEntry>, StoreError> {
        let read = |line: &MemoryLogRow| serde_json::from_str(&line.body);
        let entries: Result<_, _> = self.state().admin_log.iter().rev().take(limit).map(read).collect();
        entries.map_err(|error| StoreError::Corrupt(error.to_string()))
    }

    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError> {
        Ok(page_after(&self.state().admin_log, ChainHead::EMPTY, after))
    }

    async fn head(&self) -> Result<ChainHead, StoreError> {
        Ok(head_of(&self.state().admin_log))
    }

    async fn verify(&self, head: Option<ChainHead>) -> Result<ChainReport, StoreError> {
        let mut inspection = ChainVerification::start(ChainHead::EMPTY, head.into_iter().collect());
        for line in &self.state().admin_log {
            let (seq, at, body, hash) = line.parts();
            if !inspection.verify_row(seq, at, body, hash) {
                break;
            }
        }
        Ok(inspection.finish())
    }
}

pub(super) fn write(log: &mut Vec<MemoryLogRow>, entry: &AdminLogEntry) -> Result<(), StoreError> {
    let (end, body) = (head_of(log), entry.to_body()?);
    append(log, end, to_unix_nanoseconds(entry.at), body);
    Ok(())
}

fn head_of(log: &[MemoryLogRow]) -> ChainHead {
    log.last().map_or(ChainHead::EMPTY, |line| line.head)
}
