//! Answers that go together, and what may end before they are there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Wake;
use std::thread::ThreadId;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::call_record::CallOutcome;

const CALLS: u8 = 5;
const ROUNDS: u64 = 6;

type Call = Pin<Box<dyn Future<Output = Result<ReserveOutcome, StoreError>> + Send>>;

fn open_for_power(dir: &Path) -> Arc<SqliteLedger> {
    let clock = Arc::new(ManualClock::at(record(0).at));
    Arc::new(SqliteLedger::open(dir, Durability::Power, clock).expect("a ledger"))
}

fn lane() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn call(ledger: &Arc<SqliteLedger>, number: u8, max: i128) -> Call {
    let ledger = Arc::clone(ledger);
    let mut intent = record(number);
    intent.message = None;
    Box::pin(async move { ledger.reserve(vec![a_day("calls", max)], &intent).await })
}

/// Calls that a task of a runtime has queued. Nobody drives the runtime any more.
fn queued(ledger: &Arc<SqliteLedger>, lane: &Runtime) -> Vec<Call> {
    let mut calls: Vec<Call> = (0..CALLS).map(|number| call(ledger, number, 99)).collect();
    let task = async move {
        assert!(!calls.iter_mut().any(poll_once), "the writer is held up");
        calls
    };
    lane.block_on(lane.spawn(task)).expect("no panic")
}

/// The same, when the writer has sent their answers together.
fn under_way(ledger: &Arc<SqliteLedger>, lane: &Runtime) -> Vec<Call> {
    let held = ledger.writer.lock().expect("the writer");
    let calls = queued(ledger, lane);
    drop(held);
    wait_until(|| ledger.writer_state.reply_batches() == 1);
    calls
}

/// Whether all have their answer, and it is yes. They are looked at from a runtime that is not theirs.
fn are_taken(calls: &mut [Call]) -> bool {
    let elsewhere = lane();
    let _inside = elsewhere.enter();
    let mut cx = Context::from_waker(Waker::noop());
    calls.iter_mut().all(|call| matches!(call.as_mut().poll(&mut cx), Poll::Ready(Ok(ReserveOutcome::Taken(_)))))
}

fn wait_until(is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(5), "it does not come about");
        thread::sleep(Duration::from_millis(1));
    }
}

fn used(ledger: &SqliteLedger) -> i128 {
    let usage = lane().block_on(ledger.usage()).expect("counters");
    usage.iter().map(|usage| usage.used.billionths() / 1_000_000_000).sum()
}

/// How many rows say that a call began, and how many that it was never sent.
fn told(ledger: &SqliteLedger) -> (usize, usize) {
    let rows = lane().block_on(ledger.rows(CallLogFilter { limit: 99_999, ..CallLogFilter::default() })).expect("rows");
    let never_sent = rows.iter().filter(|row| row.record.outcome == Some(CallOutcome::NotSent)).count();
    (rows.len() - never_sent, never_sent)
}

fn assert_all_is_given_back(ledger: &SqliteLedger) {
    let all = usize::from(CALLS);
    wait_until(|| told(ledger) == (all, all));
    assert_eq!((used(ledger), ledger.error_count()), (0, 0));
}

