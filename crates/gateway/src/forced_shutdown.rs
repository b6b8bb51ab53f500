//! The moment from which calls under way are not waited for any more. Every call listens for it and hardly any hears it, so
//! listening is cheap: each lane has a place of its own, which hardly any other thread touches.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::workers;

/// Whether the moment has come, and who waits for it.
#[derive(Debug)]
pub(crate) struct ForcedShutdown {
    is_cancelled: AtomicBool,
    waiters: Box<[CachePaddedNotify]>,
}

/// So far from the next one that no two stand in one line of a processor's cache.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePaddedNotify(Notify);

impl ForcedShutdown {
    /// With a place for each of so many lanes.
    pub fn new(lanes: usize) -> Self {
        Self {
            is_cancelled: AtomicBool::new(false),
            waiters: (0..lanes.max(1)).map(|_| CachePaddedNotify::default()).collect(),
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Tells all who wait, and all who come later.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.waiters.iter().for_each(|CachePaddedNotify(place)| place.notify_waiters());
    }

    /// Waits for it.
    pub async fn cancelled(&self) {
        let Some(CachePaddedNotify(place)) = self.waiters.get(workers::current_worker()).or(self.waiters.first())
        else {
            return;
        };
        let notified = place.notified();
        // Whoever asked for the notice before it was cut is told; whoever asks now sees it.
        if !self.is_cancelled() {
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_is_told_and_who_comes_later_does_not_wait() {
        let cut = ForcedShutdown::new(2);
        let mut waiting = Box::pin(cut.cancelled());
        assert!(!cut.is_cancelled() && futures_pending(waiting.as_mut()), "nothing has happened");
        cut.cancel();
        waiting.await;
        cut.cancelled().await;
        assert!(cut.is_cancelled());
    }

    fn futures_pending(waiting: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        waiting.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending()
    }
}
