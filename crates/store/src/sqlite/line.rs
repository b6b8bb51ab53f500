//! Rows of the two logs, which look alike: `seq, at, body, hash`.

use rusqlite::{Connection, OptionalExtension, Row};

use crate::chain::{Hash, Head};

/// A row of a log.
pub(super) struct Line<'a> {
    pub seq: u64,
    pub at: i64,
    pub body: &'a str,
    pub hash: Hash,
}

/// Reads a row; its number if that is all that can be read.
pub(super) fn read<'a>(row: &'a Row<'_>) -> Result<Line<'a>, u64> {
    let seq = row.get(0).unwrap_or_default();
    let line = || {
        let body = row.get_ref(2).ok()?.as_str().ok()?;
        Some(Line { seq, at: row.get(1).ok()?, body, hash: Hash(row.get(3).ok()?) })
    };
    line().ok_or(seq)
}

/// The end of a log; none if it has no rows.
pub(super) fn last(db: &Connection, table: &str) -> rusqlite::Result<Option<Head>> {
    let mut statement = db.prepare_cached(&format!("SELECT seq, hash FROM {table} ORDER BY seq DESC LIMIT 1"))?;
    statement.query_row([], head).optional()
}

/// Reads a number and a hash.
pub(super) fn head(row: &Row<'_>) -> rusqlite::Result<Head> {
    Ok(Head { seq: row.get(0)?, hash: Hash(row.get(1)?) })
}
