//! Sessions that share a pool key. If several calls share a connection, a server request on it does not say which call
//! it belongs to. A call during which the server may ask for input therefore gets an exclusive session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Maximum number of open sessions in a group.
const MAX_SESSIONS_PER_GROUP: usize = 8;
/// Error message for a call when all sessions of its group are in use.
pub(crate) const NO_EXCLUSIVE_SESSION_MESSAGE: &str = "the limit of 8 concurrent calls in which this server may ask you for input is reached; \
    respond to its requests, or try again when one of the calls has ended; the call was not sent";
/// How long a call waits for an open session to become free before another one is opened: most calls are short, opening
/// takes time, and a server may keep state between calls.
const REUSE_WAIT: Duration = Duration::from_secs(1);
/// Interval between attempts to evict a suspended call.
const EVICTION_INTERVAL: Duration = Duration::from_millis(500);

/// Slot for one session: contains the id of the open session. The lock is held while the session is being opened.
pub(crate) type PooledSessionSlot = Arc<tokio::sync::Mutex<Option<Box<str>>>>;

/// The session slots of a group.
#[derive(Debug)]
pub(crate) struct SessionPoolGroup {
    /// Slot of the session that is shared by calls without client input.
    shared: PooledSessionSlot,
    slots: Mutex<SessionGroupSlots>,
    /// Number of free slots. A permit is forgotten when a slot is taken, and added when the slot is returned.
    permits: Semaphore,
}

#[derive(Debug)]
struct SessionGroupSlots {
    /// Free slots. The last one is taken first.
    free: Vec<PooledSessionSlot>,
    count: usize,
}

impl Default for SessionPoolGroup {
    fn default() -> Self {
        let shared = PooledSessionSlot::default();
        let slots = Mutex::new(SessionGroupSlots { free: vec![Arc::clone(&shared)], count: 1 });
        Self { shared, slots, permits: Semaphore::new(1) }
    }
}

impl SessionPoolGroup {
    pub fn shared_slot(&self) -> &PooledSessionSlot {
        &self.shared
    }

    /// Waits for a slot, and adds one if none becomes free soon. At the limit, calls `evict` at intervals until it has
    /// evicted a suspended call. Returns `None` after `timeout`.
    pub async fn acquire_exclusive(
        self: &Arc<Self>,
        timeout: Duration,
        evict: impl Fn() -> bool,
    ) -> Option<ExclusiveSession> {
        if let Ok(exclusive) = tokio::time::timeout(REUSE_WAIT, self.acquire_free()).await {
            return exclusive;
        }
        if let Some(slot) = self.add_slot() {
            return Some(ExclusiveSession { group: Arc::clone(self), slot });
        }
        let waiting = async {
            let mut free = std::pin::pin!(self.acquire_free());
            let mut attempts = tokio::time::interval(EVICTION_INTERVAL);
            // Evict only one call: its server is notified first, which may take longer than the interval.
            let mut evicted = false;
            loop {
                tokio::select! {
                    biased;
                    exclusive = &mut free => return exclusive,
                    _ = attempts.tick(), if !evicted => evicted = evict(),
                }
            }
        };
        tokio::time::timeout(timeout, waiting).await.ok()?
    }

    async fn acquire_free(self: &Arc<Self>) -> Option<ExclusiveSession> {
        self.permits.acquire().await.ok()?.forget();
        let slot = self.slots().free.pop()?;
        Some(ExclusiveSession { group: Arc::clone(self), slot })
    }

    fn add_slot(&self) -> Option<PooledSessionSlot> {
        let mut slots = self.slots();
        (slots.count < MAX_SESSIONS_PER_GROUP).then(|| {
            slots.count += 1;
            PooledSessionSlot::default()
        })
    }

