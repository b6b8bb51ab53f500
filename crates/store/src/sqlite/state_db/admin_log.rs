//! The admin log, stored in `state.db`.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use super::{ADMIN_LOG_TABLE, SqliteStateStore, from_json};
use crate::audit_chain::{ChainHead, ChainReport, ChainVerification, ChainedRow};
use crate::clock::to_unix_nanoseconds;
use crate::model::{AdminLogEntry, StoreError};
use crate::sqlite::{chain_head_file, log_table_reader};
use crate::traits::AdminLog;

#[async_trait]
impl AdminLog for SqliteStateStore {
    async fn append(&self, entry: AdminLogEntry) -> Result<(), StoreError> {
        self.write(move |transaction| write(transaction, &entry)).await
    }

    async fn recent(&self, limit: usize) -> Result<Vec<AdminLogEntry>, StoreError> {
        let recent = self.run(move |db| {
            let mut statement = db.prepare_cached("SELECT body FROM admin_log ORDER BY seq DESC LIMIT ?")?;
            let mut rows = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)])?;
            let mut entries = Vec::new();
            while let Some(row) = rows.next()? {
                entries.push(from_json(&row.get::<_, String>(0)?)?);
            }
            Ok(entries)
        });
        recent.await
    }

    async fn page_after(&self, after: u64) -> Result<Vec<ChainedRow>, StoreError> {
        self.run(move |db| log_table_reader::page_after(db, ADMIN_LOG_TABLE, after)).await
    }

    async fn head(&self) -> Result<ChainHead, StoreError> {
        self.run(|db| Ok(log_table_reader::last_head(db, "admin_log")?.unwrap_or(ChainHead::EMPTY))).await
    }

    async fn verify(&self, head: Option<ChainHead>) -> Result<ChainReport, StoreError> {
        let verify = self.run_with_file(move |file, db| {
            // Read before the log: in the meantime the log can only grow.
            let mut known = chain_head_file::read_heads(file)?;
            known.extend(head);
            let mut inspection = ChainVerification::start(ChainHead::EMPTY, known);
            let mut statement = db.prepare("SELECT seq, at, body, hash FROM admin_log ORDER BY seq")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let holds = match log_table_reader::read_row(row) {
                    Ok(line) => inspection.verify_row(line.seq, line.at, line.body, line.hash),
                    Err(seq) => inspection.record_unreadable(seq),
                };
                if !holds {
                    break;
                }
            }
            Ok(ChainReport { missing_head_marker: chain_head_file::missing_marker(file), ..inspection.finish() })
        });
        verify.await
    }
}

/// Writes an entry within the open transaction.
pub(super) fn write(db: &Connection, entry: &AdminLogEntry) -> Result<(), StoreError> {
    let (at, body) = (to_unix_nanoseconds(entry.at), entry.to_body()?);
    let end = log_table_reader::last_head(db, "admin_log")?.unwrap_or(ChainHead::EMPTY).next(at, &body);
    db.execute(
        "INSERT INTO admin_log (seq, at, body, hash) VALUES (?, ?, ?, ?)",
        params![end.seq, at, body, end.hash.0],
    )?;
    Ok(())
}
