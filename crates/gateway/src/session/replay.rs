//! Streams that a client of a session can come back to: what was sent on them lately, under ids that name the stream.
//!
//! What is kept is bounded for each session in number and bytes, and for all sessions in bytes. Whoever comes back for
//! more than is kept is told so; nothing is left out in silence.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_mcp::{SSE_KEEP_ALIVE, sse_event_with_id, sse_priming_event};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::lazy_box::LazyBox;
use crate::pipeline::InFlightGuard;

/// The stream of what belongs to no request.
pub(crate) const STANDALONE_STREAM: u64 = 0;

/// Events of one session that are kept: a call tells of its progress some dozen times.
const MAX_REPLAY_EVENTS: usize = 256;
/// Their bytes, beside those of the latest, which may be a result of any size.
const MAX_SESSION_REPLAY_BYTES: usize = 4 << 20;
/// Streams of one session that are over and still kept.
const MAX_ENDED_STREAMS: usize = 32;
/// How long they are: clients come back within seconds.
const ENDED_STREAM_RETENTION: Duration = Duration::from_secs(300);
/// What room for kept events of all sessions is counted in.
const REPLAY_BUDGET_UNIT_BYTES: usize = 1 << 10;
/// When a client that lost its connection may come back.
const CLIENT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Events that wait for a slow client; beyond that the upstream waits.
const EVENT_QUEUE_LENGTH: usize = 32;

/// The streams of one session.
#[derive(Debug)]
pub(crate) struct ReplayBuffers {
    /// Tells its ids from those of other sessions.
    session_tag: Box<str>,
    state: LazyBox<Mutex<ReplayState>>,
    budget: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct ReplayState {
    last_stream: u64,
    streams: BTreeMap<u64, ReplayStream>,
    /// Of all streams, the oldest first.
    events: VecDeque<BufferedEvent>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct ReplayStream {
    last_event: u64,
    /// The latest event that is not kept any more.
    last_evicted: u64,
    /// The connection that it goes out on; none while the client is away.
    connection: Option<ReplayConnection>,
    ended_at: Option<Instant>,
}

#[derive(Debug)]
struct ReplayConnection {
    events: mpsc::Sender<Bytes>,
    /// Its place among the open streams, if it was opened to come back.
    _in_flight_guard: Option<InFlightGuard>,
}

#[derive(Debug)]
struct BufferedEvent {
    stream: u64,
    number: u64,
    event: Bytes,
    _budget_permit: OwnedSemaphorePermit,
}

/// The place in a stream that an event's id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SseEventId {
    pub stream: u64,
    number: u64,
    /// Whether it is a place of this session, as far as it remembers.
    is_of_this_session: bool,
}

/// Room for what all sessions keep, in pieces.
pub(crate) fn replay_budget(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes / REPLAY_BUDGET_UNIT_BYTES))
}

impl ReplayBuffers {
    /// None without randomness.
    pub fn new(room: Arc<Semaphore>) -> Option<Self> {
        let mut random = [0; 6];
        getrandom::fill(&mut random).ok()?;
        Some(Self { session_tag: HEXLOWER.encode(&random).into(), state: LazyBox::default(), budget: room })
    }

    /// Shares the room with all other sessions.
    pub fn set_budget(&mut self, room: &Arc<Semaphore>) {
        self.budget = Arc::clone(room);
    }

    /// Begins a stream to a connection.
    pub fn begin_stream(&self, events: mpsc::Sender<Bytes>) -> u64 {
        let mut table = self.lock();
        table.last_stream += 1;
        let number = table.last_stream;
        let to = Some(ReplayConnection { events, _in_flight_guard: None });
        table.streams.insert(number, ReplayStream { connection: to, ..ReplayStream::default() });
        number
    }

    /// Writes the event that gives the client a place to come back to.
    pub fn priming_event(&self, stream: u64) -> Bytes {
        let latest = self.lock().streams.entry(stream).or_default().last_event;
        sse_priming_event(&self.event_id(stream, latest), CLIENT_RETRY_DELAY).into()
    }

    /// Writes a message as the next event of a stream and keeps it.
    pub fn append_event(&self, stream: u64, text: &str) -> Bytes {
        self.append_event_for_connection(stream, text).0
    }

