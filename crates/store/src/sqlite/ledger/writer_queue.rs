//! The writer's queue. A caller that waits for a reply wakes the writer thread or writes the batch itself. Rows that no
//! caller is waiting for join the next batch, or are written after a short interval. Under load, one commit therefore
//! serves many calls, and call outcomes do not need commits of their own.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::writer_request::WriterRequest;

/// Maximum number of queued requests. Beyond that, calls are refused instead of being kept waiting.
const MAX_QUEUED_REQUESTS: usize = 4_096;
/// Total size of rows at which a batch is full.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// How long a row that no caller is waiting for may stay queued. While callers write batches themselves, it may stay
/// twice as long.
const IDLE_FLUSH_INTERVAL: Duration = Duration::from_millis(5);

/// Requests to the writer, oldest first.
#[derive(Debug, Default)]
pub(super) struct WriterQueue {
    state: Mutex<WriterQueueState>,
    /// Wakes the writer thread, which is the only waiter.
    wake: Condvar,
    /// Wakes callers that are waiting for space in the queue.
    space_available: Notify,
}

#[derive(Debug, Default)]
struct WriterQueueState {
    requests: Vec<WriterRequest>,
    /// Whether a queued request needs the writer thread.
    is_urgent: bool,
    /// Whether a waiting caller could not lead its batch because the writer was busy.
    has_handoff: bool,
    writer: WriterWaitState,
    /// Whether all queued rows have been taken since the writer thread last started to wait. If so, the rows now in the
    /// queue are recent.
    is_drained: bool,
    is_closed: bool,
}

/// Wait state of the writer thread.
#[derive(Debug, Default, PartialEq, Eq)]
enum WriterWaitState {
    /// The thread is running, and checks the queue before it waits.
    #[default]
    Awake,
    /// The thread is waiting with a timeout.
    Timed,
    /// The thread is waiting until it is woken.
    Indefinite,
}

/// Whether to wake the writer thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriterWakeMode {
    Wake,
    NoWake,
}

/// The thread that queued a reservation. Replying on the same thread needs no wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallerThreadId {
    thread: ThreadId,
    /// The caller's runtime, if replies go through a mailbox.
    runtime: Option<runtime::Id>,
}

impl CallerThreadId {
    /// Returns the calling thread.
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

/// The reason why a request was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnqueueError {
    Full,
    Closed,
}

impl WriterQueue {
    /// Queues a request, and wakes the writer thread if a caller is waiting for it.
    ///
    /// # Errors
    /// The queue is full or closed.
    pub fn push(&self, request: WriterRequest) -> Result<(), EnqueueError> {
        self.try_push(request, WriterWakeMode::Wake).map_err(|(_, reason)| reason)
    }

    /// Like [`push`](Self::push), but wakes no thread: the caller must ensure that the request is written.
    pub fn push_without_wake(&self, request: WriterRequest) -> Result<(), EnqueueError> {
        self.try_push(request, WriterWakeMode::NoWake).map_err(|(_, reason)| reason)
    }

    /// Queues a request, waiting at most `time` for space.
    pub async fn push_timeout(&self, request: WriterRequest, time: Duration) -> Result<(), EnqueueError> {
        // Nearly always there is space, and no timer is needed.
        match self.try_push(request, WriterWakeMode::Wake) {
            Ok(()) => Ok(()),
            Err((_, EnqueueError::Closed)) => Err(EnqueueError::Closed),
            Err((request, EnqueueError::Full)) => {
                // Boxed: otherwise the future of every row would have its size.
                Box::pin(timeout(time, self.push_when_space(*request))).await.unwrap_or(Err(EnqueueError::Full))
            }
        }
    }

    async fn push_when_space(&self, mut request: WriterRequest) -> Result<(), EnqueueError> {
        loop {
            let space = self.space_available.notified();
            request = match self.try_push(request, WriterWakeMode::Wake) {
                Ok(()) => return Ok(()),
                Err((request, EnqueueError::Full)) => *request,
                Err((_, EnqueueError::Closed)) => return Err(EnqueueError::Closed),
            };
            space.await;
        }
    }

