//! Rows that are decided and on their way into the database. They go in many at once: one after another, between other
//! work, each would find nothing of the database's program in the processor's nearest memory.

use rusqlite::{Connection, params};

use super::writer_request::EncodedRow;
use crate::hash_chain::ChainHead;

/// So many are put in together. That takes a tenth of a millisecond, for which a caller may wait.
const FLUSH_ROWS: usize = 64;
/// What is kept ready for the texts of the next ones.
const RETAINED_BODY_BYTES: usize = 64 << 10;

/// Rows that follow the last one of the table, in their order.
#[derive(Debug, Default)]
pub(super) struct RowBuffer {
    /// Their bodies, one behind the other.
    bodies: String,
    rows: Vec<BufferedRow>,
}

#[derive(Debug)]
struct BufferedRow {
    /// The end of the log behind it.
    head: ChainHead,
    at: i64,
    /// Where its body ends.
    body_end: usize,
}

impl RowBuffer {
    pub fn push(&mut self, end: ChainHead, EncodedRow { at, body }: &EncodedRow) {
        self.bodies.push_str(body);
        self.rows.push(BufferedRow { head: end, at: *at, body_end: self.bodies.len() });
    }

    /// Whether it is time to put them in.
    pub fn is_flush_due(&self) -> bool {
        self.rows.len() >= FLUSH_ROWS
    }

    /// Puts them into the table. After an error they are still here, and the transaction is to be rolled back.
    pub fn flush(&mut self, db: &Connection) -> rusqlite::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut insert = db.prepare_cached("INSERT INTO log (seq, at, body, hash) VALUES (?, ?, ?, ?)")?;
        let mut start = 0;
        for BufferedRow { head: end, at, body_end: until } in &self.rows {
            // INVARIANT: bodies end where the next ones begin.
            let body = self.bodies.get(start..*until).unwrap_or_default();
            insert.execute(params![end.seq, at, body, end.hash.0])?;
            start = *until;
        }
        self.clear();
        Ok(())
    }

    /// Forgets them: their transaction is no more.
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
    fn rows_go_in_together_and_in_their_order_and_stay_where_they_cannot() {
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