#[test]
fn many_calls_of_a_runtime_are_all_answered_and_no_limit_is_passed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, lane) = (open_for_power(dir.path()), lane());
    let three_calls = |number| {
        let calls = [(); 3].map(|()| call(&ledger, number, 250));
        lane.spawn(async move {
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
        taken += lane.block_on(task).expect("no panic");
    }
    assert_eq!((taken, used(&ledger), told(&ledger)), (250, 250, (250, 0)));
    let walk = lane.block_on(ledger.verify(vec![])).expect("a walk");
    assert_eq!((walk.chain_break, ledger.error_count()), (None, 0));
}

/// Notes on which thread it was woken.
#[derive(Default)]
struct Noting(Mutex<Option<ThreadId>>);

impl Wake for Noting {
    fn wake(self: Arc<Self>) {
        *self.0.lock().expect("no panic") = Some(thread::current().id());
    }
}

impl Noting {
    fn woken_on(&self) -> Option<ThreadId> {
        *self.0.lock().expect("no panic")
    }
}

/// Queues calls, says so, and runs until all were woken. Gives the threads on which they were.
fn threads_of_wakes(ledger: &Arc<SqliteLedger>, is_queued: &Barrier) -> Vec<ThreadId> {
    let lane = lane();
    let mut calls = queued(ledger, &lane);
    let wakers = [(); CALLS as usize].map(|()| Arc::<Noting>::default());
    let _inside = lane.enter();
    for (call, waker) in calls.iter_mut().zip(&wakers) {
        let waker = Waker::from(Arc::clone(waker));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    is_queued.wait();
    lane.block_on(async {
        let since = Instant::now();
        while wakers.iter().any(|waker| waker.woken_on().is_none()) {
            assert!(since.elapsed() < CALL_TIMEOUT / 2, "not answered");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert!(are_taken(&mut calls), "woken for the answer");
    wakers.iter().filter_map(|waker| waker.woken_on()).collect()
}

#[test]
fn the_answers_of_a_group_go_to_each_runtime_in_one_round_and_wake_on_its_thread() {
    let dir = tempfile::tempdir().expect("a directory");
    let ledger = open_for_power(dir.path());
    let are_queued = Barrier::new(3);
    thread::scope(|scope| {
        let held = ledger.writer.lock().expect("the writer");
        let lanes = [(); 2].map(|()| scope.spawn(|| threads_of_wakes(&ledger, &are_queued)));
        are_queued.wait();
        drop(held);
        for lane in lanes {
            let own = lane.thread().id();
            assert_eq!(lane.join().expect("no panic"), [own; CALLS as usize]);
        }
    });
    assert_eq!(ledger.writer_state.reply_batches(), 2);
}

#[test]
fn a_call_that_is_alone_is_answered_without_a_courier() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, lane) = (open_for_power(dir.path()), lane());
    for number in 0..CALLS {
        let answer = lane.block_on(lane.spawn(call(&ledger, number, 99))).expect("no panic");
        assert!(matches!(answer, Ok(ReserveOutcome::Taken(_))), "{answer:?}");
    }
    assert_eq!(ledger.writer_state.reply_batches(), 0);
}

#[test]
fn what_is_on_its_way_to_a_runtime_that_ends_with_its_callers_is_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, lane) = (open_for_power(dir.path()), lane());
    let held = ledger.writer.lock().expect("the writer");
    for number in 0..CALLS {
        lane.spawn(call(&ledger, number, 99));
    }
    lane.block_on(yield_once());
    drop(held);
    wait_until(|| ledger.writer_state.reply_batches() == 1);
    assert_eq!((used(&ledger), told(&ledger)), (CALLS.into(), (CALLS.into(), 0)), "all is taken");
    drop(lane);
    assert_all_is_given_back(&ledger);
}

#[test]
fn what_is_on_its_way_to_a_runtime_that_ends_reaches_who_waits_elsewhere() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, first) = (open_for_power(dir.path()), lane());
    let mut calls = under_way(&ledger, &first);
    drop(first);
    assert!(are_taken(&mut calls));
}

#[test]
fn after_its_courier_has_ended_nobody_waits_for_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, first) = (open_for_power(dir.path()), lane());
    let held = ledger.writer.lock().expect("the writer");
    let mut calls = queued(&ledger, &first);
    drop(first);
    drop(held);
    lane().block_on(ledger.flush()).expect("written");
    assert!(are_taken(&mut calls));
    assert_eq!(ledger.writer_state.reply_batches(), 0);
}

#[test]
fn what_is_on_its_way_to_callers_that_leave_is_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, lane) = (open_for_power(dir.path()), lane());
    let calls = under_way(&ledger, &lane);
    drop(calls);
    assert_eq!(used(&ledger), CALLS.into(), "the courier has them");
    lane.block_on(yield_once());
    assert_all_is_given_back(&ledger);
}

