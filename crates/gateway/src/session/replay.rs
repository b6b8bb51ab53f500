//! Replay buffers for resumable streams of a session. Event ids name the stream and the position in it.
//!
//! Buffers are limited per session in events and bytes, and in bytes across all sessions. A client that resumes from
//! before the oldest buffered event gets an error; events are never skipped silently.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_mcp::{SSE_KEEP_ALIVE, sse_event_with_id, sse_priming_event};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::lazy_box::LazyBox;
use crate::runtime::InFlightGuard;

/// Number of the standalone stream, whose messages belong to no request.
pub(crate) const STANDALONE_STREAM: u64 = 0;

/// Maximum number of buffered events per session. A call typically reports progress a few dozen times.
const MAX_REPLAY_EVENTS: usize = 256;
/// Maximum number of buffered bytes per session, not counting the newest event, which may be a result of any size.
const MAX_SESSION_REPLAY_BYTES: usize = 4 << 20;
/// Maximum number of ended streams kept per session.
const MAX_ENDED_STREAMS: usize = 32;
/// How long ended streams are kept. Clients reconnect within seconds.
const ENDED_STREAM_RETENTION: Duration = Duration::from_secs(300);
/// Number of bytes that one permit of the budget shared by all sessions stands for.
const REPLAY_BUDGET_UNIT_BYTES: usize = 1 << 10;
/// Reconnection delay suggested to clients.
const CLIENT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How many events are queued for a slow client before the upstream has to wait.
const EVENT_QUEUE_LENGTH: usize = 32;

/// The resumable streams of one session.
#[derive(Debug)]
pub(crate) struct ReplayBuffers {
    /// Distinguishes this session's event ids from those of other sessions.
    session_tag: Box<str>,
    state: LazyBox<Mutex<ReplayState>>,
    budget: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct ReplayState {
    last_stream: u64,
    streams: BTreeMap<u64, ReplayStream>,
    /// Events of all streams, oldest first.
    events: VecDeque<BufferedEvent>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct ReplayStream {
    last_event: u64,
    /// Number of the newest event that is no longer buffered.
    last_evicted: u64,
    /// The current connection; `None` while the client is disconnected.
    connection: Option<ReplayStreamConnection>,
    ended_at: Option<Instant>,
}

#[derive(Debug)]
struct ReplayStreamConnection {
    events: mpsc::Sender<Bytes>,
    /// In-flight guard of a connection that was opened to resume the stream.
    _in_flight_guard: Option<InFlightGuard>,
}

#[derive(Debug)]
struct BufferedEvent {
    stream: u64,
    number: u64,
    event: Bytes,
    _budget_permit: OwnedSemaphorePermit,
}

/// A parsed event id: stream and position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SseEventId {
    pub stream: u64,
    number: u64,
    /// Whether the id has the tag of this session.
    is_of_this_session: bool,
}

/// Returns the budget for buffered events of all sessions.
pub(crate) fn replay_budget(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes / REPLAY_BUDGET_UNIT_BYTES))
}

impl ReplayBuffers {
    /// Creates the buffers; returns `None` if no random bytes are available.
    pub fn new(budget: Arc<Semaphore>) -> Option<Self> {
        let mut random = [0; 6];
        getrandom::fill(&mut random).ok()?;
        Some(Self { session_tag: HEXLOWER.encode(&random).into(), state: LazyBox::default(), budget })
    }

    /// Replaces the budget with the one that all sessions share.
    pub fn set_budget(&mut self, budget: &Arc<Semaphore>) {
        self.budget = Arc::clone(budget);
    }

    /// Starts a stream on a connection and returns its number.
    pub fn begin_stream(&self, events: mpsc::Sender<Bytes>) -> u64 {
        let mut state = self.lock();
        state.last_stream += 1;
        let number = state.last_stream;
        let to = Some(ReplayStreamConnection { events, _in_flight_guard: None });
        state.streams.insert(number, ReplayStream { connection: to, ..ReplayStream::default() });
        number
    }

    /// Returns the priming event, which gives the client an id to resume from.
    pub fn priming_event(&self, stream: u64) -> Bytes {
        let latest = self.lock().streams.entry(stream).or_default().last_event;
        sse_priming_event(&self.event_id(stream, latest), CLIENT_RETRY_DELAY).into()
    }

    /// Formats a message as the next event of a stream and buffers it.
    pub fn append_event(&self, stream: u64, text: &str) -> Bytes {
        self.append_event_for_connection(stream, text).0
    }

    /// Like [`Self::append_event`], but also returns the connection to send the event on, or `None` while the client is
    /// disconnected. Both happen under one lock: a client that resumes concurrently gets the event exactly once.
    pub fn append_event_for_connection(&self, stream: u64, text: &str) -> (Bytes, Option<mpsc::Sender<Bytes>>) {
        let mut state = self.lock();
        let open = state.streams.entry(stream).or_default();
        open.last_event += 1;
        let (number, to) = (open.last_event, open.connection.as_ref().map(|to| to.events.clone()));
        let event = Bytes::from(sse_event_with_id(&self.event_id(stream, number), text));
        let share = u32::try_from(event.len() / REPLAY_BUDGET_UNIT_BYTES + 1).unwrap_or(u32::MAX);
        let budget_permit = Arc::clone(&self.budget).try_acquire_many_owned(share).ok();
        state.push_event(stream, number, &event, budget_permit);
        (event, to)
    }

