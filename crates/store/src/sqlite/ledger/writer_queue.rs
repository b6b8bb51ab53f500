//! What waits to be written. Whoever waits for an answer rings, or takes the writer's place; what nobody waits for goes
//! along with the next group, or by itself after a moment. So under load there is one commit for many calls, and none
//! for outcomes alone.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::writer_request::WriterRequest;

/// How many jobs may wait. Beyond it, a call is refused rather than kept waiting.
const MAX_QUEUED_REQUESTS: usize = 4_096;
/// How many bytes of rows make a group that takes no more.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// How long a row that nobody waits for may lie; twice as long while callers write what others left.
const IDLE_FLUSH_INTERVAL: Duration = Duration::from_millis(5);

/// Jobs on their way to the writer, oldest first.
#[derive(Debug, Default)]
pub(super) struct WriterQueue {
    state: Mutex<QueueState>,
    /// Rung for the writer, which alone listens.
    wake: Condvar,
    /// Told when there is room again; those who wait to put something in listen.
    space_available: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    requests: Vec<WriterRequest>,
    /// Whether the thread is wanted for one of them.
    is_urgent: bool,
    /// Whether a caller that waits could not write its own, because somebody else had the writer.
    has_handoff: bool,
    writer: WriterWaitState,
    /// Whether everything was taken that nobody waits for, since the writer last fell asleep: then what is there is young.
    is_drained: bool,
    is_closed: bool,
}

/// How the writer waits.
#[derive(Debug, Default, PartialEq, Eq)]
enum WriterWaitState {
    /// It does not: it looks into the queue before it does.
    #[default]
    Awake,
    /// It comes back by itself.
    Timed,
    /// It does not come back before it is called.
    Indefinite,
}

/// Whether the thread is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeMode {
    Wake,
    NoWake,
}

/// Which thread has queued a reservation. One that is answered on the same thread wakes nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallerThread {
    thread: ThreadId,
    /// Where it is waited for, if a courier goes there.
    runtime: Option<runtime::Id>,
}

impl CallerThread {
    /// Of the calling thread.
    pub fn current() -> Self {
        thread_local!(static OWN: ThreadId = thread::current().id());
        Self { thread: OWN.with(|own| *own), runtime: None }
    }

    pub fn with_runtime(self, runtime: runtime::Id) -> Self {
        Self { runtime: Some(runtime), ..self }
    }

    pub fn runtime(self) -> Option<runtime::Id> {
        self.runtime
    }
}

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnqueueError {
    Full,
    Closed,
}

impl WriterQueue {
    /// Puts a job in, and calls the thread where somebody waits for it.
    ///
    /// # Errors
    /// There is no room, or there will be no writer.
    pub fn push(&self, job: WriterRequest) -> Result<(), EnqueueError> {
        self.try_push(job, WakeMode::Wake).map_err(|(_, why)| why)
    }

    /// The same without calling anybody: whoever puts it in sees to it that it is written.
    pub fn push_without_wake(&self, job: WriterRequest) -> Result<(), EnqueueError> {
        self.try_push(job, WakeMode::NoWake).map_err(|(_, why)| why)
    }

    /// Puts a job in, waiting for room for so long at most.
    pub async fn push_timeout(&self, job: WriterRequest, time: Duration) -> Result<(), EnqueueError> {
        // Nearly always there is room, and no timer is needed.
        match self.try_push(job, WakeMode::Wake) {
            Ok(()) => Ok(()),
            Err((_, EnqueueError::Closed)) => Err(EnqueueError::Closed),
            Err((job, EnqueueError::Full)) => {
                // In a box: else each row that is written makes room for it.
                Box::pin(timeout(time, self.push_when_space(*job))).await.unwrap_or(Err(EnqueueError::Full))
            }
        }
    }

    async fn push_when_space(&self, mut job: WriterRequest) -> Result<(), EnqueueError> {
        loop {
            let room = self.space_available.notified();
            job = match self.try_push(job, WakeMode::Wake) {
                Ok(()) => return Ok(()),
                Err((job, EnqueueError::Full)) => *job,
                Err((_, EnqueueError::Closed)) => return Err(EnqueueError::Closed),
            };
            room.await;
        }
    }

