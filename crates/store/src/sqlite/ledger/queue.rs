//! What waits for the writer. Whoever waits for an answer rings; what nobody waits for goes along with the next group,
//! or by itself after a moment. So under load there is one commit for many calls, and none for outcomes alone.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

use super::job::Job;

/// How many jobs may wait. Beyond it, a call is refused rather than kept waiting.
const ROOM: usize = 4_096;
/// How long a row that nobody waits for may lie.
const NAP: Duration = Duration::from_millis(5);

/// Jobs on their way to the writer, oldest first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Rung for the writer, which alone listens.
    bell: Condvar,
    /// Told when there is room again; those who wait to put something in listen.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    jobs: Vec<Job>,
    /// Whether somebody waits for one of them.
    is_urgent: bool,
    writer: Sleep,
    is_closed: bool,
}

/// How the writer waits.
#[derive(Debug, Default, PartialEq, Eq)]
enum Sleep {
    /// It does not: it looks into the queue before it does.
    #[default]
    Awake,
    /// It comes back by itself.
    Nap,
    /// It does not come back before it is called.
    Deep,
}

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotTaken {
    Full,
    Closed,
}

impl Queue {
    /// Puts a job in.
    ///
    /// # Errors
    /// There is no room, or there will be no writer.
    pub fn push(&self, job: Job) -> Result<(), NotTaken> {
        self.put(job).map_err(|(_, why)| why)
    }

    /// The same, waiting for room.
    pub async fn push_in_time(&self, mut job: Job) -> Result<(), NotTaken> {
        loop {
            let room = self.room.notified();
            job = match self.put(job) {
                Ok(()) => return Ok(()),
                Err((job, NotTaken::Full)) => *job,
                Err((_, NotTaken::Closed)) => return Err(NotTaken::Closed),
            };
            room.await;
        }
    }

    fn put(&self, job: Job) -> Result<(), (Box<Job>, NotTaken)> {
        let mut state = self.lock();
        if state.is_closed {
            return Err((Box::new(job), NotTaken::Closed));
        }
        if state.jobs.len() >= ROOM {
            return Err((Box::new(job), NotTaken::Full));
        }
        let is_urgent = !matches!(job, Job::Keep(_));
        state.jobs.push(job);
        state.is_urgent |= is_urgent;
        let rings = match state.writer {
            Sleep::Awake => false,
            Sleep::Nap => is_urgent,
            Sleep::Deep => true,
        };
        if rings {
            state.writer = Sleep::Awake;
            drop(state);
            self.bell.notify_one();
        }
        Ok(())
    }

    /// Waits for jobs and gives the oldest, at most so many. None when it is closed and empty.
    pub fn wait(&self, most: usize) -> Option<Vec<Job>> {
        let mut state = self.lock();
        let mut has_napped = false;
        while !state.is_urgent && !state.is_closed && (!has_napped || state.jobs.is_empty()) {
            let is_deep = has_napped;
            state.writer = if is_deep { Sleep::Deep } else { Sleep::Nap };
            state = if is_deep {
                self.bell.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.bell.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0
            };
            // A call may follow what woke us from deep sleep.
            has_napped = !is_deep;
            state.writer = Sleep::Awake;
        }
        if state.jobs.is_empty() && state.is_closed {
            return None;
        }
        drop(state);
        // Where others want the processor, they go first: what they bring is in the same group.
        thread::yield_now();
        Some(self.taken(self.lock(), most))
    }

    /// Gives what is there, without waiting. None when it is closed and empty.
    pub fn take(&self, most: usize) -> Option<Vec<Job>> {
        let state = self.lock();
        if state.jobs.is_empty() && state.is_closed {
            return None;
        }
        Some(self.taken(state, most))
    }

    fn taken(&self, mut state: MutexGuard<'_, State>, most: usize) -> Vec<Job> {
        if state.jobs.len() <= most {
            state.is_urgent = false;
            let next = Vec::with_capacity(state.jobs.len());
            let jobs = std::mem::replace(&mut state.jobs, next);
            drop(state);
            self.room.notify_waiters();
            return jobs;
        }
        let jobs = state.jobs.drain(..most).collect();
        drop(state);
        self.room.notify_waiters();
        jobs
    }

    /// Takes no more; the writer ends when it has what is there.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.bell.notify_one();
        self.room.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while holding it leaves it whole: each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::{Entry, Keep};
    use super::*;

    fn outcome() -> Job {
        Job::Keep(Keep { entry: Entry { at: 0, body: String::new() }, taken: Vec::new() })
    }

    #[test]
    fn an_outcome_is_written_though_no_call_follows() {
        let queue = Queue::default();
        queue.push(outcome()).expect("room");
        assert_eq!(queue.wait(8).expect("open").len(), 1);
    }

    #[test]
    fn outcomes_and_calls_are_taken_in_their_order_and_no_more_than_asked_for() {
        let queue = Queue::default();
        for job in [outcome(), Job::Wake, outcome()] {
            queue.push(job).expect("room");
        }
        let group = queue.wait(2).expect("open");
        assert!(matches!(group.as_slice(), [Job::Keep(_), Job::Wake]), "{group:?}");
        assert!(matches!(queue.take(2).expect("open").as_slice(), [Job::Keep(_)]));
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_gives_what_it_has() {
        let queue = Queue::default();
        for _ in 0..ROOM {
            queue.push(outcome()).expect("room");
        }
        assert_eq!(queue.push(outcome()), Err(NotTaken::Full));
        queue.close();
        assert_eq!(queue.push(outcome()), Err(NotTaken::Closed));
        assert_eq!(queue.wait(ROOM).expect("what it has").len(), ROOM);
        assert!(queue.wait(ROOM).is_none());
    }

    #[tokio::test]
    async fn whoever_waits_for_room_gets_it_when_there_is_some() {
        let queue = std::sync::Arc::new(Queue::default());
        for _ in 0..ROOM {
            queue.push(outcome()).expect("room");
        }
        let waiting = {
            let queue = std::sync::Arc::clone(&queue);
            tokio::spawn(async move { queue.push_in_time(Job::Wake).await })
        };
        tokio::task::yield_now().await;
        assert_eq!(queue.take(1).expect("open").len(), 1);
        assert_eq!(waiting.await.expect("no panic"), Ok(()));
    }
}
