//! Stored log rows with all values that their hashes are computed from, so that a copy of the log can be verified
//! elsewhere.

use crate::audit_chain::RowHash;
use crate::model::{CallLogRow, CallRecord, StoreError};

/// Maximum number of rows per page.
pub(crate) const MAX_PAGE_ROWS: usize = 1_000;
/// Maximum total size of the bodies in a page, in bytes. A single row may exceed it.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// A stored row of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedRow {
    /// Sequence number.
    pub seq: u64,
    /// Time in nanoseconds since 1970.
    pub nanoseconds: i64,
    /// The record, as a JSON object.
    pub body: String,
    /// Hash of the preceding row; if that row was pruned, the hash kept in the anchor.
    pub previous: RowHash,
    /// The SHA-256 of `previous`, `seq`, `nanoseconds` (both as eight bytes, big-endian) and `body`.
    pub hash: RowHash,
}

impl ChainedRow {
    /// Returns the row as one line of JSON: the sequence number, hashes and time, followed by the members of the body
    /// exactly as stored. To recover the body, take everything after `"nanoseconds":N,` and put an opening brace in
    /// front of it.
    pub fn to_json_line(&self) -> String {
        let Self { seq, nanoseconds, body, previous, hash } = self;
        let fields = body.strip_prefix('{').unwrap_or(body);
        format!(r#"{{"seq":{seq},"previous":"{previous}","hash":"{hash}","nanoseconds":{nanoseconds},{fields}"#)
    }

    /// Parses a row of the call log.
    ///
    /// # Errors
    /// Returns [`StoreError::Corrupt`] if the row is not a call record.
    pub fn parse_call_row(&self) -> Result<CallLogRow, StoreError> {
        Ok(CallLogRow { seq: self.seq, record: CallRecord::from_body(&self.body)? })
    }
}

/// A page being filled.
#[derive(Debug, Default)]
pub(crate) struct LogPage {
    rows: Vec<ChainedRow>,
    bytes: usize,
}

impl LogPage {
    /// Adds a row. Returns `false` once the page is full.
    pub fn push(&mut self, row: ChainedRow) -> bool {
        self.bytes += row.body.len();
        self.rows.push(row);
        self.rows.len() < MAX_PAGE_ROWS && self.bytes < MAX_PAGE_BYTES
    }

    pub fn into_rows(self) -> Vec<ChainedRow> {
        self.rows
    }
}
