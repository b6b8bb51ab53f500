//! Rows of executed requests that are not yet in the table. They are inserted in groups: if they were inserted one by
//! one between other work, SQLite's code would be evicted from the processor cache each time.

use rusqlite::{Connection, params};

use super::writer_request::EncodedRow;
use crate::audit_chain::ChainHead;

/// Number of rows inserted together. Inserting them takes a tenth of a millisecond, and a caller may have to wait for
/// it.
const FLUSH_ROWS: usize = 64;
/// Maximum capacity in bytes that the buffer for row bodies keeps when it is cleared.
const RETAINED_BODY_BYTES: usize = 64 << 10;

/// Rows that follow the last row in the table, in order.
#[derive(Debug, Default)]
pub(super) struct RowBuffer {
    /// The concatenated bodies of the rows.
    bodies: String,
    rows: Vec<BufferedRow>,
}

#[derive(Debug)]
struct BufferedRow {
    /// Head of the log after the row.
    head: ChainHead,
    at: i64,
    /// End of the row's body in `bodies`.
    body_end: usize,
}

impl RowBuffer {
    pub fn push(&mut self, end: ChainHead, EncodedRow { at, body }: &EncodedRow) {
        self.bodies.push_str(body);
        self.rows.push(BufferedRow { head: end, at: *at, body_end: self.bodies.len() });
    }

    /// Returns whether the rows should be inserted now.
    pub fn is_flush_due(&self) -> bool {
        self.rows.len() >= FLUSH_ROWS
    }

    /// Inserts the rows into the table. After an error, they are still buffered and the transaction must be rolled
    /// back.
    pub fn flush(&mut self, db: &Connection) -> rusqlite::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut insert = db.prepare_cached("INSERT INTO log (seq, at, body, hash) VALUES (?, ?, ?, ?)")?;
        let mut start = 0;
        for BufferedRow { head, at, body_end } in &self.rows {
            // INVARIANT: each body ends where the next one starts.
            let body = self.bodies.get(start..*body_end).unwrap_or_default();
            insert.execute(params![head.seq, at, body, head.hash.0])?;
            start = *body_end;
        }
        self.clear();
        Ok(())
    }

    /// Drops the rows of an abandoned transaction.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.bodies.clear();
        self.bodies.shrink_to(RETAINED_BODY_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_inserted_in_order_and_stay_buffered_on_failure() {
        let db = Connection::open_in_memory().expect("a database");
        let (mut rows, mut end) = (RowBuffer::default(), ChainHead::EMPTY);
        for body in ["one", "", "three"] {
            let entry = EncodedRow { at: 7, body: body.to_owned() };
            end = end.next(entry.at, &entry.body);
            rows.push(end, &entry);
        }
        rows.flush(&db).expect_err("there is no table");
        db.execute_batch("CREATE TABLE log (seq INTEGER PRIMARY KEY, at, body, hash)").expect("a table");
        rows.flush(&db).expect("rows");
        rows.flush(&db).expect("nothing is left");
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?));
        let last: (u64, String, Vec<u8>) = db
            .query_row("SELECT count(*), group_concat(body, ','), max(hash) FILTER (WHERE seq = 3) FROM log", [], read)
            .expect("a row");
        assert_eq!(last, (3, "one,,three".to_owned(), end.hash.0.to_vec()));
    }
}
