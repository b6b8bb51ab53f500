//! What a session's upstream says to nobody in particular, for all who listen: one stream is followed, however many they
//! are.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::broadcast;

/// Messages that wait for a listener that does not read; beyond that the oldest are lost to it.
const WAITING: usize = 64;

/// Where they listen.
#[derive(Debug)]
pub(crate) struct Hub {
    messages: broadcast::Sender<Bytes>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether somebody follows the upstream's stream.
    is_followed: bool,
    /// How many listen for a resource.
    watched: HashMap<String, usize>,
}

impl Default for Hub {
    fn default() -> Self {
        Self { messages: broadcast::Sender::new(WAITING), state: Mutex::default() }
    }
}

impl Hub {
    pub fn listen(&self) -> broadcast::Receiver<Bytes> {
        self.messages.subscribe()
    }

    /// Passes a message to all who listen.
    pub fn tell(&self, message: Bytes) {
        // Nobody listening is nothing lost.
        let _ = self.messages.send(message);
    }

    /// Takes it upon the caller to follow the upstream's stream; false if somebody does.
    pub fn begin_following(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_followed, true)
    }

    /// Gives that up where nobody listens any more.
    pub fn end_following(&self) -> bool {
        let mut state = self.lock();
        if self.messages.receiver_count() == 0 {
            state.is_followed = false;
        }
        !state.is_followed
    }

    /// Gives it up, whoever listens.
    pub fn leave(&self) {
        self.lock().is_followed = false;
    }

    /// Notes one more who listens for a resource; whether it is the first.
    pub fn watch(&self, uri: &str) -> bool {
        let mut state = self.lock();
        let count = state.watched.entry(uri.to_owned()).or_default();
        *count += 1;
        *count == 1
    }

    /// Notes one less; whether it was the last.
    pub fn unwatch(&self, uri: &str) -> bool {
        let mut state = self.lock();
        let Some(count) = state.watched.get_mut(uri) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            state.watched.remove(uri);
        }
        is_last
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
