//! Worker threads, each with its own current-thread Tokio runtime. A connection and its upstream connections stay on
//! one worker, so a call never crosses threads or wakes another one.
//!
//! In return, no work is stolen: one connection cannot use more than one core, and blocking code stops all connections
//! of its worker. The gain was not measured alone: together with group commit and another allocator, the CPU of a small
//! call fell from 4.46 to 3.17 times that of a minimal proxy (`docs/dev/adr/0003-one-runtime-per-worker-thread.md`).

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How long an idle blocking thread is kept. Each such thread has its own memory. With Tokio's default of ten seconds,
/// occasional sessions would keep as many threads alive as were ever needed at once.
const BLOCKING_THREAD_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// The worker threads. Dropping this waits until all of them have ended.
#[derive(Debug)]
pub struct WorkerThreads(Vec<WorkerThread>);

/// Assigns connections to workers in turn. Without workers, connections are served on the runtime that accepts them.
#[derive(Debug, Default)]
pub struct WorkerRoundRobin {
    runtimes: Vec<Handle>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct WorkerThread {
    runtime: Handle,
    /// Dropping this sender ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

thread_local! {
    /// Index of the worker that the thread belongs to; 0 on all other threads. It only selects one of several
    /// equivalent shards, such as connection pools.
    static WORKER_INDEX: Cell<usize> = const { Cell::new(0) };
}

impl WorkerThreads {
    /// Starts `count` worker threads.
    ///
    /// # Errors
    /// A thread or its runtime cannot be started.
    pub fn start(count: usize) -> io::Result<Self> {
        (0..count).map(WorkerThread::start).collect::<io::Result<_>>().map(Self)
    }

    /// Returns an object that assigns the connections of a gateway to these threads in turn.
    pub fn round_robin(&self) -> WorkerRoundRobin {
        let runtimes = self.0.iter().map(|worker| worker.runtime.clone()).collect();
        WorkerRoundRobin { runtimes, next: AtomicUsize::new(0) }
    }
}

impl WorkerRoundRobin {
    /// Returns the number of threads that serve clients; 1 without workers.
    pub(crate) fn count(&self) -> usize {
        self.runtimes.len().max(1)
    }

    /// Returns the next runtime; `None` without workers.
    pub(crate) fn next_runtime(&self) -> Option<&Handle> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed).checked_rem(self.runtimes.len())?;
        self.runtimes.get(turn)
    }
}

/// Returns the worker index of the calling thread; 0 on any other thread.
pub(crate) fn current_worker() -> usize {
    WORKER_INDEX.get()
}

impl WorkerThread {
    fn start(index: usize) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (started_sender, started_receiver) = mpsc::channel();
        let run = move || {
            WORKER_INDEX.set(index);
            // Created here: a runtime must not be dropped inside another one, and the caller may run in one.
            let runtime =
                Builder::new_current_thread().enable_all().thread_keep_alive(BLOCKING_THREAD_KEEP_ALIVE).build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(started_sender.send(Err(error))),
            };
            let _ = started_sender.send(Ok(runtime.handle().clone()));
            // Both a message and a closed channel mean the end.
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(run)?;
        let runtime = started_receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))?;
        Ok(Self { runtime, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic was reported by the thread itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_assigned_in_turn_and_stay_on_their_thread() {
        let workers = WorkerThreads::start(2).expect("threads");
        let turns = workers.round_robin();
        let asked = |worker: &Handle| {
            let (sender, answer) = oneshot::channel();
            worker.spawn(async move {
                let before = (current_worker(), thread::current().id());
                tokio::task::yield_now().await;
                let _ = sender.send((before, (current_worker(), thread::current().id())));
            });
            answer.blocking_recv().expect("an answer")
        };
        let answers: Vec<_> = (0..4).map(|_| asked(turns.next_runtime().expect("a worker"))).collect();
        assert!(answers.iter().all(|(before, after)| before == after));
        assert_eq!(answers.iter().map(|((own, _), _)| *own).collect::<Vec<_>>(), [0, 1, 0, 1]);
        assert!(WorkerRoundRobin::default().next_runtime().is_none());
    }
}
