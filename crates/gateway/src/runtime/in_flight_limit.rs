//! A non-blocking in-flight limit: acquiring a slot fails immediately when the limit is reached. One atomic
//! counter is enough because there are no waiters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of free slots.
#[derive(Debug)]
pub(crate) struct InFlightLimit(AtomicUsize);

/// An acquired slot, released on drop.
#[derive(Debug)]
pub(crate) struct InFlightSlot(Arc<InFlightLimit>);

impl InFlightLimit {
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(count)))
    }

    /// Acquires a slot. Returns `None` if all slots are in use.
    pub fn try_acquire(self: &Arc<Self>) -> Option<InFlightSlot> {
        let less = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).ok()?;
        Some(InFlightSlot(Arc::clone(self)))
    }
}

impl Drop for InFlightSlot {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Holds a slot within the in-flight limits; dropping the guard releases the slot.
#[derive(Debug)]
#[expect(dead_code, reason = "the slots are there to be dropped")]
pub(crate) struct InFlightGuard {
    grant_slot: Option<InFlightSlot>,
    upstream_slot: Option<InFlightSlot>,
}

impl InFlightGuard {
    /// Creates a guard that holds a slot of the grant, a slot of the server, or both.
    pub fn new(grant_slot: Option<InFlightSlot>, upstream_slot: Option<InFlightSlot>) -> Self {
        Self { grant_slot, upstream_slot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_limited_and_reusable_after_release() {
        let limit = InFlightLimit::new(2);
        let first = limit.try_acquire().expect("a slot");
        let _second = limit.try_acquire().expect("a slot");
        assert!(limit.try_acquire().is_none());
        drop(first);
        assert!(limit.try_acquire().is_some_and(|_again| limit.try_acquire().is_none()));
        assert!(InFlightLimit::new(0).try_acquire().is_none());
    }
}
