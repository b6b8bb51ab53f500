//! Delivery of replies in batches, and what may end before they arrive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Wake;
use std::thread::ThreadId;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::model::CallOutcome;

const CALLS: u8 = 5;
const ROUNDS: u64 = 6;

type Call = Pin<Box<dyn Future<Output = Result<ReserveOutcome, StoreError>> + Send>>;

fn open_for_power(dir: &Path) -> Arc<SqliteLedger> {
    let clock = Arc::new(ManualClock::at(record(0).at));
    Arc::new(SqliteLedger::open(dir, Durability::Power, clock).expect("a ledger"))
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn call(ledger: &Arc<SqliteLedger>, number: u8, max: i128) -> Call {
    let ledger = Arc::clone(ledger);
    let mut intent = record(number);
    intent.message = None;
    Box::pin(async move { ledger.reserve(vec![daily_charge("calls", max)], &intent).await })
}

/// Calls that a task of a runtime has queued. The runtime is not driven any more.
fn queued(ledger: &Arc<SqliteLedger>, runtime: &Runtime) -> Vec<Call> {
    let mut calls: Vec<Call> = (0..CALLS).map(|number| call(ledger, number, 99)).collect();
    let task = async move {
        assert!(!calls.iter_mut().any(poll_once), "the writer is blocked");
        calls
    };
    runtime.block_on(runtime.spawn(task)).expect("no panic")
}

/// Like [`queued`], after the writer has sent their replies as one batch.
fn in_delivery(ledger: &Arc<SqliteLedger>, runtime: &Runtime) -> Vec<Call> {
    let held = ledger.writer.lock().expect("the writer");
    let calls = queued(ledger, runtime);
    drop(held);
    wait_until(|| ledger.writer_state.reply_batches() == 1);
    calls
}

/// Returns whether all reservations were granted. Polls them from another runtime.
fn are_taken(calls: &mut [Call]) -> bool {
    let elsewhere = runtime();
    let _inside = elsewhere.enter();
    let mut cx = Context::from_waker(Waker::noop());
    calls.iter_mut().all(|call| matches!(call.as_mut().poll(&mut cx), Poll::Ready(Ok(ReserveOutcome::Taken(_)))))
}

fn wait_until(is_true: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_true() {
        assert!(since.elapsed() < Duration::from_secs(5), "the condition does not become true");
        thread::sleep(Duration::from_millis(1));
    }
}

fn used(ledger: &SqliteLedger) -> i128 {
    let usage = runtime().block_on(ledger.usage()).expect("counters");
    usage.iter().map(|usage| usage.used.billionths() / 1_000_000_000).sum()
}

/// Number of intents, and number of outcomes of calls that were not sent.
fn intent_and_not_sent_counts(ledger: &SqliteLedger) -> (usize, usize) {
    let rows =
        runtime().block_on(ledger.rows(CallLogFilter { limit: 99_999, ..CallLogFilter::default() })).expect("rows");
    let never_sent = rows.iter().filter(|row| row.record.outcome == Some(CallOutcome::NotSent)).count();
    (rows.len() - never_sent, never_sent)
}

fn assert_all_refunded(ledger: &SqliteLedger) {
    let all = usize::from(CALLS);
    wait_until(|| intent_and_not_sent_counts(ledger) == (all, all));
    assert_eq!((used(ledger), ledger.error_count()), (0, 0));
}

#[test]
fn many_calls_of_a_runtime_all_get_replies_within_the_limit() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, runtime) = (open_for_power(dir.path()), runtime());
    let three_calls = |number| {
        let calls = [(); 3].map(|()| call(&ledger, number, 250));
        runtime.spawn(async move {
            let mut taken = 0;
            for call in calls {
                taken += usize::from(matches!(call.await.expect("an answer"), ReserveOutcome::Taken(_)));
            }
            taken
        })
    };
    let tasks: Vec<_> = (0..100).map(three_calls).collect();
    let mut taken = 0;
    for task in tasks {
        taken += runtime.block_on(task).expect("no panic");
    }
    assert_eq!((taken, used(&ledger), intent_and_not_sent_counts(&ledger)), (250, 250, (250, 0)));
    let walk = runtime.block_on(ledger.verify(vec![])).expect("a walk");
    assert_eq!((walk.chain_break, ledger.error_count()), (None, 0));
}

