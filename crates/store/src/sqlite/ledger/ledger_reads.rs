//! Read operations on the ledger. Each uses its own connection, so that the writer never waits.

use rusqlite::{Connection, params};

use crate::audit_chain::{ChainHead, ChainReport, ChainVerification};
use crate::model::{CallLogFilter, CallLogRow, CallRecord, StoreError};
use crate::sqlite::db_file::DbFile;
use crate::sqlite::{chain_head_file, log_table_reader};

/// Runs a read on a blocking thread.
pub(super) async fn run_blocking<T: Send + 'static>(
    file: &DbFile,
    read: impl FnOnce(&DbFile) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let file = file.clone();
    let task = tokio::task::spawn_blocking(move || read(&file));
    task.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
}

/// Returns the anchor, which is the last pruned row.
pub(super) fn read_anchor(db: &Connection) -> rusqlite::Result<ChainHead> {
    db.prepare_cached("SELECT seq, hash FROM anchor")?.query_row([], log_table_reader::read_head)
}

/// Returns the newest rows that match a filter, oldest first.
pub(super) fn filter_rows(db: &Connection, filter: &CallLogFilter) -> Result<Vec<CallLogRow>, StoreError> {
    let db = db.unchecked_transaction()?;
    let after = filter.after.unwrap_or_default().max(read_anchor(&db)?.seq);
    let before = filter.before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let mut statement = db.prepare("SELECT seq, body FROM log WHERE seq > ? AND seq < ? ORDER BY seq DESC")?;
    let mut found = statement.query(params![after, before])?;
    let needles = required_substrings(filter)?;
    let mut rows = Vec::new();
    while rows.len() < filter.limit
        && let Some(row) = found.next()?
    {
        let body = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        if !needles.iter().all(|needle| body.contains(needle)) {
            continue;
        }
        let row = CallLogRow { seq: row.get(0)?, record: CallRecord::from_body(body)? };
        if filter.admits(&row) {
            rows.push(row);
        }
    }
    rows.reverse();
    Ok(rows)
}

/// Returns the substrings that a row must contain to match the filter. Rows without them need not be parsed.
fn required_substrings(filter: &CallLogFilter) -> Result<Vec<String>, StoreError> {
    let wanted = [&filter.grant, &filter.server, &filter.target, &filter.call];
    let mut needles = Vec::new();
    for word in wanted.into_iter().flatten() {
        needles.push(serde_json::to_string(word).map_err(|error| StoreError::Corrupt(error.to_string()))?);
    }
    Ok(needles)
}

/// Verifies the whole chain.
pub(super) fn verify_chain(
    file: &DbFile,
    db: &Connection,
    mut known: Vec<ChainHead>,
) -> Result<ChainReport, StoreError> {
    // Read the head file before the log: in the meantime the log can only grow.
    known.extend(chain_head_file::read_heads(file)?);
    let db = db.unchecked_transaction()?;
    let anchor = read_anchor(&db)?;
    let mut inspection = ChainVerification::start(anchor, known);
    let mut statement = db.prepare("SELECT seq, at, body, hash FROM log WHERE seq > ? ORDER BY seq")?;
    let mut rows = statement.query([anchor.seq])?;
    while let Some(row) = rows.next()? {
        let holds = match log_table_reader::read_row(row) {
            Ok(line) => inspection.verify_call_row(line.seq, line.at, line.body, line.hash),
            Err(seq) => inspection.record_unreadable(seq),
        };
        if !holds {
            break;
        }
    }
    Ok(ChainReport { missing_head_marker: chain_head_file::missing_marker(file), ..inspection.finish() })
}