    fn try_push(
        &self,
        request: WriterRequest,
        wake_mode: WriterWakeMode,
    ) -> Result<(), (Box<WriterRequest>, EnqueueError)> {
        let mut state = self.lock();
        if state.is_closed {
            return Err((Box::new(request), EnqueueError::Closed));
        }
        if state.requests.len() >= MAX_QUEUED_REQUESTS {
            return Err((Box::new(request), EnqueueError::Full));
        }
        let is_urgent = !matches!(request, WriterRequest::Append(_));
        state.requests.push(request);
        state.is_urgent |= is_urgent && wake_mode == WriterWakeMode::Wake;
        let wakes = match state.writer {
            WriterWaitState::Awake => false,
            WriterWaitState::Timed => is_urgent,
            WriterWaitState::Indefinite => true,
        };
        if wakes && wake_mode == WriterWakeMode::Wake {
            state.writer = WriterWaitState::Awake;
            drop(state);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Puts requests back at the front of the queue, and wakes the writer thread.
    pub fn requeue(&self, requests: Vec<WriterRequest>) {
        let mut state = self.lock();
        state.requests.splice(0..0, requests);
        drop(state);
        self.wake_writer();
    }

    /// Wakes the writer thread even if nothing is queued, so that it handles pending rows.
    pub fn wake_writer(&self) {
        let mut state = self.lock();
        (state.writer, state.is_urgent) = (WriterWaitState::Awake, true);
        drop(state);
        self.wake.notify_one();
    }

    /// Leaves the caller's requests to the current holder of the writer lock.
    pub fn hand_to_leader(&self) {
        self.lock().has_handoff = true;
    }

    /// Returns whether a caller has left its requests to the holder of the writer lock with
    /// [`hand_to_leader`](Self::hand_to_leader), and clears the flag.
    pub fn take_handoff(&self) -> bool {
        std::mem::take(&mut self.lock().has_handoff)
    }

    /// Waits for requests. Returns `false` when the queue is closed and empty.
    pub fn wait(&self) -> bool {
        let mut state = self.lock();
        let mut has_timed_out = false;
        state.is_drained = false;
        while !state.is_urgent
            && !state.has_handoff
            && !state.is_closed
            && (!has_timed_out || state.requests.is_empty())
        {
            let is_indefinite = has_timed_out;
            state.writer = if is_indefinite { WriterWaitState::Indefinite } else { WriterWaitState::Timed };
            state = if is_indefinite {
                self.wake.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.wake.wait_timeout(state, IDLE_FLUSH_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
            };
            // A request may follow the row that ended an indefinite wait; and while callers lead all batches, the thread is not needed.
            let was_drained = std::mem::take(&mut state.is_drained);
            has_timed_out = !is_indefinite && !was_drained;
            state.writer = WriterWaitState::Awake;
        }
        if state.requests.is_empty() && state.is_closed {
            return false;
        }
        drop(state);
        // Let other threads that are ready run first: their requests join the same batch.
        thread::yield_now();
        true
    }

    /// Takes the oldest requests without waiting. Returns `None` when the queue is closed and empty.
    pub fn take(&self, max: usize) -> Option<Vec<WriterRequest>> {
        let state = self.lock();
        if state.requests.is_empty() && state.is_closed {
            return None;
        }
        Some(self.drain_oldest(state, max))
    }

    /// Like [`take`](Self::take), but takes only reservations and rows, and returns `None` if there are other requests
    /// among the oldest ones. If `of` is given, the reservations of other threads stay in the queue.
    pub fn take_appends(&self, max: usize, of: Option<CallerThreadId>) -> Option<Vec<WriterRequest>> {
        let mut state = self.lock();
        let max = max.min(state.requests.len()).min(batch_length(&state.requests));
        if !state.requests.iter().take(max).all(WriterRequest::is_append_only) {
            return None;
        }
        let is_foreign = |request: &WriterRequest| matches!(request, WriterRequest::Reserve(reserve) if of.is_some_and(|own| own != reserve.caller));
        if !state.requests.iter().take(max).any(is_foreign) {
            return Some(self.drain_oldest(state, max));
        }
        let taken = state.requests.extract_if(..max, |request| !is_foreign(request)).collect();
        state.is_drained = !state.requests.iter().any(|request| matches!(request, WriterRequest::Append(_)));
        drop(state);
        self.space_available.notify_waiters();
        Some(taken)
    }

    fn drain_oldest(&self, mut state: MutexGuard<'_, WriterQueueState>, max: usize) -> Vec<WriterRequest> {
        if state.requests.len() <= max {
            (state.is_urgent, state.is_drained) = (false, true);
            let next = Vec::with_capacity(state.requests.len());
            let requests = std::mem::replace(&mut state.requests, next);
            drop(state);
            self.space_available.notify_waiters();
            return requests;
        }
        let requests = state.requests.drain(..max).collect();
        drop(state);
        self.space_available.notify_waiters();
        requests
    }

    /// Refuses further requests. The writer ends when it has written the queued ones.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_one();
        self.space_available.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, WriterQueueState> {
        // A panic under this lock leaves the state consistent: each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how many of the oldest requests make up a batch of acceptable size.
fn batch_length(requests: &[WriterRequest]) -> usize {
    let mut bytes = 0;
    let is_small = |request: &&WriterRequest| {
        let bytes_before = bytes;
        bytes += match request {
            WriterRequest::Reserve(reserve) => reserve.intent.body.len(),
            WriterRequest::Append(append) => append.row.body.len(),
            _ => 0,
        };
        bytes_before < MAX_BATCH_BYTES
    };
    requests.iter().take_while(is_small).count()
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
    fn an_outcome_is_written_although_no_call_follows() {
        let queue = WriterQueue::default();
        queue.push(outcome()).expect("room");
        assert!(queue.wait());
        assert_eq!(queue.take(8).expect("open").len(), 1);
    }

    #[test]
    fn the_writer_thread_sleeps_while_callers_lead_all_batches_and_wakes_when_they_stop() {
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
            let taken = queue.take_appends(8, Some(CallerThreadId::current())).map(|taken| taken.len());
            was_late |= pushed.elapsed() > IDLE_FLUSH_INTERVAL;
            assert!(was_late || taken == Some(1));
        }
        assert!(was_late || !waiting.is_finished(), "nothing was left for it");
        queue.push(outcome()).expect("room");
        assert!(waiting.join().expect("no panic"), "the thread takes rows that no caller writes");
        assert_eq!(queue.take(8).expect("open").len(), 1);
    }

    #[test]
    fn requests_are_taken_in_order_and_not_more_than_asked_for() {
        let queue = WriterQueue::default();
        for request in [outcome(), WriterRequest::Wake, outcome()] {
            queue.push(request).expect("room");
        }
        assert!(queue.wait());
        let group = queue.take(2).expect("open");
        assert!(matches!(group.as_slice(), [WriterRequest::Append(_), WriterRequest::Wake]), "{group:?}");
        assert!(matches!(queue.take(2).expect("open").as_slice(), [WriterRequest::Append(_)]));
    }

    #[test]
    fn a_full_queue_refuses_and_a_closed_one_returns_its_requests() {
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
    fn requeued_requests_come_first_and_other_requests_are_not_taken_as_appends() {
        let queue = WriterQueue::default();
        queue.push(outcome()).expect("room");
        let taken = queue.take_appends(8, None).expect("rows");
        queue.push(WriterRequest::Wake).expect("room");
        assert!(queue.take_appends(8, None).is_none());
        queue.requeue(taken);
        assert!(matches!(queue.take(8).expect("open").as_slice(), [WriterRequest::Append(_), WriterRequest::Wake]));
    }

    #[test]
    fn a_thread_takes_only_its_own_reservations_and_rows() {
        let call = |caller| {
            let entry = EncodedRow { at: 0, body: String::new() };
            WriterRequest::Reserve(ReserveRequest {
                caller,
                charges: Vec::new(),
                intent: entry,
                reply: oneshot::channel().0,
            })
        };
        let other = thread::spawn(CallerThreadId::current).join().expect("a tag");
        let queue = WriterQueue::default();
        for request in [
            call(CallerThreadId::current()),
            call(other),
            outcome(),
            call(CallerThreadId::current()),
            WriterRequest::Wake,
        ] {
            queue.push_without_wake(request).expect("room");
        }
        assert!(queue.take_appends(5, Some(other)).is_none(), "there is another request");
        let own = queue.take_appends(4, Some(CallerThreadId::current())).expect("rows");
        assert!(
            matches!(own.as_slice(), [WriterRequest::Reserve(_), WriterRequest::Append(_), WriterRequest::Reserve(_)]),
            "{own:?}"
        );
        assert!(matches!(queue.take(8).expect("open").as_slice(), [WriterRequest::Reserve(_), WriterRequest::Wake]));
    }

    #[tokio::test]
    async fn a_caller_that_waits_for_space_gets_it_when_there_is_some() {
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
