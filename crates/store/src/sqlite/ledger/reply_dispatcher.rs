//! Brings answers to callers that wait on another thread than the writer's. To wake a task from outside its runtime takes a
//! system call; so the answers of a group go to each runtime together, and a task there, the courier, hands them out.
//!
//! INVARIANT: a letter that a courier has taken is handed out or given back, whatever ends first: its task closes it
//! when it is dropped, and the ledger before it closes the queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio::task;

use super::writer_queue::{CallerThread, WriterQueue};
use super::writer_request::{GrantedReservation, ReplySender, ReserveReply, SharedWriterState, WriterRequest};

/// An answer, and who waits for it where.
#[derive(Debug)]
pub(super) struct PendingReply {
    pub runtime: runtime::Id,
    pub reply: ReplySender<ReserveReply>,
    pub answer: ReserveReply,
}

/// The couriers of all runtimes from which somebody asked.
#[derive(Debug)]
pub(super) struct ReplyDispatcher {
    /// Callers put them in; the writer takes out one that has ended.
    mailboxes: Mutex<Vec<Arc<RuntimeMailbox>>>,
    shared: Arc<SharedWriterState>,
    queue: Arc<WriterQueue>,
}

/// What the writer and the task of one runtime have in common.
#[derive(Debug)]
struct RuntimeMailbox {
    runtime: runtime::Id,
    /// The writer puts letters in and rings; who has `round` takes them out.
    state: Mutex<MailboxState>,
    /// Rung for the task, which alone listens, when the bag was empty or is closed.
    wake: Notify,
    /// What is being handed out. Held until it is and what nobody took is stranded, so that who closes waits for that.
    /// What is woken under it only goes into a scheduler's queue.
    delivering: Mutex<VecDeque<PendingReply>>,
    shared: Arc<SharedWriterState>,
    queue: Arc<WriterQueue>,
}

#[derive(Debug, Default)]
struct MailboxState {
    replies: Vec<PendingReply>,
    is_closed: bool,
}

impl PendingReply {
    /// Gives it to who waits. What was taken comes back if nobody does.
    fn deliver(self) -> Option<GrantedReservation> {
        deliver_reply(self.reply, self.answer)
    }
}

impl ReplyDispatcher {
    pub fn new(shared: Arc<SharedWriterState>, queue: Arc<WriterQueue>) -> Self {
        Self { mailboxes: Mutex::default(), shared, queue }
    }

    /// The tag of the caller. If it is a task, its runtime has a courier from now on.
    pub fn caller_thread(&self) -> CallerThread {
        let own = CallerThread::current();
        // Who is no task may wait where nothing else runs, and no courier would come.
        let (Ok(runtime), Some(_)) = (Handle::try_current(), task::try_id()) else { return own };
        let id = runtime.id();
        let mut all = self.lock();
        if !all.iter().any(|courier| courier.runtime == id) {
            // Of runtimes that are gone.
            all.retain(|courier| !courier.drain_if_closed());
            all.push(self.spawn_mailbox(&runtime));
        }
        own.with_runtime(id)
    }

    /// Sends the letters of a group, those of each runtime together. What was taken comes back where nobody waits.
    pub fn send_batch(&self, letters: &mut Vec<PendingReply>) -> Vec<GrantedReservation> {
        let mut back = Vec::new();
        while let Some(to) = letters.first().map(|letter| letter.runtime) {
            let round: Vec<PendingReply> = letters.extract_if(.., |letter| letter.runtime == to).collect();
            // One by itself is there sooner without a courier, and wakes no more.
            let by_hand = if round.len() == 1 { round } else { self.enqueue(round, to) };
            back.extend(by_hand.into_iter().filter_map(PendingReply::deliver));
        }
        back
    }

    /// Gives the letters of one runtime to its courier; they come back where there is none.
    fn enqueue(&self, round: Vec<PendingReply>, to: runtime::Id) -> Vec<PendingReply> {
        let found = self.lock().iter().find(|courier| courier.runtime == to).cloned();
        let Some(courier) = found else { return round };
        let Err(refused) = courier.enqueue(round) else { return Vec::new() };
        // The next who asks there starts another.
        self.lock().retain(|courier| !courier.drain_if_closed());
        refused
    }

    /// Hands out what is on its way, from here.
    pub fn deliver_all(&self) {
        let all = self.lock().clone();
        all.iter().for_each(|courier| courier.deliver());
    }

    /// The same, and ends all tasks.
    pub fn close(&self) {
        for courier in std::mem::take(&mut *self.lock()) {
            courier.close();
        }
    }

    /// Nobody waits for the task: it ends with its runtime or when the ledger is dropped, and leaves nothing behind.
    fn spawn_mailbox(&self, runtime: &Handle) -> Arc<RuntimeMailbox> {
        let courier = Arc::new(RuntimeMailbox {
            runtime: runtime.id(),
            state: Mutex::default(),
            wake: Notify::new(),
            delivering: Mutex::default(),
            shared: Arc::clone(&self.shared),
            queue: Arc::clone(&self.queue),
        });
        runtime.spawn(MailboxTask(Arc::clone(&courier)).run());
        courier
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<RuntimeMailbox>>> {
        self.mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RuntimeMailbox {
    fn enqueue(&self, round: Vec<PendingReply>) -> Result<(), Vec<PendingReply>> {
        let mut bag = self.lock_state();
        if bag.is_closed {
            return Err(round);
        }
        let is_first = bag.replies.is_empty();
        bag.replies.extend(round);
        drop(bag);
        self.shared.count_reply_batch();
        if is_first {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn deliver(&self) {
        let mut round = self.delivering.lock().unwrap_or_else(PoisonError::into_inner);
        let letters = std::mem::take(&mut self.lock_state().replies);
        round.extend(letters);
        let mut is_stranded = false;
        // One by one: should a waker panic, the others are still there for who closes.
        while let Some(letter) = round.pop_front() {
            if let Some(granted) = letter.deliver() {
                self.shared.add_orphan(granted);
                is_stranded = true;
            }
        }
        if is_stranded {
            // If the queue is full, the writer comes by anyway.
            let _ = self.queue.push(WriterRequest::Wake);
        }
    }

    fn close(&self) {
        self.lock_state().is_closed = true;
        self.deliver();
        self.wake.notify_one();
    }

    /// Whether it takes no more letters. Then it has none, either, and can be forgotten: who closes the ledger does not
    /// know of it any more.
    fn drain_if_closed(&self) -> bool {
        let is_closed = self.lock_state().is_closed;
        if is_closed {
            // Whoever closed it may be at it still.
            self.deliver();
        }
        is_closed
    }

    fn lock_state(&self) -> MutexGuard<'_, MailboxState> {
        // A panic while holding it leaves it whole: each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task has it. Dropped, with the task or its runtime, it hands out what is left.
struct MailboxTask(Arc<RuntimeMailbox>);

impl MailboxTask {
    async fn run(self) {
        while !self.0.lock_state().is_closed {
            self.0.wake.notified().await;
            self.0.deliver();
        }
    }
}

impl Drop for MailboxTask {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Gives an answer to who waits for it. What was taken comes back if nobody does.
pub(super) fn deliver_reply(to: ReplySender<ReserveReply>, answer: ReserveReply) -> Option<GrantedReservation> {
    match to.send(Ok(answer)) {
        Err(Ok(ReserveReply::Taken(granted))) => Some(granted),
        Ok(()) | Err(Ok(ReserveReply::Exhausted(_)) | Err(_)) => None,
    }
}
