//! Cancellation signal that fires when the drain period is over.
//!
//! Every call waits for it and hardly any sees it, so waiting is cheap: waiters are sharded per worker and do not
//! contend.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::workers;

/// The signal and its waiters, one shard per worker.
#[derive(Debug)]
pub(crate) struct ForcedShutdown {
    is_cancelled: AtomicBool,
    waiters: Box<[CachePaddedNotify]>,
}

/// Aligned so that no two shards share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePaddedNotify(Notify);

impl ForcedShutdown {
    /// Creates one shard for each of `workers` threads.
    pub fn new(workers: usize) -> Self {
        Self {
            is_cancelled: AtomicBool::new(false),
            waiters: (0..workers.max(1)).map(|_| CachePaddedNotify::default()).collect(),
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Wakes all waiters; later calls to [`Self::cancelled`] return immediately.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.waiters.iter().for_each(|CachePaddedNotify(shard)| shard.notify_waiters());
    }

    /// Waits for the signal.
    pub async fn cancelled(&self) {
        let Some(CachePaddedNotify(shard)) = self.waiters.get(workers::current_worker()).or(self.waiters.first())
        else {
            return;
        };
        let notified = shard.notified();
        // `notified` receives a signal sent after its creation; a signal sent before it shows in the flag.
        if !self.is_cancelled() {
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiters_are_woken_and_later_callers_do_not_wait() {
        let shutdown = ForcedShutdown::new(2);
        let mut waiting = Box::pin(shutdown.cancelled());
        assert!(!shutdown.is_cancelled() && is_pending(waiting.as_mut()), "nothing has happened");
        shutdown.cancel();
        waiting.await;
        shutdown.cancelled().await;
        assert!(shutdown.is_cancelled());
    }

    fn is_pending(waiting: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        waiting.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending()
    }
}
