//! The thread that writes: it takes whatever is queued as one group, has it written, and answers.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::job::{Answer, AnswerTo, Granted, Job, Reserve, Shared};
use super::open_ledger::{Decided, OpenLedger};
use super::pending::Pending;
use super::queue::Queue;
use super::sync::Syncer;
use crate::StoreError;
use crate::clock::Clock;
use crate::sqlite::Durability;
use crate::sqlite::file::DbFile;

/// The most that one transaction takes from the queue. It bounds how long the first of them waits for the last.
const GROUP: usize = 512;
/// The most that it takes of what is pending, so that calls go on while much is made up for.
const PENDING_GROUP: usize = 2_048;
/// How long it leaves a database alone that could not take rows, when nobody asks.
const RETRY: Duration = Duration::from_millis(50);
/// How often it tries to write what is left when the ledger is dropped.
const LAST_TRIES: u32 = 3;

/// What the thread owns.
pub(super) struct Writer {
    file: DbFile,
    durability: Durability,
    clock: Arc<dyn Clock>,
    /// From callers. Closed when the ledger is dropped; then what is pending is written, and the thread ends.
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    /// The database; none after a fault, until the next group opens it again.
    open: Option<OpenLedger>,
    /// What could not be written yet, oldest first.
    pending: Pending,
    /// Those who wait until nothing is pending.
    flushes: Vec<AnswerTo<()>>,
    is_failing: bool,
    tries_left: u32,
    syncer: Option<Syncer>,
}

impl Writer {
    pub fn new(
        file: DbFile,
        durability: Durability,
        clock: Arc<dyn Clock>,
        queue: Arc<Queue>,
        shared: Arc<Shared>,
        open: OpenLedger,
    ) -> io::Result<Self> {
        let syncer = match durability {
            Durability::Process => Some(Syncer::start(file.clone(), Arc::clone(&shared))?),
            Durability::Power => None,
        };
        Ok(Self {
            file,
            durability,
            clock,
            queue,
            shared,
            open: Some(open),
            pending: Pending::default(),
            flushes: Vec::new(),
            is_failing: false,
            tries_left: LAST_TRIES,
            syncer,
        })
    }

    /// Works until the queue is closed and everything is written, or cannot be.
    pub fn run(mut self) {
        while let Some(group) = self.next_group() {
            if group.is_empty() && self.flushes.is_empty() {
                continue;
            }
            match self.transact(&group) {
                Ok(decided) => {
                    self.is_failing = false;
                    for (job, decided) in group.into_iter().zip(decided) {
                        self.answer(job, decided);
                    }
                    // What answering brought back, because nobody waited, is pending; then they wait for it, too.
                    if self.pending.is_empty() {
                        self.flushes.drain(..).for_each(|answer| drop(answer.send(Ok(()))));
                    }
                }
                Err(error) => {
                    self.is_failing = true;
                    let why = match error {
                        StoreError::Unavailable(why) => why,
                        other => other.to_string(),
                    };
                    self.refuse(group, &why);
                }
            }
        }
        self.shared.count_faults(self.pending.len() as u64);
    }

    /// Takes what is pending and what is queued. None when there will be no more.
    fn next_group(&mut self) -> Option<Vec<Job>> {
        let came = if self.pending.is_empty() { Some(self.queue.wait(GROUP)?) } else { self.queue.take(GROUP) };
        for granted in self.shared.take_stranded() {
            self.give_back(granted);
        }
        let oldest = self.pending.len().min(PENDING_GROUP);
        let oldest = (0..oldest).map_while(|_| self.pending.pop_front());
        let mut group: Vec<Job> = oldest.map(Job::Keep).collect();
        let Some(came) = came else { return self.last_group(group) };
        if self.is_failing && came.is_empty() {
            thread::sleep(RETRY);
        }
        came.into_iter().for_each(|job| self.sort_in(job, &mut group));
        Some(group)
    }

