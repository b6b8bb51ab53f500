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
use crate::call::Room;

/// The stream of what belongs to no request.
pub(crate) const STANDALONE: u64 = 0;

/// Events of one session that are kept: a call tells of its progress some dozen times.
const MAX_EVENTS: usize = 256;
/// Their bytes, beside those of the latest, which may be a result of any size.
const MAX_BYTES: usize = 4 << 20;
/// Streams of one session that are over and still kept.
const MAX_OVER: usize = 32;
/// How long they are: clients come back within seconds.
const KEPT: Duration = Duration::from_secs(300);
/// What room for kept events of all sessions is counted in.
const PIECE: usize = 1 << 10;
/// When a client that lost its connection may come back.
const RETRY: Duration = Duration::from_secs(1);
/// Events that wait for a slow client; beyond that the upstream waits.
const WAITING: usize = 32;

/// The streams of one session.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Tells its ids from those of other sessions.
    tag: Box<str>,
    table: LazyBox<Mutex<Table>>,
    room: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Table {
    latest: u64,
    streams: BTreeMap<u64, Stream>,
    /// Of all streams, the oldest first.
    kept: VecDeque<Kept>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Stream {
    latest: u64,
    /// The latest event that is not kept any more.
    lost: u64,
    /// The connection that it goes out on; none while the client is away.
    to: Option<Connection>,
    over_since: Option<Instant>,
}

#[derive(Debug)]
struct Connection {
    events: mpsc::Sender<Bytes>,
    /// Its place among the open streams, if it was opened to come back.
    _room: Option<Room>,
}

#[derive(Debug)]
struct Kept {
    stream: u64,
    number: u64,
    event: Bytes,
    _room: OwnedSemaphorePermit,
}

/// The place in a stream that an event's id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub stream: u64,
    number: u64,
    /// Whether it is a place of this session, as far as it remembers.
    is_own: bool,
}

/// Room for what all sessions keep, in pieces.
pub(crate) fn room_for(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes / PIECE))
}

impl Streams {
    /// None without randomness.
    pub fn new(room: Arc<Semaphore>) -> Option<Self> {
        let mut random = [0; 6];
        getrandom::fill(&mut random).ok()?;
        Some(Self { tag: HEXLOWER.encode(&random).into(), table: LazyBox::default(), room })
    }

    /// Shares the room with all other sessions.
    pub fn share(&mut self, room: &Arc<Semaphore>) {
        self.room = Arc::clone(room);
    }

    /// Begins a stream to a connection.
    pub fn begin(&self, events: mpsc::Sender<Bytes>) -> u64 {
        let mut table = self.lock();
        table.latest += 1;
        let number = table.latest;
        let to = Some(Connection { events, _room: None });
        table.streams.insert(number, Stream { to, ..Stream::default() });
        number
    }

    /// Writes the event that gives the client a place to come back to.
    pub fn priming(&self, stream: u64) -> Bytes {
        let latest = self.lock().streams.entry(stream).or_default().latest;
        sse_priming_event(&self.id(stream, latest), RETRY).into()
    }

    /// Writes a message as the next event of a stream and keeps it.
    pub fn stamped(&self, stream: u64, text: &str) -> Bytes {
        self.stamped_for(stream, text).0
    }

    /// The same, with the connection that it is to go out on; none while the client is away. Both in one step: whoever
    /// comes back meanwhile has either missed it or is sent it.
    pub fn stamped_for(&self, stream: u64, text: &str) -> (Bytes, Option<mpsc::Sender<Bytes>>) {
        let mut table = self.lock();
        let open = table.streams.entry(stream).or_default();
        open.latest += 1;
        let (number, to) = (open.latest, open.to.as_ref().map(|to| to.events.clone()));
        let event = Bytes::from(sse_event_with_id(&self.id(stream, number), text));
        let share = u32::try_from(event.len() / PIECE + 1).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(share).ok();
        table.keep(stream, number, &event, room);
        (event, to)
    }

    /// The connection of a stream; none while the client is away.
    pub fn connection(&self, stream: u64) -> Option<mpsc::Sender<Bytes>> {
        let table = self.lock();
        table.streams.get(&stream)?.to.as_ref().map(|to| to.events.clone())
    }