/// Records the thread on which it was woken.
#[derive(Default)]
struct ThreadRecorder(Mutex<Option<ThreadId>>);

impl Wake for ThreadRecorder {
    fn wake(self: Arc<Self>) {
        *self.0.lock().expect("no panic") = Some(thread::current().id());
    }
}

impl ThreadRecorder {
    fn woken_on(&self) -> Option<ThreadId> {
        *self.0.lock().expect("no panic")
    }
}

/// Queues calls, waits at the barrier, and runs until all were woken. Returns the threads on which they were.
fn threads_of_wakes(ledger: &Arc<SqliteLedger>, is_queued: &Barrier) -> Vec<ThreadId> {
    let runtime = runtime();
    let mut calls = queued(ledger, &runtime);
    let wakers = [(); CALLS as usize].map(|()| Arc::<ThreadRecorder>::default());
    let _inside = runtime.enter();
    for (call, waker) in calls.iter_mut().zip(&wakers) {
        let waker = Waker::from(Arc::clone(waker));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    is_queued.wait();
    runtime.block_on(async {
        let since = Instant::now();
        while wakers.iter().any(|waker| waker.woken_on().is_none()) {
            assert!(since.elapsed() < CALL_TIMEOUT / 2, "no reply");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert!(are_taken(&mut calls), "woken for the reply");
    wakers.iter().filter_map(|waker| waker.woken_on()).collect()
}

#[test]
fn replies_of_a_batch_reach_each_runtime_together_and_wake_on_its_thread() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open_for_power(dir.path());
    let are_queued = Barrier::new(3);
    thread::scope(|scope| {
        let held = ledger.writer.lock().expect("the writer");
        let runtimes = [(); 2].map(|()| scope.spawn(|| threads_of_wakes(&ledger, &are_queued)));
        are_queued.wait();
        drop(held);
        for runtime in runtimes {
            let own = runtime.thread().id();
            assert_eq!(runtime.join().expect("no panic"), [own; CALLS as usize]);
        }
    });
    assert_eq!(ledger.writer_state.reply_batches(), 2);
}

#[test]
fn a_single_reply_bypasses_the_mailbox() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, runtime) = (open_for_power(dir.path()), runtime());
    for number in 0..CALLS {
        let answer = runtime.block_on(runtime.spawn(call(&ledger, number, 99))).expect("no panic");
        assert!(matches!(answer, Ok(ReserveOutcome::Taken(_))), "{answer:?}");
    }
    assert_eq!(ledger.writer_state.reply_batches(), 0);
}

#[test]
fn replies_to_a_runtime_that_ends_with_its_callers_are_refunded() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, runtime) = (open_for_power(dir.path()), runtime());
    let held = ledger.writer.lock().expect("the writer");
    for number in 0..CALLS {
        runtime.spawn(call(&ledger, number, 99));
    }
    runtime.block_on(yield_once());
    drop(held);
    wait_until(|| ledger.writer_state.reply_batches() == 1);
    assert_eq!(
        (used(&ledger), intent_and_not_sent_counts(&ledger)),
        (CALLS.into(), (CALLS.into(), 0)),
        "all are charged"
    );
    drop(runtime);
    assert_all_refunded(&ledger);
}

#[test]
fn replies_to_a_runtime_that_ends_reach_callers_on_other_runtimes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, first) = (open_for_power(dir.path()), runtime());
    let mut calls = in_delivery(&ledger, &first);
    drop(first);
    assert!(are_taken(&mut calls));
}

#[test]
fn callers_get_replies_after_the_mailbox_task_has_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, first) = (open_for_power(dir.path()), runtime());
    let held = ledger.writer.lock().expect("the writer");
    let mut calls = queued(&ledger, &first);
    drop(first);
    drop(held);
    runtime().block_on(ledger.flush()).expect("written");
    assert!(are_taken(&mut calls));
    assert_eq!(ledger.writer_state.reply_batches(), 0);
}

