//! What a session's upstream says to nobody in particular, for all who listen: one stream is followed, however many they
//! are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, broadcast, watch};

/// Messages that wait for a listener that does not read; beyond that the oldest are lost to it.
const WAITING: usize = 64;

/// Where they listen.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Made for the first who listens: it has its places for messages from the start, and most sessions have nobody.
    messages: OnceLock<broadcast::Sender<Bytes>>,
    state: Mutex<State>,
    /// Written by whoever follows the upstream's stream; those who begin to listen wait for it.
    standing: watch::Sender<Standing>,
    /// Told when somebody waits for the stream; whoever lets it rest opens it.
    wanted: Notify,
    asked: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Asked>>>>,
}

/// How it stands with the upstream's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is not open, or not any more.
    Away,
    /// What is said is heard.
    Open,
    /// The upstream has none, so nothing is missed.
    Absent,
}

#[derive(Debug, Default)]
struct State {
    /// Whether somebody follows the upstream's stream.
    is_followed: bool,
    /// Whether whoever did has left it to those who listen.
    is_left: bool,
    /// How many listen for a resource.
    watched: HashMap<String, usize>,
}

/// In which opening of the session the upstream was asked to tell of a resource. Held while it is asked: who begins to
/// listen and who ends must not overtake one another on the way.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    opening: Option<u64>,
    /// Whether it has said that it will.
    pub is_taken: bool,
}

impl Asked {
    /// Notes what the upstream said to it; none if it said nothing. What it will not tell of is asked for anew by the next
    /// who wants it.
    pub fn note(&mut self, is_taken: Option<bool>) {
        self.is_taken = is_taken == Some(true);
        self.opening = self.opening.filter(|_| is_taken != Some(false));
    }

    /// What the upstream has to be asked, so that it tells of a resource just if it is wanted in this opening of the
    /// session: true to tell, false not to. It is taken for asked then.
    pub fn settle(&mut self, is_wanted: bool, opening: u64) -> Option<bool> {
        let is_asked = self.opening == Some(opening);
        self.opening = is_wanted.then_some(opening);
        self.is_taken &= is_asked;
        (is_wanted != is_asked).then_some(is_wanted)
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            messages: OnceLock::new(),
            state: Mutex::default(),
            standing: watch::Sender::new(Standing::Away),
            wanted: Notify::new(),
            asked: Mutex::default(),
        }
    }
}

impl Hub {
    pub fn listen(&self) -> broadcast::Receiver<Bytes> {
        self.messages.get_or_init(|| broadcast::Sender::new(WAITING)).subscribe()
    }

    /// Whether somebody listens.
    pub fn is_heard(&self) -> bool {
        self.messages.get().is_some_and(|messages| messages.receiver_count() > 0)
    }

    /// Passes a message to all who listen.
    pub fn tell(&self, message: Bytes) {
        // Nobody listening is nothing lost.
        let _ = self.messages.get().map(|messages| messages.send(message));
    }

    /// Notes how it stands with the upstream's stream.
    pub fn stand(&self, standing: Standing) {
        self.standing.send_replace(standing);
    }

    /// Waits until the upstream's stream is open, or it is known that there is none. Has one opened that rests.
    pub async fn stands(&self) {
        let mut standing = self.standing.subscribe();
        if *standing.borrow_and_update() == Standing::Away {
            // Only who rests is told: one that opens it now, and fails, rests all the same.
            self.wanted.notify_waiters();
        }
        // INVARIANT: the other end is ours, so it is there.
        let _ = standing.wait_for(|standing| *standing != Standing::Away).await;
    }

    /// Waits until somebody waits for the stream.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Takes it upon the caller to follow the upstream's stream; none if somebody does. Gives whether the one before has
    /// left it to others.
    pub fn begin_following(&self) -> Option<bool> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_followed, true) {
            return None;
        }
        // A server that had none may have one by now.
        self.stand(Standing::Away);
        Some(std::mem::take(&mut state.is_left))
    }

    /// Gives that up where nobody listens any more.
    pub fn end_following(&self) -> bool {
        let mut state = self.lock();
        if !self.is_heard() {
            state.is_followed = false;
        }
        !state.is_followed
    }

    /// Gives it up, whoever listens.
    pub fn leave(&self) {
        let mut state = self.lock();
        // What is said while nobody listens is nobody's.
        (state.is_followed, state.is_left) = (false, self.is_heard());
    }

    /// Notes one more who listens for a resource.
    pub fn watch(&self, uri: &str) {
        *self.lock().watched.entry(uri.to_owned()).or_default() += 1;
    }

    /// Notes one less.
    pub fn unwatch(&self, uri: &str) {
        let mut state = self.lock();
        if let Some(count) = state.watched.get_mut(uri) {
            *count -= 1;
            if *count == 0 {
                state.watched.remove(uri);
            }
        }
    }

    /// What the upstream was asked of a resource.
    pub fn asked(&self, uri: &str) -> Arc<tokio::sync::Mutex<Asked>> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody wants, and nobody asks about, are forgotten.
        asked.retain(|_, own| Arc::strong_count(own) > 1 || own.try_lock().is_ok_and(|own| own.opening.is_some()));
        Arc::clone(asked.entry(uri.to_owned()).or_default())
    }

    /// Whether anybody listens for a resource.
    pub fn is_watched(&self, uri: &str) -> bool {
        self.lock().watched.contains_key(uri)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
