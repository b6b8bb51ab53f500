//! Whose turn it is at the sessions of one kind. Where all messages share a connection, a question does not say to which
//! call it belongs, so a call that may be asked something has a session to itself while it is open.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Sessions of one kind that are open at once.
const MAX_SESSIONS_PER_GROUP: usize = 8;
/// What is said to a call beyond that.
pub(super) const NO_EXCLUSIVE_SESSION_MESSAGE: &str = "8 calls are open in which this server may ask you something, and no more may be; \
    answer what it asks, or try again when one of them has ended; the call was not sent";
/// How long a call waits for a session that is open before it opens another: most calls are soon done, a session takes
/// time to open, and a server may keep something from one call to the next.
const SOON: Duration = Duration::from_secs(1);
/// How often it is looked for calls that should give way.
const LOOK: Duration = Duration::from_millis(500);

/// A place for one session: the id of the one that is open. Whoever holds it opens it.
pub(super) type Slot = Arc<tokio::sync::Mutex<Option<Box<str>>>>;

/// The places for sessions of one kind.
#[derive(Debug)]
pub(crate) struct Row {
    /// Where nobody is asked, all share this one.
    first: Slot,
    places: Mutex<Places>,
    /// As many as there are free places. Who takes one takes a place, and puts it back with the place.
    turns: Semaphore,
}

#[derive(Debug)]
struct Places {
    /// The last is taken first.
    free: Vec<Slot>,
    count: usize,
}

impl Default for Row {
    fn default() -> Self {
        let first = Slot::default();
        let places = Mutex::new(Places { free: vec![Arc::clone(&first)], count: 1 });
        Self { first, places, turns: Semaphore::new(1) }
    }
}

impl Row {
    pub fn first(&self) -> &Slot {
        &self.first
    }

    /// Waits for a session to itself, and opens the way to one more where none is soon free. Beyond the bound, one call
    /// that should give way is told so by `make_room`, as soon as there is one. None if it takes too long.
    pub async fn turn(self: &Arc<Self>, patience: Duration, make_room: impl Fn() -> bool) -> Option<ExclusiveSession> {
        if let Ok(turn) = tokio::time::timeout(SOON, self.free()).await {
            return turn;
        }
        if let Some(slot) = self.one_more() {
            return Some(ExclusiveSession { row: Arc::clone(self), slot });
        }
        let waiting = async {
            let mut free = std::pin::pin!(self.free());
            let mut look = tokio::time::interval(LOOK);
            // Its server is told first, which may take longer than until the next look.
            let mut gives_way = false;
            loop {
                tokio::select! {
                    biased;
                    turn = &mut free => return turn,
                    _ = look.tick(), if !gives_way => gives_way = make_room(),
                }
            }
        };
        tokio::time::timeout(patience, waiting).await.ok()?
    }

    async fn free(self: &Arc<Self>) -> Option<ExclusiveSession> {
        self.turns.acquire().await.ok()?.forget();
        let slot = self.places().free.pop()?;
        Some(ExclusiveSession { row: Arc::clone(self), slot })
    }

    fn one_more(&self) -> Option<Slot> {
        let mut places = self.places();
        (places.count < MAX_SESSIONS_PER_GROUP).then(|| {
            places.count += 1;
            Slot::default()
        })
    }

    /// Gives up places beside the first whose session nobody uses, and gives the ids of those sessions.
    pub fn give_up(&self, is_unused: impl Fn(&str) -> bool) -> Vec<Box<str>> {
        let mut places = self.places();
        let (before, mut ids) = (places.free.len(), Vec::new());
        places.free.retain(|slot| {
            let Some(mut id) = slot.try_lock().ok().filter(|_| !Arc::ptr_eq(slot, &self.first)) else { return true };
            if !id.as_deref().is_none_or(&is_unused) {
                return true;
            }
            // Whoever has a turn already has yet to take a place.
            let Ok(turn) = self.turns.try_acquire() else { return true };
            turn.forget();
            ids.extend(id.take());
            false
        });
        places.count -= before - places.free.len();
        ids
    }

    /// Whether somebody has a turn, or there are sessions beside the first.
    pub fn is_more_than_first(&self) -> bool {
        let places = self.places();
        places.free.len() < places.count || places.count > 1
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that one call has to itself, until this is dropped.
#[derive(Debug)]
pub(crate) struct ExclusiveSession {
    row: Arc<Row>,
    slot: Slot,
}

impl ExclusiveSession {
    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    pub fn is_of(&self, row: &Arc<Row>) -> bool {
        Arc::ptr_eq(&self.row, row)
    }

    /// Whether it is the session that others share for what asks nobody.
    pub fn is_first(&self) -> bool {
        Arc::ptr_eq(&self.slot, &self.row.first)
    }
}

impl Drop for ExclusiveSession {
    fn drop(&mut self) {
        let mut places = self.row.places();
        // The first is taken first, so that the others come out of use.
        let has_first = places.free.last().is_some_and(|last| Arc::ptr_eq(last, &self.row.first));
        let at = places.free.len() - usize::from(has_first);
        places.free.insert(at, Arc::clone(&self.slot));
        drop(places);
        self.row.turns.add_permits(1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn the_first_place_is_taken_first_and_others_are_given_up_when_nobody_uses_them() {
        let row = Arc::new(Row::default());
        let turn = async || row.turn(Duration::from_secs(9), || false).await;
        let first = turn().await.expect("a turn");
        let second = turn().await.expect("a turn");
        assert!(first.is_first() && !second.is_first() && row.is_more_than_first());
        drop(first);
        drop(second);
        let again = turn().await.expect("a turn");
        assert!(again.is_first());
        assert!(row.give_up(|_| true).is_empty(), "it had no session yet");
        assert_eq!(row.places().count, 1);
        drop(again);
        assert!(!row.is_more_than_first() && turn().await.expect("a turn").is_first());
    }

    #[tokio::test]
    async fn for_one_that_waits_one_gives_way_and_it_is_looked_for_it_until_there_is_one() {
        let places = Mutex::new(Places { free: Vec::new(), count: MAX_SESSIONS_PER_GROUP });
        let row = Arc::new(Row { first: Slot::default(), places, turns: Semaphore::new(0) });
        let (looks, gives_way) = (AtomicUsize::new(0), Notify::new());
        let waiting = row.turn(Duration::from_secs(9), || {
            let is_third = looks.fetch_add(1, Ordering::Relaxed) == 2;
            if is_third {
                gives_way.notify_one();
            }
            is_third
        });
        let giving_way = async {
            gives_way.notified().await;
            // It takes its time.
            tokio::time::sleep(LOOK * 3).await;
            drop(ExclusiveSession { row: Arc::clone(&row), slot: Slot::default() });
        };
        assert!(tokio::join!(waiting, giving_way).0.is_some());
        assert_eq!(looks.into_inner(), 3, "the third call that was looked at gave way, and no other");
    }
}
