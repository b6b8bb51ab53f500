//! The streams of a session: the client's standalone stream, what it may resume, and its position in the upstream's.

use std::sync::{Arc, Mutex};

use http::HeaderValue;
use tokio::sync::Notify;

use super::lazy_box::LazyBox;
use super::lock;
use super::replay::{ReplayBuffers, replay_budget};

/// The streams of one session.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub replay_buffers: ReplayBuffers,
    /// Signal for the client's open standalone stream. Notified when another stream is opened or the session ends; the
    /// task that serves the stream waits for it.
    end_signal: Mutex<Option<Arc<Notify>>>,
    /// Id of the last event on the upstream's standalone stream.
    last_event_id: LazyBox<Mutex<Option<HeaderValue>>>,
    /// Held while the client's stream is being served, so that the next stream finds all events that were sent.
    pub lock: LazyBox<tokio::sync::Mutex<()>>,
}

impl StreamState {
    /// Creates the state; `None` if no random bytes are available.
    pub fn new() -> Option<Self> {
        Some(Self {
            replay_buffers: ReplayBuffers::new(replay_budget(0))?,
            end_signal: Mutex::default(),
            last_event_id: LazyBox::default(),
            lock: LazyBox::default(),
        })
    }

    /// Registers the session's standalone stream and ends any earlier one. The returned signal is notified when the new
    /// stream must end.
    pub fn open(&self) -> Arc<Notify> {
        let handle = Arc::new(Notify::new());
        if let Some(previous) = lock(&self.end_signal).replace(Arc::clone(&handle)) {
            previous.notify_one();
        }
        handle
    }

    /// Unregisters a stream that has ended.
    pub fn close(&self, handle: &Arc<Notify>) {
        let mut stream = lock(&self.end_signal);
        if stream.as_ref().is_some_and(|own| Arc::ptr_eq(own, handle)) {
            *stream = None;
        }
    }

    /// Tells the open stream to end.
    pub fn end(&self) {
        if let Some(stream) = lock(&self.end_signal).take() {
            stream.notify_one();
        }
    }

    pub fn is_open(&self) -> bool {
        lock(&self.end_signal).is_some()
    }

    /// Returns the id of the last event on the upstream's standalone stream.
    pub fn last_event_id(&self) -> Option<HeaderValue> {
        self.last_event_id.get_if_initialized().and_then(|last_event_id| lock(last_event_id).clone())
    }

    /// Records the id of the last event if `is_current` returns true while the record is locked.
    pub(super) fn set_last_event_id(&self, last: Option<HeaderValue>, is_current: impl FnOnce() -> bool) {
        let mut last_event_id = lock(&self.last_event_id);
        if is_current() {
            *last_event_id = last;
        }
    }
}
