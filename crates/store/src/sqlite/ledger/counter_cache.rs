//! Counters in memory and in the database table.
//!
//! The counters in memory are a bounded cache, which is cleared after another process has written to the database or a
//! transaction has failed.

use foldhash::{HashSet, HashSetExt};
use jiff::{Timestamp, ToSpan};
use rusqlite::{Connection, OptionalExtension, params};

use crate::clock::{from_unix_nanoseconds, to_unix_nanoseconds};
use crate::counters::{CounterMap, CounterState};
use crate::model::{AppliedCharge, CounterCharge, CounterKey, ExhaustedCounter};

/// Maximum number of cached counters, which take about 20 MB.
const MAX_CACHED_COUNTERS: usize = 100_000;
/// How long a counter stays stored after it has expired.
const RETENTION_DAYS: i64 = 40;
/// Number of rows that each batch checks for expired counters.
const EXPIRY_SCAN_ROWS: usize = 200;

const UPSERT_COUNTER: &str = "INSERT INTO counters (key, state, ends) VALUES (?, ?, ?) \
                      ON CONFLICT DO UPDATE SET state = excluded.state, ends = excluded.ends";

/// Cached counters, including those that the open transaction has changed.
pub(super) struct CounterCache {
    counters: CounterMap,
    changed_in_tx: HashSet<CounterKey>,
    /// Counters changed by the last batch.
    changed_in_batch: HashSet<CounterKey>,
    /// Time of the next scan for expired counters.
    next_expiry_scan: Timestamp,
    /// Last key reached by the scan in progress; `None` if there is no scan.
    expiry_scan_cursor: Option<String>,
}

impl CounterCache {
    pub fn new() -> Self {
        Self {
            counters: CounterMap::new(),
            changed_in_tx: HashSet::new(),
            changed_in_batch: HashSet::new(),
            next_expiry_scan: Timestamp::MIN,
            expiry_scan_cursor: None,
        }
    }

    /// Drops all cached counters.
    pub fn reload(&mut self, db: &Connection) -> rusqlite::Result<()> {
        self.counters.clear();
        self.changed_in_tx.clear();
        self.changed_in_batch.clear();
        let floor = db.prepare_cached("SELECT at FROM floor")?.query_row([], |row| row.get(0))?;
        self.counters.min_window_start = from_unix_nanoseconds(floor);
        Ok(())
    }

    /// Loads a counter into the cache. Returns `false` if the stored counter is malformed.
    pub fn load(&mut self, db: &Connection, key: &CounterKey) -> rusqlite::Result<bool> {
        if self.counters.get(key).is_some() {
            return Ok(true);
        }
        let mut select = db.prepare_cached("SELECT state, ends FROM counters WHERE key = ?")?;
        let read = |row: &rusqlite::Row<'_>| Ok(CounterState::decode(row.get_ref(0)?.as_str()?, row.get(1)?));
        let counter =
            select.query_row([key.as_str()], read).optional()?.unwrap_or_else(|| Some(CounterState::default()));
        let is_readable = counter.is_some();
        if let Some(counter) = counter {
            self.counters.insert(key.clone(), counter);
        }
        Ok(is_readable)
    }

    /// Applies either all charges or none. Their counters must already be loaded.
    pub fn charge_all(
        &mut self,
        charges: &[CounterCharge],
        now: Timestamp,
    ) -> Result<Vec<AppliedCharge>, ExhaustedCounter> {
        let applied = self.counters.charge_all(charges, now)?;
        applied.iter().for_each(|applied| self.mark_changed(&applied.key));
        Ok(applied)
    }

    fn mark_changed(&mut self, key: &CounterKey) {
        if !self.changed_in_batch.contains(key) {
            self.changed_in_batch.insert(key.clone());
        }
    }

    /// Returns the counters that the last batch changed.
    pub fn changed_in_batch(&self) -> impl Iterator<Item = (&str, &CounterState)> {
        self.changed_in_batch.iter().filter_map(|key| Some((key.as_str(), self.counters.get(key)?)))
    }

    /// Ends a batch. Its changes are stored when the transaction commits.
    pub fn end_batch(&mut self) {
        self.changed_in_tx.extend(self.changed_in_batch.drain());
    }

    /// Stores counters from the redo log.
    pub fn put(db: &Connection, counters: &[(String, String, i64)]) -> rusqlite::Result<()> {
        let mut upsert = db.prepare_cached(UPSERT_COUNTER)?;
        counters.iter().try_for_each(|(key, state, ends)| upsert.execute(params![key, state, ends]).map(drop))
    }

    /// Refunds those charges that still count towards their limits.
    pub fn refund(&mut self, db: &Connection, applied: &[AppliedCharge]) -> rusqlite::Result<()> {
        for applied in applied {
            // A malformed counter stays as it is; the charge is then spent.
            if self.load(db, &applied.key)? {
                self.mark_changed(&applied.key);
            }
        }
        self.counters.refund_all(applied);
        Ok(())
    }

    /// Writes the changed counters, one row each.
    pub fn store(&mut self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        self.end_batch();
        if self.changed_in_tx.is_empty() {
            return Ok(());
        }
        let mut upsert = db.prepare_cached(UPSERT_COUNTER)?;
        for key in self.changed_in_tx.drain() {
            if let Some(counter) = self.counters.get(&key) {
                upsert.execute(params![key.as_str(), counter.encode(), counter.expiry_second()])?;
            }
        }
        drop(upsert);
        self.remove_expired(db, now)?;
        if self.counters.len() > MAX_CACHED_COUNTERS {
            self.counters.clear();
        }
        Ok(())
    }

    /// Removes counters that expired long ago. Runs once a day, and each batch scans only some rows.
    fn remove_expired(&mut self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        let before = now.checked_sub((RETENTION_DAYS * 24).hours()).unwrap_or(Timestamp::MIN);
        let from = match self.expiry_scan_cursor.take() {
            Some(key) => key,
            None if now < self.next_expiry_scan => return Ok(()),
            None => {
                self.next_expiry_scan = now.checked_add(24.hours()).unwrap_or(Timestamp::MAX);
                String::new()
            }
        };
        let (old, last) = expired_after(db, &from, before)?;
        self.expiry_scan_cursor = last;
        if old.is_empty() {
            return Ok(());
        }
        // INVARIANT: `floor` rises in the same transaction that removes the first counter. If the clock is then set back, the
        // counter does not start again in a window that was exhausted.
        self.counters.min_window_start = self.counters.min_window_start.max(before);
        db.execute("UPDATE floor SET at = max(at, ?)", [to_unix_nanoseconds(before)])?;
        for key in old {
            db.execute("DELETE FROM counters WHERE key = ?", [&key])?;
            self.counters.remove(&key);
        }
        Ok(())
    }
}

/// Returns the expired counters among the next rows after a key, and the last key scanned if there may be more.
fn expired_after(db: &Connection, from: &str, before: Timestamp) -> rusqlite::Result<(Vec<String>, Option<String>)> {
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