#[test]
fn replies_to_callers_that_gave_up_are_refunded() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, runtime) = (open_for_power(dir.path()), runtime());
    let calls = in_delivery(&ledger, &runtime);
    drop(calls);
    assert_eq!(used(&ledger), CALLS.into(), "the mailbox has them");
    runtime.block_on(yield_once());
    assert_all_refunded(&ledger);
}

#[test]
fn replies_in_delivery_are_refunded_when_the_ledger_is_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, runtime) = (open_for_power(dir.path()), runtime());
    drop(in_delivery(&ledger, &runtime));
    let shared = Arc::clone(&ledger.writer_state);
    drop(Arc::into_inner(ledger).expect("the last"));
    assert_eq!(shared.errors(), 0);
    assert_all_refunded(&open_for_power(dir.path()));
}

#[test]
fn a_mailbox_task_ends_with_the_ledger() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, runtime) = (open_for_power(dir.path()), runtime());
    let mut calls = in_delivery(&ledger, &runtime);
    runtime.block_on(yield_once());
    assert!(are_taken(&mut calls));
    drop((calls, ledger));
    assert_eq!(runtime.metrics().num_alive_tasks(), 1);
    runtime.block_on(yield_once());
    assert_eq!(runtime.metrics().num_alive_tasks(), 0);
}

/// Runs callers that reserve repeatedly, ends them with their runtime after a while, and returns the number of granted
/// reservations.
fn granted_until(ledger: Arc<SqliteLedger>, end: Duration) -> i128 {
    let (runtime, taken) = (runtime(), Arc::new(AtomicU64::new(0)));
    for number in 0..20 {
        let (ledger, taken) = (Arc::clone(&ledger), Arc::clone(&taken));
        runtime.spawn(async move {
            while let Ok(ReserveOutcome::Taken(_)) = call(&ledger, number, 99_999).await {
                taken.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    drop(ledger);
    runtime.block_on(async { tokio::time::sleep(end).await });
    drop(runtime);
    taken.load(Ordering::Relaxed).into()
}

/// The ledger ends with the last of them.
#[test]
fn only_received_reservations_are_charged_whatever_ends_first() {
    for round in 1..=ROUNDS {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = open_for_power(dir.path());
        let shared = Arc::clone(&ledger.writer_state);
        let runtimes = [2, 3, 4].map(|step| {
            let (ledger, end) = (Arc::clone(&ledger), Duration::from_micros(300 * round * step));
            thread::spawn(move || granted_until(ledger, end))
        });
        drop(ledger);
        let taken: i128 = runtimes.into_iter().map(|runtime| runtime.join().expect("no panic")).sum();
        let ledger = open_for_power(dir.path());
        assert_eq!((used(&ledger), shared.errors()), (taken, 0));
        let (intents, never_sent) = intent_and_not_sent_counts(&ledger);
        assert_eq!(intents as i128, taken + never_sent as i128);
    }
}

/// The mailbox task of the first runtime does not run in the meantime.
#[test]
fn each_runtime_of_a_thread_has_its_own_mailbox() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, first, second) = (open_for_power(dir.path()), runtime(), runtime());
    let _resting = in_delivery(&ledger, &first);
    let held = ledger.writer.lock().expect("the writer");
    let mut calls = queued(&ledger, &second);
    drop(held);
    wait_until(|| ledger.writer_state.reply_batches() == 2);
    second.block_on(yield_once());
    assert!(are_taken(&mut calls));
}

#[test]
fn a_flush_waits_for_many_refunds_in_its_batch() {
    static ENTERED: Barrier = Barrier::new(2);
    static LEAVE: Barrier = Barrier::new(2);
    fn pause(_: &Connection) {
        ENTERED.wait();
        LEAVE.wait();
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, runtime) = (open_for_power(dir.path()), runtime());
    let held = ledger.writer.lock().expect("the writer");
    let calls = queued(&ledger, &runtime);
    let _paused = queue(&ledger, pause);
    let mut flush = ledger.flush();
    let _inside = runtime.enter();
    assert!(!poll_once(&mut flush));
    drop(held);
    // They are executed, and their batch is not yet committed.
    ENTERED.wait();
    drop(calls);
    LEAVE.wait();
    runtime.block_on(flush).expect("written");
    assert_eq!((used(&ledger), intent_and_not_sent_counts(&ledger)), (0, (CALLS.into(), CALLS.into())));
}
