//! Threads that serve callers, each with a scheduler of its own: what belongs to one connection stays on one thread, so
//! that nothing is handed from thread to thread, and no thread is woken, on the way of a call.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How long a thread for what would make a lane wait stays when it has nothing to do. Each has memory of its own; with the
/// usual ten seconds, a few sessions that open now and then keep as many as were ever needed at once.
const BLOCKING_THREAD_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// The threads. When they are dropped, they have ended, with whatever they still had to do.
#[derive(Debug)]
pub struct WorkerThreads(Vec<WorkerThread>);

/// Who connections are handed to by turns. Without any, connections are served where they are accepted.
#[derive(Debug, Default)]
pub struct WorkerRoundRobin {
    runtimes: Vec<Handle>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct WorkerThread {
    runtime: Handle,
    /// Closed when the lane is dropped: then the thread ends.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

thread_local! {
    /// Which lane a thread is; 0 for all others. It only chooses among things that are alike.
    static WORKER_INDEX: Cell<usize> = const { Cell::new(0) };
}

impl WorkerThreads {
    /// Starts so many.
    ///
    /// # Errors
    /// A thread or its scheduler cannot be started.
    pub fn start(count: usize) -> io::Result<Self> {
        (0..count).map(WorkerThread::start).collect::<io::Result<_>>().map(Self)
    }

    /// For the gateway that is served here.
    pub fn round_robin(&self) -> WorkerRoundRobin {
        let schedulers = self.0.iter().map(|worker| worker.runtime.clone()).collect();
        WorkerRoundRobin { runtimes: schedulers, next: AtomicUsize::new(0) }
    }
}

impl WorkerRoundRobin {
    /// How many threads serve callers: one where there are no lanes.
    pub(crate) fn count(&self) -> usize {
        self.runtimes.len().max(1)
    }

    /// The scheduler whose turn it is; none if there are no lanes.
    pub(crate) fn next_runtime(&self) -> Option<&Handle> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed).checked_rem(self.runtimes.len())?;
        self.runtimes.get(turn)
    }
}

/// The lane of the calling thread; the first for any other.
pub(crate) fn current_worker() -> usize {
    WORKER_INDEX.get()
}

impl WorkerThread {
    fn start(own: usize) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (started_sender, started_receiver) = mpsc::channel();
        let run = move || {
            WORKER_INDEX.set(own);
            // Made here: where a scheduler works, none may be dropped, and whoever starts lanes may be in one.
            let runtime =
                Builder::new_current_thread().enable_all().thread_keep_alive(BLOCKING_THREAD_KEEP_ALIVE).build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(started_sender.send(Err(error))),
            };
            let _ = started_sender.send(Ok(runtime.handle().clone()));
            // An answer, or that nobody can give one any more: both are the end.
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name(format!("lane-{own}")).spawn(run)?;
        let scheduler = started_receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))?;
        Ok(Self { runtime: scheduler, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        // One that panicked has nothing more to tell.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_to_each_lane_by_turns_and_stay_on_its_thread() {
        let lanes = WorkerThreads::start(2).expect("threads");
        let turns = lanes.round_robin();
        let asked = |worker: &Handle| {
            let (sender, answer) = oneshot::channel();
            worker.spawn(async move {
                let before = (current_worker(), thread::current().id());
                tokio::task::yield_now().await;
                let _ = sender.send((before, (current_worker(), thread::current().id())));
            });
            answer.blocking_recv().expect("an answer")
        };
        let answers: Vec<_> = (0..4).map(|_| asked(turns.next_runtime().expect("a lane"))).collect();
        assert!(answers.iter().all(|(before, after)| before == after));
        assert_eq!(answers.iter().map(|((own, _), _)| *own).collect::<Vec<_>>(), [0, 1, 0, 1]);
        assert!(WorkerRoundRobin::default().next_runtime().is_none());
    }
}
