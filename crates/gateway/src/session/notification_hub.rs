//! Distributes the notifications of a session's upstream to all listening clients, so that one upstream stream serves
//! them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, broadcast, watch};

/// How many messages are queued for a slow listener before it loses the oldest.
const BROADCAST_QUEUE_LENGTH: usize = 64;

/// The listeners of one upstream session, and the state of its stream.
#[derive(Debug)]
pub(crate) struct NotificationHub {
    /// Channel to the listeners. It is created for the first one, because a channel allocates its whole queue and most
    /// sessions have no listener.
    messages: OnceLock<broadcast::Sender<Bytes>>,
    state: Mutex<NotificationHubState>,
    /// State of the upstream's stream, set by the task that follows the stream. New listeners wait until it is known.
    stream_state: watch::Sender<StandaloneStreamState>,
    /// Notified when a listener is waiting for the stream. If the task that follows the stream is pausing between
    /// attempts, it then opens the stream.
    wanted: Notify,
    upstream_subscriptions: Mutex<HashMap<String, Arc<tokio::sync::Mutex<UpstreamSubscription>>>>,
}

/// State of the upstream's standalone stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandaloneStreamState {
    /// Not open.
    Closed,
    /// Open: notifications arrive.
    Open,
    /// The upstream does not offer a stream, so nothing is missed.
    Unsupported,
}

#[derive(Debug, Default)]
struct NotificationHubState {
    /// Whether a task is following the upstream's stream.
    is_followed: bool,
    /// Whether the previous follower stopped while clients were still listening.
    is_abandoned: bool,
    /// Number of listeners per resource.
    watchers: HashMap<String, usize>,
}

/// The upstream session's subscription to one resource. It is locked while a request is sent, so that subscribe and
/// unsubscribe requests cannot overtake each other.
#[derive(Debug, Default)]
pub(crate) struct UpstreamSubscription {
    /// The handshake attempt in which the subscription was requested.
    handshake_attempt: Option<u64>,
    /// Whether the upstream has accepted the subscription.
    pub is_accepted: bool,
}

impl UpstreamSubscription {
    /// Records the upstream's reply. `is_accepted` is `None` if the upstream did not reply. A rejected subscription is
    /// requested again by the next listener.
    pub fn record_reply(&mut self, is_accepted: Option<bool>) {
        self.is_accepted = is_accepted == Some(true);
        self.handshake_attempt = self.handshake_attempt.filter(|_| is_accepted != Some(false));
    }

    /// Returns the request to send in this handshake attempt: `Some(true)` to subscribe, `Some(false)` to unsubscribe.
    /// The request is recorded as sent.
    pub fn plan_request(&mut self, is_wanted: bool, attempt: u64) -> Option<bool> {
        let is_requested = self.handshake_attempt == Some(attempt);
        self.handshake_attempt = is_wanted.then_some(attempt);
        self.is_accepted &= is_requested;
        (is_wanted != is_requested).then_some(is_wanted)
    }
}

impl Default for NotificationHub {
    fn default() -> Self {
        Self {
            messages: OnceLock::new(),
            state: Mutex::default(),
            stream_state: watch::Sender::new(StandaloneStreamState::Closed),
            wanted: Notify::new(),
            upstream_subscriptions: Mutex::default(),
        }
    }
}

impl NotificationHub {
    pub fn subscribe(&self) -> broadcast::Receiver<Bytes> {
        self.messages.get_or_init(|| broadcast::Sender::new(BROADCAST_QUEUE_LENGTH)).subscribe()
    }

    /// Returns whether any client is listening.
    pub fn has_listeners(&self) -> bool {
        self.messages.get().is_some_and(|messages| messages.receiver_count() > 0)
    }

    /// Sends a message to all listeners.
    pub fn broadcast(&self, message: Bytes) {
        // Without listeners nothing is lost.
        let _ = self.messages.get().map(|messages| messages.send(message));
    }

    /// Sets the state of the upstream's stream.
    pub fn set_stream_state(&self, state: StandaloneStreamState) {
        self.stream_state.send_replace(state);
    }

    /// Waits until the upstream's stream is open or known to be unsupported. Wakes a follower that is pausing between
    /// attempts.
    pub async fn wait_for_stream(&self) {
        let mut state = self.stream_state.subscribe();
        if *state.borrow_and_update() == StandaloneStreamState::Closed {
            // Only a pausing follower is woken: one that fails to open the stream now still pauses afterwards.
            self.wanted.notify_waiters();
        }
        // INVARIANT: `self` owns the sender, so the channel is open.
        let _ = state.wait_for(|state| *state != StandaloneStreamState::Closed).await;
    }

    /// Waits until a listener needs the stream.
    pub async fn wait_until_wanted(&self) {
        self.wanted.notified().await;
    }

    /// Makes the calling task the follower of the upstream's stream. Returns whether the previous follower stopped
    /// while clients were listening, or `None` if there already is a follower.
    pub fn try_start_following(&self) -> Option<bool> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_followed, true) {
            return None;
        }
        // A server that did not support a stream may support one now.
        self.set_stream_state(StandaloneStreamState::Closed);
        Some(std::mem::take(&mut state.is_abandoned))
    }

    /// Stops following if there are no listeners. Returns whether following was stopped.
    pub fn stop_following_if_unused(&self) -> bool {
        let mut state = self.lock();
        if !self.has_listeners() {
            state.is_followed = false;
        }
        !state.is_followed
    }

    /// Stops following, even if there are listeners.
    pub fn stop_following(&self) {
        let mut state = self.lock();
        // Without listeners, no notification is missed.
        (state.is_followed, state.is_abandoned) = (false, self.has_listeners());
    }

    /// Adds a listener for a resource.
    pub fn watch(&self, uri: &str) {
        *self.lock().watchers.entry(uri.to_owned()).or_default() += 1;
    }

    /// Removes a listener for a resource.
    pub fn unwatch(&self, uri: &str) {
        let mut state = self.lock();
        if let Some(count) = state.watchers.get_mut(uri) {
            *count -= 1;
            if *count == 0 {
                state.watchers.remove(uri);
            }
        }
    }

    /// Returns the upstream subscription to a resource.
    pub fn upstream_subscription(&self, uri: &str) -> Arc<tokio::sync::Mutex<UpstreamSubscription>> {
        let mut subscriptions = self.upstream_subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        // Subscriptions that are neither requested nor being changed are removed.
        subscriptions.retain(|_, own| {
            Arc::strong_count(own) > 1 || own.try_lock().is_ok_and(|own| own.handshake_attempt.is_some())
        });
        Arc::clone(subscriptions.entry(uri.to_owned()).or_default())
    }

    /// Returns whether any client is listening for changes to a resource.
    pub fn is_watched(&self, uri: &str) -> bool {
        self.lock().watchers.contains_key(uri)
    }

    fn lock(&self) -> MutexGuard<'_, NotificationHubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
