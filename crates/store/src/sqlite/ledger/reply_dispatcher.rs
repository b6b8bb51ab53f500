//! Delivers replies to callers on other Tokio runtimes. Waking a task from outside its runtime takes a system call, so
//! all replies of a batch for one runtime are sent together, and a task on that runtime (the mailbox task) delivers
//! them. Without this grouping, 64 connections with `durability = "power"` use at least 12 % more CPU per call
//! (`call_overhead power-64`).
//!
//! INVARIANT: a reply in a mailbox is delivered or its reservation refunded, whether the runtime or the ledger ends
//! first. The mailbox task closes the mailbox when it is dropped, and the ledger closes all mailboxes before the queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio::task;

use super::writer_queue::{CallerThreadId, WriterQueue};
use super::writer_request::{GrantedReservation, ReplySender, ReserveReply, SharedWriterState, WriterRequest};

/// A reply, its receiver, and the runtime on which the receiver is waiting.
#[derive(Debug)]
pub(super) struct ReplyMailboxEntry {
    pub runtime: runtime::Id,
    pub reply: ReplySender<ReserveReply>,
    pub answer: ReserveReply,
}

/// The mailboxes of all runtimes that have callers.
#[derive(Debug)]
pub(super) struct ReplyDispatcher {
    /// Callers add mailboxes; the writer removes closed ones.
    mailboxes: Mutex<Vec<Arc<ReplyMailbox>>>,
    shared: Arc<SharedWriterState>,
    queue: Arc<WriterQueue>,
}

/// State shared by the writer and one runtime's mailbox task.
#[derive(Debug)]
struct ReplyMailbox {
    runtime: runtime::Id,
    /// The writer adds replies and notifies the task; the holder of `delivering` takes them out.
    state: Mutex<ReplyMailboxState>,
    /// Wakes the mailbox task, its only waiter, when replies are added to an empty mailbox or the mailbox is closed.
    wake: Notify,
    /// Replies being delivered. The lock is held until all of them are delivered and the reservations of callers that
    /// are gone are recorded for a refund. Closing the mailbox waits for the lock. Waking a task while the lock is held
    /// only adds the task to a scheduler queue.
    delivering: Mutex<VecDeque<ReplyMailboxEntry>>,
    shared: Arc<SharedWriterState>,
    queue: Arc<WriterQueue>,
}

#[derive(Debug, Default)]
struct ReplyMailboxState {
    replies: Vec<ReplyMailboxEntry>,
    is_closed: bool,
}

impl ReplyMailboxEntry {
    /// Sends the reply. Returns the reservation if the receiver is gone.
    fn deliver(self) -> Option<GrantedReservation> {
        deliver_reply(self.reply, self.answer)
    }
}

impl ReplyDispatcher {
    pub fn new(shared: Arc<SharedWriterState>, queue: Arc<WriterQueue>) -> Self {
        Self { mailboxes: Mutex::default(), shared, queue }
    }

    /// Returns the calling thread. If the caller is a Tokio task, the result includes its runtime, and a mailbox is
    /// created for that runtime if it has none.
    pub fn caller_thread(&self) -> CallerThreadId {
        let own = CallerThreadId::current();
        // A caller outside a task may block its runtime, so a mailbox task would not run.
        let (Ok(runtime), Some(_)) = (Handle::try_current(), task::try_id()) else { return own };
        let id = runtime.id();
        let mut all = self.lock();
        if !all.iter().any(|mailbox| mailbox.runtime == id) {
            // Remove the mailboxes of runtimes that are gone.
            all.retain(|mailbox| !mailbox.drain_if_closed());
            all.push(self.spawn_mailbox(&runtime));
        }
        own.with_runtime(id)
    }

    /// Sends the replies of a batch, grouped by runtime. Returns the reservations whose receivers are gone.
    pub fn send_batch(&self, replies: &mut Vec<ReplyMailboxEntry>) -> Vec<GrantedReservation> {
        let mut orphans = Vec::new();
        while let Some(to) = replies.first().map(|pending| pending.runtime) {
            let batch: Vec<ReplyMailboxEntry> = replies.extract_if(.., |pending| pending.runtime == to).collect();
            // A single reply is faster without a mailbox and needs one wake-up either way.
            let direct = if batch.len() == 1 { batch } else { self.enqueue(batch, to) };
            orphans.extend(direct.into_iter().filter_map(ReplyMailboxEntry::deliver));
        }
        orphans
    }

