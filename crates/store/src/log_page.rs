//! Rows as a log keeps them, with what their hashes cover: enough to verify a copy of the log elsewhere.

use crate::StoreError;
use crate::call_record::CallRecord;
use crate::hash_chain::RowHash;
use crate::ledger::CallLogRow;

/// The most rows of one page.
pub(crate) const MAX_PAGE_ROWS: usize = 1_000;
/// The most bytes of one page's texts; one row may have more.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// A row of a log, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedRow {
    /// Its number.
    pub seq: u64,
    /// When, in nanoseconds since 1970.
    pub nanoseconds: i64,
    /// What it says: a JSON object.
    pub body: String,
    /// The hash of the row before; of the last row that was removed, if that is the one.
    pub previous: RowHash,
    /// The SHA-256 of `previous`, `seq`, `nanoseconds` (both as eight bytes, the highest first) and `body`.
    pub hash: RowHash,
}

impl ChainedRow {
    /// The row as one JSON object on one line: what the hash needs, and then the body's own fields as they are kept.
    /// So the body is a brace and all that stands behind `"nanoseconds":N,`.
    pub fn to_json_line(&self) -> String {
        let Self { seq, nanoseconds, body, previous, hash } = self;
        let fields = body.strip_prefix('{').unwrap_or(body);
        format!(r#"{{"seq":{seq},"previous":"{previous}","hash":"{hash}","nanoseconds":{nanoseconds},{fields}"#)
    }

    /// What a row of the call log says.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is none.
    pub fn parse_call_row(&self) -> Result<CallLogRow, StoreError> {
        Ok(CallLogRow { seq: self.seq, record: CallRecord::from_body(&self.body)? })
    }
}

/// A page that fills up.
#[derive(Debug, Default)]
pub(crate) struct LogPage {
    rows: Vec<ChainedRow>,
    bytes: usize,
}

impl LogPage {
    /// Takes the next row. False if the page is full with it.
    pub fn push(&mut self, row: ChainedRow) -> bool {
        self.bytes += row.body.len();
        self.rows.push(row);
        self.rows.len() < MAX_PAGE_ROWS && self.bytes < MAX_PAGE_BYTES
    }

    pub fn into_rows(self) -> Vec<ChainedRow> {
        self.rows
    }
}