    fn sort_in(&mut self, job: Job, group: &mut Vec<Job>) {
        match job {
            job if !job.is_wanted() => {}
            Job::Flush(answer) => self.flushes.push(answer),
            // Behind those that are older.
            Job::Keep(keep) if !self.pending.is_empty() => self.pending.push_back(keep),
            job => group.push(job),
        }
    }

    /// The ledger is being dropped: a database that takes nothing is tried a few times more.
    fn last_group(&mut self, group: Vec<Job>) -> Option<Vec<Job>> {
        if self.is_failing {
            self.tries_left = self.tries_left.saturating_sub(1);
            thread::sleep(RETRY);
        }
        if self.tries_left > 0 {
            return Some(group);
        }
        self.refuse(group, "the ledger was closed");
        None
    }

    /// Writes a group, or leaves everything as it was.
    fn transact(&mut self, group: &[Job]) -> Result<Vec<Decided>, StoreError> {
        self.file.check()?;
        if self.open.as_ref().is_some_and(|open| !open.has_its_log()) {
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(OpenLedger::open(&self.file, self.durability)?),
        };
        match open.transact(group, self.clock.as_ref()) {
            Ok(decided) => {
                if !open.write_head() {
                    self.shared.count_faults(1);
                }
                if let Some(syncer) = &self.syncer {
                    syncer.sync(open.log_file(), group.len());
                }
                Ok(decided)
            }
            Err(error) => {
                if !open.is_usable_after(&error) {
                    self.open = None;
                }
                Err(error.into())
            }
        }
    }

    fn answer(&mut self, job: Job, decided: Decided) {
        match (job, decided) {
            (Job::Reserve(Reserve { intent, answer, .. }), Decided::Taken(taken)) => {
                let granted = Granted { taken, intent: intent.body };
                if let Err(Ok(Answer::Taken(granted))) = answer.send(Ok(Answer::Taken(granted))) {
                    self.give_back(granted);
                }
            }
            (Job::Reserve(reserve), Decided::Exhausted(exhausted)) => {
                let _ = reserve.answer.send(Ok(Answer::Exhausted(exhausted)));
            }
            (Job::Prune { answer, .. }, Decided::Pruned(count)) => drop(answer.send(Ok(count))),
            (Job::Sweep(answer), Decided::Swept { more }) => drop(answer.send(Ok(more))),
            (job, Decided::Failed(error)) => self.refuse_one(job, error),
            #[cfg(test)]
            (Job::Tamper(_, answer), _) => drop(answer.send(Ok(()))),
            (Job::Reserve(_) | Job::Keep(_) | Job::Flush(_) | Job::Prune { .. } | Job::Sweep(_) | Job::Wake, _) => {}
        }
    }

    /// Nobody waits for it any more: it goes back with the next group.
    fn give_back(&mut self, granted: Granted) {
        match granted.into_keep(self.clock.now()) {
            Ok(keep) => self.pending.push_back(keep),
            Err(_) => self.shared.count_faults(1),
        }
    }

    /// Says no to all who wait; what nobody waits for is pending again, before what is newer.
    fn refuse(&mut self, group: Vec<Job>, why: &str) {
        let refusal = || StoreError::Unavailable(why.to_owned());
        self.flushes.drain(..).for_each(|answer| drop(answer.send(Err(refusal()))));
        for job in group.into_iter().rev() {
            match job {
                Job::Keep(keep) => self.pending.push_front(keep),
                job => self.refuse_one(job, refusal()),
            }
        }
        self.shared.count_faults(self.pending.trim());
    }

    fn refuse_one(&self, job: Job, error: StoreError) {
        match job {
            Job::Reserve(reserve) => drop(reserve.answer.send(Err(error))),
            Job::Flush(answer) => drop(answer.send(Err(error))),
            Job::Prune { answer, .. } => drop(answer.send(Err(error))),
            Job::Sweep(answer) => drop(answer.send(Err(error))),
            Job::Keep(_) => self.shared.count_faults(1),
            Job::Wake => {}
            #[cfg(test)]
            Job::Tamper(_, answer) => drop(answer.send(Err(error))),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Also after a panic: nobody should wait for a writer that is not there.
        self.queue.close();
    }
}