    /// Adds replies to their runtime's mailbox. Returns them if the runtime has no mailbox.
    fn enqueue(&self, batch: Vec<ReplyMailboxEntry>, to: runtime::Id) -> Vec<ReplyMailboxEntry> {
        let found = self.lock().iter().find(|mailbox| mailbox.runtime == to).cloned();
        let Some(mailbox) = found else { return batch };
        let Err(refused) = mailbox.enqueue(batch) else { return Vec::new() };
        // The next caller on that runtime starts another one.
        self.lock().retain(|mailbox| !mailbox.drain_if_closed());
        refused
    }

    /// Delivers the replies in all mailboxes, on the calling thread.
    pub fn deliver_all(&self) {
        let all = self.lock().clone();
        all.iter().for_each(|mailbox| mailbox.deliver());
    }

    /// Delivers the replies in all mailboxes and ends the mailbox tasks.
    pub fn close(&self) {
        for mailbox in std::mem::take(&mut *self.lock()) {
            mailbox.close();
        }
    }

    /// Starts the mailbox task. The task is not joined: it ends with its runtime or when the ledger is dropped, and
    /// cleans up.
    fn spawn_mailbox(&self, runtime: &Handle) -> Arc<ReplyMailbox> {
        let mailbox = Arc::new(ReplyMailbox {
            runtime: runtime.id(),
            state: Mutex::default(),
            wake: Notify::new(),
            delivering: Mutex::default(),
            shared: Arc::clone(&self.shared),
            queue: Arc::clone(&self.queue),
        });
        runtime.spawn(ReplyMailboxGuard(Arc::clone(&mailbox)).run());
        mailbox
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<ReplyMailbox>>> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplyMailbox {
    fn enqueue(&self, batch: Vec<ReplyMailboxEntry>) -> Result<(), Vec<ReplyMailboxEntry>> {
        let mut state = self.lock_state();
        if state.is_closed {
            return Err(batch);
        }
        let is_first = state.replies.is_empty();
        state.replies.extend(batch);
        drop(state);
        self.shared.count_reply_batch();
        if is_first {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn deliver(&self) {
        let mut batch = self.delivering.lock().unwrap_or_else(PoisonError::into_inner);
        let replies = std::mem::take(&mut self.lock_state().replies);
        batch.extend(replies);
        let mut has_orphans = false;
        // One by one: if a waker panics, the others remain for `close`.
        while let Some(pending) = batch.pop_front() {
            if let Some(granted) = pending.deliver() {
                self.shared.add_orphan(granted);
                has_orphans = true;
            }
        }
        if has_orphans {
            // If the queue is full, the writer checks for orphans anyway.
            let _ = self.queue.push(WriterRequest::Wake);
        }
    }

    fn close(&self) {
        self.lock_state().is_closed = true;
        self.deliver();
        self.wake.notify_one();
    }

    /// Returns whether the mailbox is closed. If it is, delivers the remaining replies, because the mailbox is about to
    /// be removed from the list and closing the ledger then no longer delivers them.
    fn drain_if_closed(&self) -> bool {
        let is_closed = self.lock_state().is_closed;
        if is_closed {
            // The thread that closed it may still be delivering.
            self.deliver();
        }
        is_closed
    }

    fn lock_state(&self) -> MutexGuard<'_, ReplyMailboxState> {
        // A panic under this lock leaves the state consistent: each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Owned by the mailbox task. When dropped with the task or its runtime, delivers the remaining replies.
struct ReplyMailboxGuard(Arc<ReplyMailbox>);

impl ReplyMailboxGuard {
    async fn run(self) {
        while !self.0.lock_state().is_closed {
            self.0.wake.notified().await;
            self.0.deliver();
        }
    }
}

impl Drop for ReplyMailboxGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Sends a reply to its receiver. Returns the reservation if the receiver is gone.
pub(super) fn deliver_reply(to: ReplySender<ReserveReply>, answer: ReserveReply) -> Option<GrantedReservation> {
    match to.send(Ok(answer)) {
        Err(Ok(ReserveReply::Taken(granted))) => Some(granted),
        Ok(()) | Err(Ok(ReserveReply::Exhausted(_)) | Err(_)) => None,
    }
}