    fn try_push(&self, job: WriterRequest, bell: WakeMode) -> Result<(), (Box<WriterRequest>, EnqueueError)> {
        let mut state = self.lock();
        if state.is_closed {
            return Err((Box::new(job), EnqueueError::Closed));
        }
        if state.requests.len() >= MAX_QUEUED_REQUESTS {
            return Err((Box::new(job), EnqueueError::Full));
        }
        let is_urgent = !matches!(job, WriterRequest::Append(_));
        state.requests.push(job);
        state.is_urgent |= is_urgent && bell == WakeMode::Wake;
        let rings = match state.writer {
            WriterWaitState::Awake => false,
            WriterWaitState::Timed => is_urgent,
            WriterWaitState::Indefinite => true,
        };
        if rings && bell == WakeMode::Wake {
            state.writer = WriterWaitState::Awake;
            drop(state);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Puts back what was taken and not done, before all others, and calls the thread.
    pub fn requeue(&self, jobs: Vec<WriterRequest>) {
        let mut state = self.lock();
        state.requests.splice(0..0, jobs);
        drop(state);
        self.wake_writer();
    }

    /// Calls the thread, also where nothing is queued: what is pending is for it.
    pub fn wake_writer(&self) {
        let mut state = self.lock();
        (state.writer, state.is_urgent) = (WriterWaitState::Awake, true);
        drop(state);
        self.wake.notify_one();
    }

    /// Leaves a caller's own to whoever has the writer.
    pub fn hand_to_leader(&self) {
        self.lock().has_handoff = true;
    }

    /// Whether something was left since this was last asked.
    pub fn take_handoff(&self) -> bool {
        std::mem::take(&mut self.lock().has_handoff)
    }

    /// Waits for jobs. False when it is closed and empty.
    pub fn wait(&self) -> bool {
        let mut state = self.lock();
        let mut has_napped = false;
        state.is_drained = false;
        while !state.is_urgent && !state.has_handoff && !state.is_closed && (!has_napped || state.requests.is_empty()) {
            let is_deep = has_napped;
            state.writer = if is_deep { WriterWaitState::Indefinite } else { WriterWaitState::Timed };
            state = if is_deep {
                self.wake.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.wake.wait_timeout(state, IDLE_FLUSH_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
            };
            // A call may follow what woke us from deep sleep; and while callers write everything, we are not needed.
            let is_emptied = std::mem::take(&mut state.is_drained);
            has_napped = !is_deep && !is_emptied;
            state.writer = WriterWaitState::Awake;
        }
        if state.requests.is_empty() && state.is_closed {
            return false;
        }
        drop(state);
        // Where others want the processor, they go first: what they bring is in the same group.
        thread::yield_now();
        true
    }

    /// Gives the oldest of what is there, without waiting. None when it is closed and empty.
    pub fn take(&self, most: usize) -> Option<Vec<WriterRequest>> {
        let state = self.lock();
        if state.requests.is_empty() && state.is_closed {
            return None;
        }
        Some(self.drain_oldest(state, most))
    }

    /// The same if it is all calls and rows; none where there is anything else to do. Of calls only those of one thread,
    /// if one is named.
    pub fn take_appends(&self, most: usize, of: Option<CallerThread>) -> Option<Vec<WriterRequest>> {
        let mut state = self.lock();
        let most = most.min(state.requests.len()).min(batch_length(&state.requests));
        if !state.requests.iter().take(most).all(WriterRequest::is_append_only) {
            return None;
        }
        let is_others = |job: &WriterRequest| matches!(job, WriterRequest::Reserve(reserve) if of.is_some_and(|own| own != reserve.caller));
        if !state.requests.iter().take(most).any(is_others) {
            return Some(self.drain_oldest(state, most));
        }
        let taken = state.requests.extract_if(..most, |job| !is_others(job)).collect();
        state.is_drained = !state.requests.iter().any(|job| matches!(job, WriterRequest::Append(_)));
        drop(state);
        self.space_available.notify_waiters();
        Some(taken)
    }

    fn drain_oldest(&self, mut state: MutexGuard<'_, QueueState>, most: usize) -> Vec<WriterRequest> {
        if state.requests.len() <= most {
            (state.is_urgent, state.is_drained) = (false, true);
            let next = Vec::with_capacity(state.requests.len());
            let jobs = std::mem::replace(&mut state.requests, next);
            drop(state);
            self.space_available.notify_waiters();
            return jobs;
        }
        let jobs = state.requests.drain(..most).collect();
        drop(state);
        self.space_available.notify_waiters();
        jobs
    }

    /// Takes no more; the writer ends when it has what is there.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_one();
        self.space_available.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A panic while holding it leaves it whole: each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many of the oldest jobs make a group that is not too large to be written down at once.
fn batch_length(jobs: &[WriterRequest]) -> usize {
    let mut bytes = 0;
    let is_small = |job: &&WriterRequest| {
        let before = bytes;
        bytes += match job {
            WriterRequest::Reserve(reserve) => reserve.intent.body.len(),
            WriterRequest::Append(keep) => keep.row.body.len(),
            _ => 0,
        };
        before < MAX_BATCH_BYTES
    };
    jobs.iter().take_while(is_small).count()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::writer_request::{AppendRequest, EncodedRow, ReserveRequest};
    use super::*;

    fn outcome() -> WriterRequest {
        WriterRequest::Append(AppendRequest { row: EncodedRow { at: 0, body: String::new() }, refunds: Vec::new() })
    }

    #[test]
    fn an_outcome_is_written_though_no_call_follows() {
        let queue = WriterQueue::default();
        queue.push(outcome()).expect("room");
        assert!(queue.wait());
        assert_eq!(queue.take(8).expect("open").len(), 1);
    }

    #[test]
    fn the_thread_sleeps_while_callers_write_everything_and_wakes_when_they_stop() {
        let queue = std::sync::Arc::new(WriterQueue::default());
        let waiting = {
            let queue = std::sync::Arc::clone(&queue);
            thread::spawn(move || queue.wait())
        };
        let (since, mut was_late) = (std::time::Instant::now(), false);
        while since.elapsed() < 6 * IDLE_FLUSH_INTERVAL {
            let pushed = std::time::Instant::now();
            queue.push(outcome()).expect("room");
            thread::sleep(IDLE_FLUSH_INTERVAL / 10);
            let taken = queue.take_appends(8, Some(CallerThread::current())).map(|taken| taken.len());
            was_late |= pushed.elapsed() > IDLE_FLUSH_INTERVAL;
            assert!(was_late || taken == Some(1));
        }
        assert!(was_late || !waiting.is_finished(), "nothing was left for it");
        queue.push(outcome()).expect("room");
        assert!(waiting.join().expect("no panic"), "what nobody writes is for the thread");
        assert_eq!(queue.take(8).expect("open").len(), 1);
    }

    #[test]
    fn outcomes_and_calls_are_taken_in_their_order_and_no_more_than_asked_for() {
        let queue = WriterQueue::default();
        for job in [outcome(), WriterRequest::Wake, outcome()] {
            queue.push(job).expect("room");
        }
        assert!(queue.wait());
        let group = queue.take(2).expect("open");
        assert!(matches!(group.as_slice(), [WriterRequest::Append(_), WriterRequest::Wake]), "{group:?}");
        assert!(matches!(queue.take(2).expect("open").as_slice(), [WriterRequest::Append(_)]));
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_gives_what_it_has() {
        let queue = WriterQueue::default();
        for _ in 0..MAX_QUEUED_REQUESTS {
            queue.push(outcome()).expect("room");
        }
        assert_eq!(queue.push(outcome()), Err(EnqueueError::Full));
        queue.close();
        assert_eq!(queue.push(outcome()), Err(EnqueueError::Closed));
        assert!(queue.wait());
        assert_eq!(queue.take(MAX_QUEUED_REQUESTS).expect("what it has").len(), MAX_QUEUED_REQUESTS);
        assert!(!queue.wait());
    }

    #[test]
    fn what_was_not_done_comes_before_all_others_and_what_is_no_row_is_left() {
        let queue = WriterQueue::default();
        queue.push(outcome()).expect("room");
        let taken = queue.take_appends(8, None).expect("rows");
        queue.push(WriterRequest::Wake).expect("room");
        assert!(queue.take_appends(8, None).is_none());
        queue.requeue(taken);
        assert!(matches!(queue.take(8).expect("open").as_slice(), [WriterRequest::Append(_), WriterRequest::Wake]));
    }

    #[test]
    fn a_thread_takes_its_own_calls_and_nothing_that_is_no_row() {
        let call = |tag| {
            let entry = EncodedRow { at: 0, body: String::new() };
            WriterRequest::Reserve(ReserveRequest {
                caller: tag,
                charges: Vec::new(),
                intent: entry,
                reply: oneshot::channel().0,
            })
        };
        let other = thread::spawn(CallerThread::current).join().expect("a tag");
        let queue = WriterQueue::default();
        for job in
            [call(CallerThread::current()), call(other), outcome(), call(CallerThread::current()), WriterRequest::Wake]
        {
            queue.push_without_wake(job).expect("room");
        }
        assert!(queue.take_appends(5, Some(other)).is_none(), "something else is to be done");
        let own = queue.take_appends(4, Some(CallerThread::current())).expect("rows");
        assert!(
            matches!(own.as_slice(), [WriterRequest::Reserve(_), WriterRequest::Append(_), WriterRequest::Reserve(_)]),
            "{own:?}"
        );
        assert!(matches!(queue.take(8).expect("open").as_slice(), [WriterRequest::Reserve(_), WriterRequest::Wake]));
    }

    #[tokio::test]
    async fn whoever_waits_for_room_gets_it_when_there_is_some() {
        let queue = std::sync::Arc::new(WriterQueue::default());
        for _ in 0..MAX_QUEUED_REQUESTS {
            queue.push(outcome()).expect("room");
        }
        let waiting = {
            let queue = std::sync::Arc::clone(&queue);
            tokio::spawn(async move { queue.push_timeout(WriterRequest::Wake, Duration::from_secs(60)).await })
        };
        tokio::task::yield_now().await;
        assert_eq!(queue.take(1).expect("open").len(), 1);
        assert_eq!(waiting.await.expect("no panic"), Ok(()));
    }
}