    /// Ends the connection of a stream that goes on.
    pub fn let_go(&self, stream: u64) {
        if let Some(stream) = self.lock().streams.get_mut(&stream) {
            stream.to = None;
        }
    }

    /// The stream is over: its connection ends, what is kept of it stays for a while.
    pub fn end(&self, stream: u64) {
        let mut table = self.lock();
        if let Some(stream) = table.streams.get_mut(&stream) {
            stream.over_since = Some(Instant::now());
            stream.to = None;
        }
        let over = table.streams.iter().filter(|(_, stream)| stream.over_since.is_some());
        let mut over: Vec<u64> = over.map(|(number, _)| *number).collect();
        let excess = over.len().saturating_sub(MAX_OVER);
        over.drain(..excess).for_each(|number| table.forget(number));
    }

    /// Forgets streams that have been over for long.
    pub fn forget_old(&self) {
        if self.table.get_if_initialized().is_none() {
            return;
        }
        let mut table = self.lock();
        let is_old = |stream: &Stream| stream.over_since.is_some_and(|since| since.elapsed() > KEPT);
        let old: Vec<u64> =
            table.streams.iter().filter(|(_, stream)| is_old(stream)).map(|(number, _)| *number).collect();
        old.into_iter().for_each(|number| table.forget(number));
    }

    /// Reads an id that a client has seen; none if it is none of ours.
    pub fn place(&self, id: &str) -> Option<Place> {
        let mut parts = id.split('-');
        let (tag, stream, number) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Place { stream, number, is_own: tag == &*self.tag })
    }

    /// What a client missed of a stream; none if that is not known any more.
    pub fn missed(&self, place: Place) -> Option<Vec<Bytes>> {
        self.lock().missed(place)
    }

    /// Goes on with a stream on another connection: first what the client missed, then what comes. The earlier
    /// connection ends. None if what it missed is not known any more.
    pub fn resume(&self, place: Place, room: Room) -> Option<mpsc::Receiver<Bytes>> {
        let mut table = self.lock();
        let missed = table.missed(place)?;
        let stream = table.streams.get_mut(&place.stream)?;
        let (events, receiver) = mpsc::channel(missed.len() + 1 + WAITING);
        // The head goes out with the first bytes; clients wait for it.
        let _ = events.try_send(Bytes::from_static(SSE_KEEP_ALIVE.as_bytes()));
        // INVARIANT: there is room for all of them, so none is left out.
        missed.into_iter().for_each(|event| drop(events.try_send(event)));
        if stream.over_since.is_none() {
            stream.to = Some(Connection { events, _room: Some(room) });
        }
        Some(receiver)
    }

    fn id(&self, stream: u64, number: u64) -> String {
        format!("{}-{stream}-{number}", self.tag)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn keep(&mut self, stream: u64, number: u64, event: &Bytes, room: Option<OwnedSemaphorePermit>) {
        match room {
            None => self.lose(stream, number),
            Some(room) => {
                self.bytes += event.len();
                self.kept.push_back(Kept { stream, number, event: event.clone(), _room: room });
            }
        }
        let latest = self.kept.back().map_or(0, |latest| latest.event.len());
        while self.kept.len() > MAX_EVENTS || self.bytes - latest > MAX_BYTES {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.bytes -= oldest.event.len();
            self.lose(oldest.stream, oldest.number);
        }
    }

    fn lose(&mut self, stream: u64, number: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.lost = stream.lost.max(number);
        }
    }

    fn missed(&self, place: Place) -> Option<Vec<Bytes>> {
        let stream = self.streams.get(&place.stream).filter(|_| place.is_own)?;
        let is_there = (stream.lost..=stream.latest).contains(&place.number);
        let own = self.kept.iter().filter(|kept| kept.stream == place.stream && kept.number > place.number);
        is_there.then(|| own.map(|kept| kept.event.clone()).collect())
    }

    fn forget(&mut self, stream: u64) {
        self.streams.remove(&stream);
        self.kept.retain(|kept| kept.stream != stream);
        self.bytes = self.kept.iter().map(|kept| kept.event.len()).sum();
    }
}

#[cfg(test)]
mod tests;
