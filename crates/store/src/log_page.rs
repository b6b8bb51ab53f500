//! Stored rows of a log with the input of their hashes, so that a copy of the log can be verified elsewhere.

use crate::StoreError;
use crate::call_record::CallRecord;
use crate::hash_chain::RowHash;
use crate::ledger::CallLogRow;

/// Maximum number of rows of a page.
pub(crate) const MAX_PAGE_ROWS: usize = 1_000;
/// Maximum number of bytes of the bodies of a page; a single row may exceed it.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// A stored row of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedRow {
    /// Sequence number.
    pub seq: u64,
    /// Time in nanoseconds since 1970.
    pub nanoseconds: i64,
    /// The record: a JSON object.
    pub body: String,
    /// Hash of the preceding row, or of the prune anchor if that row was removed.
    pub previous: RowHash,
    /// The SHA-256 of `previous`, `seq`, `nanoseconds` (both as eight bytes, big-endian) and `body`.
    pub hash: RowHash,
}

impl ChainedRow {
    /// The row as one line of JSON: the input of the hash, followed by the members of the body as stored. Hence the body is a
    /// brace followed by everything after `"nanoseconds":N,`.
    pub fn to_json_line(&self) -> String {
        let Self { seq, nanoseconds, body, previous, hash } = self;
        let fields = body.strip_prefix('{').unwrap_or(body);
        format!(r#"{{"seq":{seq},"previous":"{previous}","hash":"{hash}","nanoseconds":{nanoseconds},{fields}"#)
    }

    /// Parses a row of the call log.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is not a call record.
    pub fn parse_call_row(&self) -> Result<CallLogRow, StoreError> {
        Ok(CallLogRow { seq: self.seq, record: CallRecord::from_body(&self.body)? })
    }
}

/// A page that is being filled.
#[derive(Debug, Default)]
pub(crate) struct LogPage {
    rows: Vec<ChainedRow>,
    bytes: usize,
}

impl LogPage {
    /// Adds a row. Returns `false` if the page is full.
    pub fn push(&mut self, row: ChainedRow) -> bool {
        self.bytes += row.body.len();
        self.rows.push(row);
        self.rows.len() < MAX_PAGE_ROWS && self.bytes < MAX_PAGE_BYTES
    }

    pub fn into_rows(self) -> Vec<ChainedRow> {
        self.rows
    }
}
