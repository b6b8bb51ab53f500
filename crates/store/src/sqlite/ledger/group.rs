//! A group of jobs inside its transaction: each is decided by what those before it left.

use jiff::Timestamp;
use rusqlite::{CachedStatement, Connection, params};

use super::counters::Counters;
use super::job::{Entry, Job, Keep, Reserve};
use super::prune;
use crate::StoreError;
use crate::chain::Head;
use crate::counter::Taken;
use crate::ledger::Exhausted;

/// What a group's transaction says to one job.
pub(super) enum Decided {
    Taken(Vec<Taken>),
    Exhausted(Exhausted),
    Pruned(u64),
    Swept { more: bool },
    Done,
    Failed(StoreError),
}

/// What a group is decided with.
pub(super) struct Group<'a> {
    connection: &'a Connection,
    counters: &'a mut Counters,
    end: &'a mut Head,
    insert: CachedStatement<'a>,
}

impl<'a> Group<'a> {
    pub fn begin(connection: &'a Connection, counters: &'a mut Counters, end: &'a mut Head) -> rusqlite::Result<Self> {
        let insert = connection.prepare_cached("INSERT INTO log (seq, at, body, hash) VALUES (?, ?, ?, ?)")?;
        Ok(Self { connection, counters, end, insert })
    }

    /// Decides all of a group, and writes their rows.
    pub fn decided(mut self, group: &[Job], now: Timestamp) -> rusqlite::Result<Vec<Decided>> {
        group.iter().map(|job| self.decide(job, now)).collect()
    }

    fn decide(&mut self, job: &Job, now: Timestamp) -> rusqlite::Result<Decided> {
        match job {
            Job::Reserve(reserve) => self.reserve(reserve, now),
            Job::Keep(Keep { entry, taken }) => {
                self.counters.give_back(self.connection, taken)?;
                self.append(entry)?;
                Ok(Decided::Done)
            }
            Job::Prune { through, .. } => {
                let entry = match prune::move_anchor(self.connection, *through, now)? {
                    Ok(Some(moved)) => moved,
                    Ok(None) => return Ok(Decided::Pruned(0)),
                    Err(error) => return Ok(Decided::Failed(error)),
                };
                self.append(&entry.row)?;
                Ok(Decided::Pruned(entry.removed))
            }
            Job::Sweep(_) => Ok(Decided::Swept { more: prune::sweep(self.connection)? }),
            Job::Flush(_) | Job::Wake => Ok(Decided::Done),
            #[cfg(test)]
            Job::Tamper(tamper, _) => {
                tamper(self.connection);
                Ok(Decided::Done)
            }
        }
    }

    fn reserve(&mut self, reserve: &Reserve, now: Timestamp) -> rusqlite::Result<Decided> {
        for claim in &reserve.claims {
            if !self.counters.load(self.connection, &claim.key)? {
                return Ok(Decided::Failed(StoreError::Corrupt(format!("counter `{}`", claim.key))));
            }
        }
        match self.counters.take(&reserve.claims, now) {
            Ok(taken) => {
                self.append(&reserve.intent)?;
                Ok(Decided::Taken(taken))
            }
            Err(exhausted) => Ok(Decided::Exhausted(exhausted)),
        }
    }

    /// Writes rows that were decided before.
    pub fn put(mut self, rows: &[Entry]) -> rusqlite::Result<()> {
        rows.iter().try_for_each(|row| self.append(row))
    }

    fn append(&mut self, entry: &Entry) -> rusqlite::Result<()> {
        let end = self.end.followed_by(entry.at, &entry.body);
        self.insert.execute(params![end.seq, entry.at, entry.body, end.hash.0])?;
        *self.end = end;
        Ok(())
    }
}