    /// Removes unused slots except the shared one, and returns the ids of their sessions.
    pub fn take_unused(&self, is_unused: impl Fn(&str) -> bool) -> Vec<Box<str>> {
        let mut slots = self.slots();
        let (before, mut ids) = (slots.free.len(), Vec::new());
        slots.free.retain(|slot| {
            let Some(mut id) = slot.try_lock().ok().filter(|_| !Arc::ptr_eq(slot, &self.shared)) else { return true };
            if !id.as_deref().is_none_or(&is_unused) {
                return true;
            }
            // A task that holds a permit has yet to take its slot.
            let Ok(permit) = self.permits.try_acquire() else { return true };
            permit.forget();
            ids.extend(id.take());
            false
        });
        slots.count -= before - slots.free.len();
        ids
    }

    /// Returns whether a slot is in use, or there are slots besides the shared one.
    pub fn is_in_use_or_expanded(&self) -> bool {
        let slots = self.slots();
        slots.free.len() < slots.count || slots.count > 1
    }

    fn slots(&self) -> MutexGuard<'_, SessionGroupSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that is exclusive to one call. Dropping this value makes the session available again.
#[derive(Debug)]
pub(crate) struct ExclusiveSession {
    group: Arc<SessionPoolGroup>,
    slot: PooledSessionSlot,
}

impl ExclusiveSession {
    pub fn slot(&self) -> &PooledSessionSlot {
        &self.slot
    }

    pub fn is_of(&self, group: &Arc<SessionPoolGroup>) -> bool {
        Arc::ptr_eq(&self.group, group)
    }

    /// Returns whether this is the shared session of the group.
    pub fn is_shared(&self) -> bool {
        Arc::ptr_eq(&self.slot, &self.group.shared)
    }
}

impl Drop for ExclusiveSession {
    fn drop(&mut self) {
        let mut slots = self.group.slots();
        // The shared slot is taken first, so that the others become unused.
        let has_shared = slots.free.last().is_some_and(|last| Arc::ptr_eq(last, &self.group.shared));
        let at = slots.free.len() - usize::from(has_shared);
        slots.free.insert(at, Arc::clone(&self.slot));
        drop(slots);
        self.group.permits.add_permits(1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn shared_slot_is_taken_first_and_unused_slots_are_removed() {
        let group = Arc::new(SessionPoolGroup::default());
        let acquire = async || group.acquire_exclusive(Duration::from_secs(9), || false).await;
        let shared = acquire().await.expect("a session");
        let second = acquire().await.expect("a session");
        assert!(shared.is_shared() && !second.is_shared() && group.is_in_use_or_expanded());
        drop(shared);
        drop(second);
        let again = acquire().await.expect("a session");
        assert!(again.is_shared());
        assert!(group.take_unused(|_| true).is_empty(), "it had no session yet");
        assert_eq!(group.slots().count, 1);
        drop(again);
        assert!(!group.is_in_use_or_expanded() && acquire().await.expect("a session").is_shared());
    }

    #[tokio::test]
    async fn waiting_call_evicts_exactly_one_suspended_call() {
        let slots = Mutex::new(SessionGroupSlots { free: Vec::new(), count: MAX_SESSIONS_PER_GROUP });
        let group =
            Arc::new(SessionPoolGroup { shared: PooledSessionSlot::default(), slots, permits: Semaphore::new(0) });
        let (evict_calls, evicted) = (AtomicUsize::new(0), Notify::new());
        let waiting = group.acquire_exclusive(Duration::from_secs(9), || {
            let is_third = evict_calls.fetch_add(1, Ordering::Relaxed) == 2;
            if is_third {
                evicted.notify_one();
            }
            is_third
        });
        let eviction = async {
            evicted.notified().await;
            // Eviction takes longer than the interval.
            tokio::time::sleep(EVICTION_INTERVAL * 3).await;
            drop(ExclusiveSession { group: Arc::clone(&group), slot: PooledSessionSlot::default() });
        };
        assert!(tokio::join!(waiting, eviction).0.is_some());
        assert_eq!(evict_calls.into_inner(), 3, "the third attempt evicted a call, and there was no further attempt");
    }
}
