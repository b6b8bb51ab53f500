//! The moment from which calls under way are not waited for any more. Every call listens for it and hardly any hears it, so
//! listening is cheap: each lane has a place of its own, which hardly any other thread touches.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::lanes;

/// Whether the moment has come, and who waits for it.
#[derive(Debug)]
pub(crate) struct Cut {
    is_off: AtomicBool,
    waiting: Box<[Apart]>,
}

/// So far from the next one that no two stand in one line of a processor's cache.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart(Notify);

impl Cut {
    /// With a place for each of so many lanes.
    pub fn new(lanes: usize) -> Self {
        Self { is_off: AtomicBool::new(false), waiting: (0..lanes.max(1)).map(|_| Apart::default()).collect() }
    }

    pub fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Acquire)
    }

    /// Tells all who wait, and all who come later.
    pub fn cut(&self) {
        self.is_off.store(true, Ordering::Release);
        self.waiting.iter().for_each(|Apart(place)| place.notify_waiters());
    }

    /// Waits for it.
    pub async fn off(&self) {
        let Some(Apart(place)) = self.waiting.get(lanes::own()).or(self.waiting.first()) else { return };
        let told = place.notified();
        // Whoever asked for the notice before it was cut is told; whoever asks now sees it.
        if !self.is_off() {
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_is_told_and_who_comes_later_does_not_wait() {
        let cut = Cut::new(2);
        let mut waiting = Box::pin(cut.off());
        assert!(!cut.is_off() && futures_pending(waiting.as_mut()), "nothing has happened");
        cut.cut();
        waiting.await;
        cut.off().await;
        assert!(cut.is_off());
    }

    fn futures_pending(waiting: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        waiting.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending()
    }
}