#[test]
fn what_is_on_its_way_when_the_ledger_is_closed_is_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, lane) = (open_for_power(dir.path()), lane());
    drop(under_way(&ledger, &lane));
    let shared = Arc::clone(&ledger.writer_state);
    drop(Arc::into_inner(ledger).expect("the last"));
    assert_eq!(shared.errors(), 0);
    assert_all_is_given_back(&open_for_power(dir.path()));
}

#[test]
fn a_courier_ends_with_the_ledger() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, lane) = (open_for_power(dir.path()), lane());
    let mut calls = under_way(&ledger, &lane);
    lane.block_on(yield_once());
    assert!(are_taken(&mut calls));
    drop((calls, ledger));
    assert_eq!(lane.metrics().num_alive_tasks(), 1);
    lane.block_on(yield_once());
    assert_eq!(lane.metrics().num_alive_tasks(), 0);
}

/// Runs callers that ask again and again, ends them with their runtime after a while, and gives how many times one was
/// told that it may.
fn taken_until(ledger: Arc<SqliteLedger>, end: Duration) -> i128 {
    let (lane, taken) = (lane(), Arc::new(AtomicU64::new(0)));
    for number in 0..20 {
        let (ledger, taken) = (Arc::clone(&ledger), Arc::clone(&taken));
        lane.spawn(async move {
            while let Ok(ReserveOutcome::Taken(_)) = call(&ledger, number, 99_999).await {
                taken.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    drop(ledger);
    lane.block_on(async { tokio::time::sleep(end).await });
    drop(lane);
    taken.load(Ordering::Relaxed).into()
}

/// The ledger ends with the last of them, wherever that is.
#[test]
fn whatever_ends_when_only_what_was_answered_is_used() {
    for round in 1..=ROUNDS {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = open_for_power(dir.path());
        let shared = Arc::clone(&ledger.writer_state);
        let lanes = [2, 3, 4].map(|step| {
            let (ledger, end) = (Arc::clone(&ledger), Duration::from_micros(300 * round * step));
            thread::spawn(move || taken_until(ledger, end))
        });
        drop(ledger);
        let taken: i128 = lanes.into_iter().map(|lane| lane.join().expect("no panic")).sum();
        let ledger = open_for_power(dir.path());
        assert_eq!((used(&ledger), shared.errors()), (taken, 0));
        let (begun, never_sent) = told(&ledger);
        assert_eq!(begun as i128, taken + never_sent as i128);
    }
}

/// The courier of the first has no turn meanwhile.
#[test]
fn each_runtime_of_a_thread_has_a_courier_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, first, second) = (open_for_power(dir.path()), lane(), lane());
    let _resting = under_way(&ledger, &first);
    let held = ledger.writer.lock().expect("the writer");
    let mut calls = queued(&ledger, &second);
    drop(held);
    wait_until(|| ledger.writer_state.reply_batches() == 2);
    second.block_on(yield_once());
    assert!(are_taken(&mut calls));
}

#[test]
fn a_flush_waits_for_what_is_given_back_by_many_in_its_group() {
    static ENTERED: Barrier = Barrier::new(2);
    static LEAVE: Barrier = Barrier::new(2);
    fn pause(_: &Connection) {
        ENTERED.wait();
        LEAVE.wait();
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (ledger, lane) = (open_for_power(dir.path()), lane());
    let held = ledger.writer.lock().expect("the writer");
    let calls = queued(&ledger, &lane);
    let _paused = queue(&ledger, pause);
    let mut flush = ledger.flush();
    let _inside = lane.enter();
    assert!(!poll_once(&mut flush));
    drop(held);
    // They are decided, and their group is not yet committed.
    ENTERED.wait();
    drop(calls);
    LEAVE.wait();
    lane.block_on(flush).expect("written");
    assert_eq!((used(&ledger), told(&ledger)), (0, (CALLS.into(), CALLS.into())));
}
