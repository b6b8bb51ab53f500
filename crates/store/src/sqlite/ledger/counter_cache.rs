//! Counters at hand and in their table.
//!
//! Those at hand are a cache: bounded, dropped whenever another process has written or a transaction has failed.

use foldhash::{HashSet, HashSetExt};
use jiff::{Timestamp, ToSpan};
use rusqlite::{Connection, OptionalExtension, params};

use crate::clock::{from_unix_nanoseconds, to_unix_nanoseconds};
use crate::counter::{AppliedCharge, CounterCharge, CounterKey, CounterState};
use crate::counter_map::CounterMap;
use crate::ledger::ExhaustedCounter;

/// The most that are kept at hand; they are some 20 MB.
const MAX_CACHED_COUNTERS: usize = 100_000;
/// How long a counter is kept after the last of it has stopped to count.
const RETENTION_DAYS: i64 = 40;
/// How many rows one group looks at when old ones are forgotten.
const EXPIRY_SCAN_ROWS: usize = 200;

const UPSERT_COUNTER: &str = "INSERT INTO counters (key, state, ends) VALUES (?, ?, ?) \
                      ON CONFLICT DO UPDATE SET state = excluded.state, ends = excluded.ends";

/// The counters, and which of them the present transaction has changed.
pub(super) struct Counters {
    book: CounterMap,
    touched: HashSet<CounterKey>,
    /// Which of them its last group has changed.
    fresh: HashSet<CounterKey>,
    /// When to look for old ones again.
    next_look: Timestamp,
    /// Where the look has come to; none if there is none under way.
    looked_until: Option<String>,
}

impl Counters {
    pub fn new() -> Self {
        Self {
            book: CounterMap::new(),
            touched: HashSet::new(),
            fresh: HashSet::new(),
            next_look: Timestamp::MIN,
            looked_until: None,
        }
    }

    /// Lets go of everything at hand.
    pub fn read_anew(&mut self, db: &Connection) -> rusqlite::Result<()> {
        self.book.clear();
        self.touched.clear();
        self.fresh.clear();
        let floor = db.prepare_cached("SELECT at FROM floor")?.query_row([], |row| row.get(0))?;
        self.book.min_window_start = from_unix_nanoseconds(floor);
        Ok(())
    }

    /// Puts a counter at hand. False if what is stored is none.
    pub fn load(&mut self, db: &Connection, key: &CounterKey) -> rusqlite::Result<bool> {
        if self.book.get(key).is_some() {
            return Ok(true);
        }
        let mut select = db.prepare_cached("SELECT state, ends FROM counters WHERE key = ?")?;
        let read = |row: &rusqlite::Row<'_>| Ok(CounterState::decode(row.get_ref(0)?.as_str()?, row.get(1)?));
        let counter =
            select.query_row([key.as_str()], read).optional()?.unwrap_or_else(|| Some(CounterState::default()));
        let is_readable = counter.is_some();
        if let Some(counter) = counter {
            self.book.insert(key.clone(), counter);
        }
        Ok(is_readable)
    }

    /// Takes all claims or none. Their counters are at hand.
    pub fn take(&mut self, claims: &[CounterCharge], now: Timestamp) -> Result<Vec<AppliedCharge>, ExhaustedCounter> {
        let taken = self.book.charge_all(claims, now)?;
        taken.iter().for_each(|taken| self.touch(&taken.key));
        Ok(taken)
    }

    fn touch(&mut self, key: &CounterKey) {
        if !self.fresh.contains(key) {
            self.fresh.insert(key.clone());
        }
    }

    /// What the last group has changed.
    pub fn fresh(&self) -> impl Iterator<Item = (&str, &CounterState)> {
        self.fresh.iter().filter_map(|key| Some((key.as_str(), self.book.get(key)?)))
    }

    /// Ends a group: what it changed is stored with the transaction.
    pub fn keep_fresh(&mut self) {
        self.touched.extend(self.fresh.drain());
    }

    /// Stores counters as somebody else wrote them down.
    pub fn put(db: &Connection, written: &[(String, String, i64)]) -> rusqlite::Result<()> {
        let mut upsert = db.prepare_cached(UPSERT_COUNTER)?;
        written.iter().try_for_each(|(key, state, ends)| upsert.execute(params![key, state, ends]).map(drop))
    }

    /// Gives back what still counts.
    pub fn give_back(&mut self, db: &Connection, taken: &[AppliedCharge]) -> rusqlite::Result<()> {
        for taken in taken {
            // One that cannot be read stays as it is: what was taken is then spent.
            if self.load(db, &taken.key)? {
                self.touch(&taken.key);
            }
        }
        self.book.refund_all(taken);
        Ok(())
    }

    /// Writes what was changed, one row a counter.
    pub fn store(&mut self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        self.keep_fresh();
        if self.touched.is_empty() {
            return Ok(());
        }
        let mut upsert = db.prepare_cached(UPSERT_COUNTER)?;
        for key in self.touched.drain() {
            if let Some(counter) = self.book.get(&key) {
                upsert.execute(params![key.as_str(), counter.encode(), counter.expiry_second()])?;
            }
        }
        drop(upsert);
        self.forget_old(db, now)?;
        if self.book.len() > MAX_CACHED_COUNTERS {
            self.book.clear();
        }
        Ok(())
    }

    /// Once a day, removes counters of which nothing has counted for long; some rows with each group.
    fn forget_old(&mut self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        let before = now.checked_sub((RETENTION_DAYS * 24).hours()).unwrap_or(Timestamp::MIN);
        let from = match self.looked_until.take() {
            Some(key) => key,
            None if now < self.next_look => return Ok(()),
            None => {
                self.next_look = now.checked_add(24.hours()).unwrap_or(Timestamp::MAX);
                String::new()
            }
        };
        let (old, last) = old_after(db, &from, before)?;
        self.looked_until = last;
        if old.is_empty() {
            return Ok(());
        }
        // INVARIANT: the floor goes up with the first counter that is forgotten, in the same transaction. Should the
        // clock go back behind it, the counter does not start anew in a window that was used up.
        self.book.min_window_start = self.book.min_window_start.max(before);
        db.execute("UPDATE floor SET at = max(at, ?)", [to_unix_nanoseconds(before)])?;
        for key in old {
            db.execute("DELETE FROM counters WHERE key = ?", [&key])?;
            self.book.remove(&key);
        }
        Ok(())
    }
}

/// The old ones among the next rows behind a key, and the last key if there may be more.
fn old_after(db: &Connection, from: &str, before: Timestamp) -> rusqlite::Result<(Vec<String>, Option<String>)> {
    let mut select = db.prepare_cached("SELECT key, ends FROM counters WHERE key > ? ORDER BY key LIMIT ?")?;
    let mut rows = select.query(params![from, EXPIRY_SCAN_ROWS])?;
    let (mut old, mut last, mut count) = (Vec::new(), None, 0);
    while let Some(row) = rows.next()? {
        let key: String = row.get(0)?;
        if row.get::<_, i64>(1)? < before.as_second() {
            old.push(key.clone());
        }
        last = Some(key);
        count += 1;
    }
    Ok((old, last.filter(|_| count == EXPIRY_SCAN_ROWS)))
}
