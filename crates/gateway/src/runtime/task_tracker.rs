//! Tasks that a shutdown waits for. tokio-util's tracker waits only after it was closed; this one may get new tasks
//! while it waits.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Counts running call and connection tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskTracker(Arc<TaskCount>);

#[derive(Debug, Default)]
struct TaskCount {
    count: AtomicUsize,
    /// Notified by the last task to end; [`TaskTracker::wait_until_idle`] waits for it.
    idle: Notify,
}

impl TaskTracker {
    /// Starts a task that [`Self::wait_until_idle`] waits for.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(&Handle::current(), task);
    }

    /// Like [`Self::spawn`], on a given runtime.
    pub fn spawn_on(&self, on: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        let counted = RunningTask(Arc::clone(&self.0));
        on.spawn(async move {
            task.await;
            drop(counted);
        });
    }

    /// Returns the number of running tasks.
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Waits until no task is running.
    pub async fn wait_until_idle(&self) {
        loop {
            let idle = self.0.idle.notified();
            if self.count() == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// Decrements the task count on drop, and therefore also after a panic.
#[derive(Debug)]
struct RunningTask(Arc<TaskCount>);

impl Drop for RunningTask {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_one();
        }
    }
}
