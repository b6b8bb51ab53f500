//! A group of jobs inside its transaction: each is decided by what those before it left.

use jiff::Timestamp;
use rusqlite::Connection;

use super::counter_cache::Counters;
use super::job::{Entry, Job, Keep, Reserve};
use super::prune;
use super::row_buffer::RowBuffer;
use crate::StoreError;
use crate::counter::AppliedCharge;
use crate::hash_chain::ChainHead;
use crate::ledger::ExhaustedCounter;

/// What a group's transaction says to one job.
pub(super) enum Decided {
    Taken(Vec<AppliedCharge>),
    Exhausted(ExhaustedCounter),
    Pruned(u64),
    Swept { more: bool },
    Done,
    Failed(StoreError),
}

/// What a group is decided with.
pub(super) struct Group<'a> {
    connection: &'a Connection,
    counters: &'a mut Counters,
    end: &'a mut ChainHead,
    rows: &'a mut RowBuffer,
}

impl<'a> Group<'a> {
    pub fn new(
        connection: &'a Connection,
        counters: &'a mut Counters,
        end: &'a mut ChainHead,
        rows: &'a mut RowBuffer,
    ) -> Self {
        Self { connection, counters, end, rows }
    }

    /// Decides all of a group, and hands on their rows.
    pub fn decided(mut self, group: &[Job], now: Timestamp) -> rusqlite::Result<Vec<Decided>> {
        group.iter().map(|job| self.decide(job, now)).collect()
    }

    fn decide(&mut self, job: &Job, now: Timestamp) -> rusqlite::Result<Decided> {
        if !job.is_row() {
            // It may look into the table.
            self.rows.flush(self.connection)?;
        }
        match job {
            Job::Reserve(reserve) => self.reserve(reserve, now),
            Job::Keep(Keep { entry, taken }) => {
                self.counters.give_back(self.connection, taken)?;
                self.append(entry);
                Ok(Decided::Done)
            }
            Job::Prune { through, .. } => {
                let entry = match prune::move_anchor(self.connection, *through, now)? {
                    Ok(Some(moved)) => moved,
                    Ok(None) => return Ok(Decided::Pruned(0)),
                    Err(error) => return Ok(Decided::Failed(error)),
                };
                self.append(&entry.row);
                Ok(Decided::Pruned(entry.removed))
            }
            Job::Sweep(_) => Ok(Decided::Swept { more: prune::delete_pruned_rows(self.connection)? }),
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
                self.append(&reserve.intent);
                Ok(Decided::Taken(taken))
            }
            Err(exhausted) => Ok(Decided::Exhausted(exhausted)),
        }
    }

    /// Hands on rows that were decided before.
    pub fn put(mut self, rows: &[Entry]) {
        rows.iter().for_each(|row| self.append(row));
    }

    fn append(&mut self, entry: &Entry) {
        *self.end = self.end.next(entry.at, &entry.body);
        self.rows.push(*self.end, entry);
    }
}
