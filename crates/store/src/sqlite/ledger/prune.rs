//! Prunes the call log: first moves the anchor and writes a row that records this, then deletes the rows in steps.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::writer_request::EncodedRow;
use super::{CALL_LOG_TABLE, ledger_reads};
use crate::audit_chain::{ChainHead, prune_record};
use crate::clock::to_unix_nanoseconds;
use crate::model::StoreError;
use crate::sqlite::{chain_head_file, log_table_reader};

/// Number of rows deleted per step, which takes a few milliseconds.
const MAX_ROWS_PER_SWEEP: u64 = 2_000;

/// Result of moving the anchor.
pub(super) struct PruneOutcome {
    pub removed: u64,
    /// The row that records the pruning.
    pub row: EncodedRow,
}

/// Returns the sequence number of the last row to prune: it and all rows before it are older than `before`. Returns 0
/// if there is no such row.
pub(super) fn last_row_before(db: &Connection, before: Timestamp) -> rusqlite::Result<u64> {
    let db = db.unchecked_transaction()?;
    let anchor = ledger_reads::read_anchor(&db)?.seq;
    let mut select = db.prepare("SELECT seq FROM log WHERE seq > ? AND at >= ? ORDER BY seq LIMIT 1")?;
    let first_kept: Option<u64> =
        select.query_row(params![anchor, to_unix_nanoseconds(before)], |row| row.get(0)).optional()?;
    match first_kept {
        Some(first_kept) => Ok(first_kept.saturating_sub(1)),
        None => Ok(chain_head_file::chain_head(&db, CALL_LOG_TABLE)?.seq),
    }
}

/// Moves the anchor to a later row. All rows up to it become invisible to readers.
pub(super) fn move_anchor(
    db: &Connection,
    through: u64,
    now: Timestamp,
) -> rusqlite::Result<Result<Option<PruneOutcome>, StoreError>> {
    let anchor = ledger_reads::read_anchor(db)?;
    let mut select = db.prepare_cached("SELECT seq, hash FROM log WHERE seq = ? AND seq > ?")?;
    let Some(last) = select.query_row(params![through, anchor.seq], log_table_reader::read_head).optional()? else {
        return Ok(Ok(None));
    };
    let removed = last.seq - anchor.seq;
    let row = match encode_prune_row(last, removed, now) {
        Ok(row) => row,
        Err(error) => return Ok(Err(error)),
    };
    db.execute("UPDATE anchor SET seq = ?, hash = ?", params![last.seq, last.hash.0])?;
    Ok(Ok(Some(PruneOutcome { removed, row })))
}

fn encode_prune_row(last: ChainHead, removed: u64, now: Timestamp) -> Result<EncodedRow, StoreError> {
    EncodedRow::of(&prune_record(last, removed, now)?)
}

/// Deletes some of the rows up to the anchor. Returns whether there are more to delete.
pub(super) fn delete_pruned_rows(db: &Connection) -> rusqlite::Result<bool> {
    let anchor = ledger_reads::read_anchor(db)?.seq;
    let first: Option<u64> = db.query_row("SELECT min(seq) FROM log", [], |row| row.get(0))?;
    let Some(first) = first.filter(|first| *first <= anchor) else { return Ok(false) };
    let last = anchor.min(first + MAX_ROWS_PER_SWEEP - 1);
    db.execute("DELETE FROM log WHERE seq <= ?", [last])?;
    Ok(last < anchor)
}
