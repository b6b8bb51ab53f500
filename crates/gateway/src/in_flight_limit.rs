//! A bound on how many there may be at once. Nobody waits for a place, so two steps of one number are all it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places, of which so many are left.
#[derive(Debug)]
pub(crate) struct InFlightLimit(AtomicUsize);

/// One that was taken. It is given back when dropped.
#[derive(Debug)]
pub(crate) struct InFlightPermit(Arc<InFlightLimit>);

impl InFlightLimit {
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(count)))
    }

    /// Takes one; none if there is none.
    pub fn try_acquire(self: &Arc<Self>) -> Option<InFlightPermit> {
        let less = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).ok()?;
        Some(InFlightPermit(Arc::clone(self)))
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_were_made_and_those_given_back_are_there_again() {
        let places = InFlightLimit::new(2);
        let first = places.try_acquire().expect("a place");
        let _second = places.try_acquire().expect("a place");
        assert!(places.try_acquire().is_none());
        drop(first);
        assert!(places.try_acquire().is_some_and(|_again| places.try_acquire().is_none()));
        assert!(InFlightLimit::new(0).try_acquire().is_none());
    }
}