    /// Returns the connection of a stream; `None` while the client is disconnected.
    pub fn find_connection(&self, stream: u64) -> Option<mpsc::Sender<Bytes>> {
        let state = self.lock();
        state.streams.get(&stream)?.connection.as_ref().map(|to| to.events.clone())
    }

    /// Closes the connection of a stream; the stream itself continues.
    pub fn disconnect(&self, stream: u64) {
        if let Some(stream) = self.lock().streams.get_mut(&stream) {
            stream.connection = None;
        }
    }

    /// Ends a stream. Its connection is closed, and its buffered events are kept for a while.
    pub fn end_stream(&self, stream: u64) {
        let mut state = self.lock();
        if let Some(stream) = state.streams.get_mut(&stream) {
            stream.ended_at = Some(Instant::now());
            stream.connection = None;
        }
        let ended = state.streams.iter().filter(|(_, stream)| stream.ended_at.is_some());
        let mut ended: Vec<u64> = ended.map(|(number, _)| *number).collect();
        let excess = ended.len().saturating_sub(MAX_ENDED_STREAMS);
        ended.drain(..excess).for_each(|number| state.remove_stream(number));
    }

    /// Removes ended streams whose retention period has passed.
    pub fn remove_expired(&self) {
        if self.state.get_if_initialized().is_none() {
            return;
        }
        let mut state = self.lock();
        let is_old =
            |stream: &ReplayStream| stream.ended_at.is_some_and(|since| since.elapsed() > ENDED_STREAM_RETENTION);
        let old: Vec<u64> =
            state.streams.iter().filter(|(_, stream)| is_old(stream)).map(|(number, _)| *number).collect();
        old.into_iter().for_each(|number| state.remove_stream(number));
    }

    /// Parses an event id; `None` if it does not have the gateway's format.
    pub fn parse_event_id(&self, id: &str) -> Option<SseEventId> {
        let mut parts = id.split('-');
        let (tag, stream, number) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(SseEventId { stream, number, is_of_this_session: tag == &*self.session_tag })
    }

    /// Returns the events after `position`, or `None` if some are no longer buffered.
    pub fn find_missed_events(&self, position: SseEventId) -> Option<Vec<Bytes>> {
        self.lock().find_missed_events(position)
    }

    /// Continues a stream on a new connection: first the missed events, then new ones. The earlier connection closes.
    /// Returns `None` if missed events are no longer buffered.
    pub fn resume_stream(&self, position: SseEventId, guard: InFlightGuard) -> Option<mpsc::Receiver<Bytes>> {
        let mut state = self.lock();
        let missed = state.find_missed_events(position)?;
        let stream = state.streams.get_mut(&position.stream)?;
        let (events, receiver) = mpsc::channel(missed.len() + 1 + EVENT_QUEUE_LENGTH);
        // Response headers are sent with the first bytes, and clients wait for them.
        let _ = events.try_send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes()));
        // INVARIANT: the channel has capacity for all of them, so `try_send` succeeds.
        missed.into_iter().for_each(|event| drop(events.try_send(event)));
        if stream.ended_at.is_none() {
            stream.connection = Some(ReplayStreamConnection { events, _in_flight_guard: Some(guard) });
        }
        Some(receiver)
    }

    fn event_id(&self, stream: u64, number: u64) -> String {
        format!("{}-{stream}-{number}", self.session_tag)
    }

    fn lock(&self) -> MutexGuard<'_, ReplayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplayState {
    fn push_event(&mut self, stream: u64, number: u64, event: &Bytes, budget_permit: Option<OwnedSemaphorePermit>) {
        match budget_permit {
            None => self.mark_evicted(stream, number),
            Some(permit) => {
                self.bytes += event.len();
                self.events.push_back(BufferedEvent { stream, number, event: event.clone(), _budget_permit: permit });
            }
        }
        let latest = self.events.back().map_or(0, |latest| latest.event.len());
        while self.events.len() > MAX_REPLAY_EVENTS || self.bytes - latest > MAX_SESSION_REPLAY_BYTES {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.event.len();
            self.mark_evicted(oldest.stream, oldest.number);
        }
    }

    fn mark_evicted(&mut self, stream: u64, number: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.last_evicted = stream.last_evicted.max(number);
        }
    }

    fn find_missed_events(&self, position: SseEventId) -> Option<Vec<Bytes>> {
        let stream = self.streams.get(&position.stream).filter(|_| position.is_of_this_session)?;
        let is_buffered = (stream.last_evicted..=stream.last_event).contains(&position.number);
        let own = self
            .events
            .iter()
            .filter(|buffered| buffered.stream == position.stream && buffered.number > position.number);
        is_buffered.then(|| own.map(|buffered| buffered.event.clone()).collect())
    }

    fn remove_stream(&mut self, stream: u64) {
        self.streams.remove(&stream);
        self.events.retain(|buffered| buffered.stream != stream);
        self.bytes = self.events.iter().map(|buffered| buffered.event.len()).sum();
    }
}

#[cfg(test)]
mod tests;
