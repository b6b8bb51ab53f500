//! Rows in the two log tables, which have the same columns: `seq, at, body, hash`.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::chain_head_file::LogTable;
use crate::audit_chain::{ChainHead, ChainedRow, LogPage, MAX_PAGE_ROWS, RowHash};
use crate::model::StoreError;

/// A row in a log table.
pub(super) struct LogTableRow<'a> {
    pub seq: u64,
    pub at: i64,
    pub body: &'a str,
    pub hash: RowHash,
}

/// Reads a row. If one of its columns cannot be read, returns the row's sequence number as the error.
pub(super) fn read_row<'a>(row: &'a Row<'_>) -> Result<LogTableRow<'a>, u64> {
    let seq = row.get(0).unwrap_or_default();
    let line = || {
        let body = row.get_ref(2).ok()?.as_str().ok()?;
        Some(LogTableRow { seq, at: row.get(1).ok()?, body, hash: RowHash(row.get(3).ok()?) })
    };
    line().ok_or(seq)
}

/// Returns the head of a log; `None` if it has no rows.
pub(super) fn last_head(db: &Connection, table: &str) -> rusqlite::Result<Option<ChainHead>> {
    let mut statement = db.prepare_cached(&format!("SELECT seq, hash FROM {table} ORDER BY seq DESC LIMIT 1"))?;
    statement.query_row([], read_head).optional()
}

/// Reads a chain head from a sequence number and a hash.
pub(super) fn read_head(row: &Row<'_>) -> rusqlite::Result<ChainHead> {
    Ok(ChainHead { seq: row.get(0)?, hash: RowHash(row.get(1)?) })
}

/// Returns a page of a log after a sequence number, oldest row first.
pub(super) fn page_after(db: &Connection, log: LogTable, after: u64) -> Result<Vec<ChainedRow>, StoreError> {
    // All reads must see the same state of the database.
    let db = db.unchecked_transaction()?;
    let anchor = (log.anchor)(&db)?;
    let table = log.table;
    let mut preceding =
        db.prepare(&format!("SELECT seq, hash FROM {table} WHERE seq > ? AND seq <= ? ORDER BY seq DESC LIMIT 1"))?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut end = preceding.query_row(params![anchor.seq, after], read_head).optional()?.unwrap_or(anchor);
    let mut select =
        db.prepare(&format!("SELECT seq, at, body, hash FROM {table} WHERE seq > ? ORDER BY seq LIMIT ?"))?;
    let mut rows =
        select.query(params![i64::max(after, i64::try_from(anchor.seq).unwrap_or(i64::MAX)), MAX_PAGE_ROWS])?;
    let mut page = LogPage::default();
    while let Some(row) = rows.next()? {
        let line = read_row(row).map_err(|seq| StoreError::Corrupt(format!("log row {seq}")))?;
        let LogTableRow { seq, at: nanoseconds, body, hash } = line;
        let row = ChainedRow { seq, nanoseconds, body: body.to_owned(), previous: end.hash, hash };
        end = ChainHead { seq, hash };
        if !page.push(row) {
            break;
        }
    }
    Ok(page.into_rows())
}