    /// The same, with the connection that it is to go out on; none while the client is away. Both in one step: whoever
    /// comes back meanwhile has either missed it or is sent it.
    pub fn append_event_for_connection(&self, stream: u64, text: &str) -> (Bytes, Option<mpsc::Sender<Bytes>>) {
        let mut table = self.lock();
        let open = table.streams.entry(stream).or_default();
        open.last_event += 1;
        let (number, to) = (open.last_event, open.connection.as_ref().map(|to| to.events.clone()));
        let event = Bytes::from(sse_event_with_id(&self.event_id(stream, number), text));
        let share = u32::try_from(event.len() / REPLAY_BUDGET_UNIT_BYTES + 1).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.budget).try_acquire_many_owned(share).ok();
        table.push_event(stream, number, &event, room);
        (event, to)
    }

    /// The connection of a stream; none while the client is away.
    pub fn find_connection(&self, stream: u64) -> Option<mpsc::Sender<Bytes>> {
        let table = self.lock();
        table.streams.get(&stream)?.connection.as_ref().map(|to| to.events.clone())
    }

    /// Ends the connection of a stream that goes on.
    pub fn disconnect(&self, stream: u64) {
        if let Some(stream) = self.lock().streams.get_mut(&stream) {
            stream.connection = None;
        }
    }

    /// The stream is over: its connection ends, what is kept of it stays for a while.
    pub fn end_stream(&self, stream: u64) {
        let mut table = self.lock();
        if let Some(stream) = table.streams.get_mut(&stream) {
            stream.ended_at = Some(Instant::now());
            stream.connection = None;
        }
        let over = table.streams.iter().filter(|(_, stream)| stream.ended_at.is_some());
        let mut over: Vec<u64> = over.map(|(number, _)| *number).collect();
        let excess = over.len().saturating_sub(MAX_ENDED_STREAMS);
        over.drain(..excess).for_each(|number| table.remove_stream(number));
    }

    /// Forgets streams that have been over for long.
    pub fn remove_expired(&self) {
        if self.state.get_if_initialized().is_none() {
            return;
        }
        let mut table = self.lock();
        let is_old =
            |stream: &ReplayStream| stream.ended_at.is_some_and(|since| since.elapsed() > ENDED_STREAM_RETENTION);
        let old: Vec<u64> =
            table.streams.iter().filter(|(_, stream)| is_old(stream)).map(|(number, _)| *number).collect();
        old.into_iter().for_each(|number| table.remove_stream(number));
    }

    /// Reads an id that a client has seen; none if it is none of ours.
    pub fn parse_event_id(&self, id: &str) -> Option<SseEventId> {
        let mut parts = id.split('-');
        let (tag, stream, number) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(SseEventId { stream, number, is_of_this_session: tag == &*self.session_tag })
    }

    /// What a client missed of a stream; none if that is not known any more.
    pub fn find_missed_events(&self, place: SseEventId) -> Option<Vec<Bytes>> {
        self.lock().find_missed_events(place)
    }

    /// Goes on with a stream on another connection: first what the client missed, then what comes. The earlier
    /// connection ends. None if what it missed is not known any more.
    pub fn resume_stream(&self, place: SseEventId, room: InFlightGuard) -> Option<mpsc::Receiver<Bytes>> {
        let mut table = self.lock();
        let missed = table.find_missed_events(place)?;
        let stream = table.streams.get_mut(&place.stream)?;
        let (events, receiver) = mpsc::channel(missed.len() + 1 + EVENT_QUEUE_LENGTH);
        // The head goes out with the first bytes; clients wait for it.
        let _ = events.try_send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes()));
        // INVARIANT: there is room for all of them, so none is left out.
        missed.into_iter().for_each(|event| drop(events.try_send(event)));
        if stream.ended_at.is_none() {
            stream.connection = Some(ReplayConnection { events, _in_flight_guard: Some(room) });
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
    fn push_event(&mut self, stream: u64, number: u64, event: &Bytes, room: Option<OwnedSemaphorePermit>) {
        match room {
            None => self.mark_evicted(stream, number),
            Some(room) => {
                self.bytes += event.len();
                self.events.push_back(BufferedEvent { stream, number, event: event.clone(), _budget_permit: room });
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

    fn find_missed_events(&self, place: SseEventId) -> Option<Vec<Bytes>> {
        let stream = self.streams.get(&place.stream).filter(|_| place.is_of_this_session)?;
        let is_there = (stream.last_evicted..=stream.last_event).contains(&place.number);
        let own =
            self.events.iter().filter(|buffered| buffered.stream == place.stream && buffered.number > place.number);
        is_there.then(|| own.map(|buffered| buffered.event.clone()).collect())
    }

    fn remove_stream(&mut self, stream: u64) {
        self.streams.remove(&stream);
        self.events.retain(|buffered| buffered.stream != stream);
        self.bytes = self.events.iter().map(|buffered| buffered.event.len()).sum();
    }
}

#[cfg(test)]
mod tests;
