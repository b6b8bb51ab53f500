//! What a session's upstream says to nobody in particular, for all who listen: one stream is followed, however many they
//! are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, broadcast, watch};

/// Messages that wait for a listener that does not read; beyond that the oldest are lost to it.
const BROADCAST_QUEUE_LENGTH: usize = 64;

/// Where they listen.
#[derive(Debug)]
pub(crate) struct NotificationHub {
    /// Made for the first who listens: it has its places for messages from the start, and most sessions have nobody.
    messages: OnceLock<broadcast::Sender<Bytes>>,
    state: Mutex<NotificationHubState>,
    /// Written by whoever follows the upstream's stream; those who begin to listen wait for it.
    stream_state: watch::Sender<UpstreamStreamState>,
    /// Told when somebody waits for the stream; whoever lets it rest opens it.
    wanted: Notify,
    upstream_subscriptions: Mutex<HashMap<String, Arc<tokio::sync::Mutex<UpstreamSubscription>>>>,
}

/// How it stands with the upstream's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamStreamState {
    /// It is not open, or not any more.
    Closed,
    /// What is said is heard.
    Open,
    /// The upstream has none, so nothing is missed.
    Unsupported,
}

#[derive(Debug, Default)]
struct NotificationHubState {
    /// Whether somebody follows the upstream's stream.
    is_followed: bool,
    /// Whether whoever did has left it to those who listen.
    is_abandoned: bool,
    /// How many listen for a resource.
    watchers: HashMap<String, usize>,
}

/// In which opening of the session the upstream was asked to tell of a resource. Held while it is asked: who begins to
/// listen and who ends must not overtake one another on the way.
#[derive(Debug, Default)]
pub(crate) struct UpstreamSubscription {
    handshake_attempt: Option<u64>,
    /// Whether it has said that it will.
    pub is_accepted: bool,
}

impl UpstreamSubscription {
    /// Notes what the upstream said to it; none if it said nothing. What it will not tell of is asked for anew by the next
    /// who wants it.
    pub fn record_reply(&mut self, is_taken: Option<bool>) {
        self.is_accepted = is_taken == Some(true);
        self.handshake_attempt = self.handshake_attempt.filter(|_| is_taken != Some(false));
    }

    /// What the upstream has to be asked, so that it tells of a resource just if it is wanted in this opening of the
    /// session: true to tell, false not to. It is taken for asked then.
    pub fn plan_request(&mut self, is_wanted: bool, opening: u64) -> Option<bool> {
        let is_asked = self.handshake_attempt == Some(opening);
        self.handshake_attempt = is_wanted.then_some(opening);
        self.is_accepted &= is_asked;
        (is_wanted != is_asked).then_some(is_wanted)
    }
}

impl Default for NotificationHub {
    fn default() -> Self {
        Self {
            messages: OnceLock::new(),
            state: Mutex::default(),
            stream_state: watch::Sender::new(UpstreamStreamState::Closed),
            wanted: Notify::new(),
            upstream_subscriptions: Mutex::default(),
        }
    }
}

impl NotificationHub {
    pub fn subscribe(&self) -> broadcast::Receiver<Bytes> {
        self.messages.get_or_init(|| broadcast::Sender::new(BROADCAST_QUEUE_LENGTH)).subscribe()
    }

    /// Whether somebody listens.
    pub fn has_listeners(&self) -> bool {
        self.messages.get().is_some_and(|messages| messages.receiver_count() > 0)
    }

    /// Passes a message to all who listen.
    pub fn broadcast(&self, message: Bytes) {
        // Nobody listening is nothing lost.
        let _ = self.messages.get().map(|messages| messages.send(message));
    }

    /// Notes how it stands with the upstream's stream.
    pub fn set_stream_state(&self, standing: UpstreamStreamState) {
        self.stream_state.send_replace(standing);
    }

    /// Waits until the upstream's stream is open, or it is known that there is none. Has one opened that rests.
    pub async fn wait_for_stream(&self) {
        let mut standing = self.stream_state.subscribe();
        if *standing.borrow_and_update() == UpstreamStreamState::Closed {
            // Only who rests is told: one that opens it now, and fails, rests all the same.
            self.wanted.notify_waiters();
        }
        // INVARIANT: the other end is ours, so it is there.
        let _ = standing.wait_for(|standing| *standing != UpstreamStreamState::Closed).await;
    }

    /// Waits until somebody waits for the stream.
    pub async fn wait_until_wanted(&self) {
        self.wanted.notified().await;
    }

    /// Takes it upon the caller to follow the upstream's stream; none if somebody does. Gives whether the one before has
    /// left it to others.
    pub fn try_start_following(&self) -> Option<bool> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_followed, true) {
            return None;
        }
        // A server that had none may have one by now.
        self.set_stream_state(UpstreamStreamState::Closed);
        Some(std::mem::take(&mut state.is_abandoned))
    }

    /// Gives that up where nobody listens any more.
    pub fn stop_following_if_unused(&self) -> bool {
        let mut state = self.lock();
        if !self.has_listeners() {
            state.is_followed = false;
        }
        !state.is_followed
    }

    /// Gives it up, whoever listens.
    pub fn stop_following(&self) {
        let mut state = self.lock();
        // What is said while nobody listens is nobody's.
        (state.is_followed, state.is_abandoned) = (false, self.has_listeners());
    }

    /// Notes one more who listens for a resource.
    pub fn watch(&self, uri: &str) {
        *self.lock().watchers.entry(uri.to_owned()).or_default() += 1;
    }

    /// Notes one less.
    pub fn unwatch(&self, uri: &str) {
        let mut state = self.lock();
        if let Some(count) = state.watchers.get_mut(uri) {
            *count -= 1;
            if *count == 0 {
                state.watchers.remove(uri);
            }
        }
    }

    /// What the upstream was asked of a resource.
    pub fn upstream_subscription(&self, uri: &str) -> Arc<tokio::sync::Mutex<UpstreamSubscription>> {
        let mut subscriptions = self.upstream_subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody wants, and nobody asks about, are forgotten.
        subscriptions.retain(|_, own| {
            Arc::strong_count(own) > 1 || own.try_lock().is_ok_and(|own| own.handshake_attempt.is_some())
        });
        Arc::clone(subscriptions.entry(uri.to_owned()).or_default())
    }

    /// Whether anybody listens for a resource.
    pub fn is_watched(&self, uri: &str) -> bool {
        self.lock().watchers.contains_key(uri)
    }

    fn lock(&self) -> MutexGuard<'_, NotificationHubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
