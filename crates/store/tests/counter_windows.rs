//! Windows compared with a model that keeps every charge with its time and has no periods.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use gatelodge_policy::{LimitWindow, WindowAlignment};
use gatelodge_store::conformance::conformance_support::{
    START_TIME, billionths, counter_charge, not_sent_record, record, timestamp,
};
use gatelodge_store::{
    Durability, ExhaustedCounter, Ledger, ManualClock, MemoryStore, RecordKind, Reservation, ReserveOutcome,
    SqliteLedger,
};
use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use tokio::runtime::Runtime;

const MAX: i128 = 10;

#[derive(Debug, Clone)]
enum Step {
    /// Moves the clock by this many milliseconds, forwards or backwards.
    Move(i64),
    Reserve(i128),
    /// Releases one of the remaining reservations.
    Release(usize),
}

/// All charges that were ever taken, with the time at which they count.
struct Model {
    window: LimitWindow,
    align: WindowAlignment,
    charges: Vec<(Timestamp, i128)>,
    /// No charge has an earlier time than the one before it.
    latest: Timestamp,
}

impl Model {
    fn counts(&self, charged: Timestamp, now: Timestamp) -> bool {
        let seconds = match self.window {
            LimitWindow::Seconds(seconds) => i128::from(seconds),
            LimitWindow::Week => 7 * 86_400,
            LimitWindow::Month => 31 * 86_400,
        };
        match (self.align, self.window) {
            (WindowAlignment::Rolling, _) => {
                // In sixtieths of the window: expired when the end of its slot is a whole window ago.
                let slot = |time: Timestamp| (time.as_nanosecond() * 60).div_euclid(seconds * 1_000_000_000);
                slot(now) < slot(charged) + 1 + 60
            }
            (WindowAlignment::Calendar, LimitWindow::Seconds(_)) => {
                let start = |time: Timestamp| time.as_nanosecond().div_euclid(seconds * 1_000_000_000);
                start(now) == start(charged)
            }
            (WindowAlignment::Calendar, LimitWindow::Week) => week(charged) == week(now),
            (WindowAlignment::Calendar, LimitWindow::Month) => month(charged) == month(now),
        }
    }

    fn used(&self, now: Timestamp) -> i128 {
        let now = now.max(self.latest);
        self.charges.iter().filter(|(at, _)| self.counts(*at, now)).map(|(_, amount)| amount).sum()
    }

    fn has_capacity(&self, amount: i128, now: Timestamp) -> bool {
        self.used(now) + amount <= MAX
    }

    fn take(&mut self, amount: i128, now: Timestamp) -> usize {
        self.latest = self.latest.max(now);
        self.charges.push((self.latest, amount));
        self.charges.len() - 1
    }

    /// Checks that no interval of the window's length exceeds the limit.
    fn assert_rolling_limit(&self) {
        let Some(seconds) = self.window.seconds() else { return };
        for (end, _) in &self.charges {
            let start = *end - Duration::from_secs(seconds.into());
            let within = self.charges.iter().filter(|(at, _)| *at > start && at <= end);
            assert!(within.map(|(_, amount)| amount).sum::<i128>() <= MAX);
        }
    }
}

fn month(time: Timestamp) -> (i16, i8) {
    let date = time.to_zoned(TimeZone::UTC).date();
    (date.year(), date.month())
}

/// The Monday of the week.
fn week(time: Timestamp) -> jiff::civil::Date {
    let mut date = time.to_zoned(TimeZone::UTC).date();
    while date.weekday() != Weekday::Monday {
        date = date.yesterday().expect("a day before");
    }
    date
}

fn assert_retry_after(model: &Model, amount: i128, now: Timestamp, exhausted: ExhaustedCounter) {
    let Some(room_in) = exhausted.retry_after else {
        assert!(amount > MAX);
        return;
    };
    let then = now + room_in;
    assert!(model.has_capacity(amount, then), "no capacity at {then} for {amount}");
    let before = then - Duration::from_nanos(1);
    assert!(!model.has_capacity(amount, before), "capacity for {amount} before {then}");
}

async fn run_scenario(
    ledger: &dyn Ledger,
    clock: &ManualClock,
    (window, align): (LimitWindow, WindowAlignment),
    steps: &[Step],
) {
    let mut now = timestamp(START_TIME);
    let mut model = Model { window, align, charges: Vec::new(), latest: Timestamp::MIN };
    let mut held: Vec<(usize, Reservation)> = Vec::new();
    for step in steps {
        match step {
            Step::Move(milliseconds) => {
                now = Timestamp::from_millisecond(now.as_millisecond() + milliseconds).expect("a time");
                clock.set(now);
            }
            Step::Reserve(amount) => {
                let claims = vec![counter_charge("calls", (window, align), billionths(MAX), billionths(*amount))];
                match ledger.reserve(claims, &record(RecordKind::Intent)).await.expect("an answer") {
                    ReserveOutcome::Taken(reservation) => {
                        assert!(model.has_capacity(*amount, now), "taken {amount} at {now} without capacity");
                        held.push((model.take(*amount, now), reservation));
                    }
                    ReserveOutcome::Exhausted(exhausted) => {
                        assert!(!model.has_capacity(*amount, now), "refused {amount} at {now} despite capacity");
                        assert_retry_after(&model, *amount, now, exhausted);
                    }
                }
            }
            Step::Release(which) => {
                if held.is_empty() {
                    continue;
                }
                let (charge, reservation) = held.swap_remove(which % held.len());
                ledger.release(reservation, &not_sent_record()).await.expect("queued");
                ledger.flush().await.expect("written");
                model.charges[charge].1 = 0;
            }
        }
    }
    if align == WindowAlignment::Rolling {
        model.assert_rolling_limit();
    }
}

fn windows() -> impl Strategy<Value = (LimitWindow, WindowAlignment)> {
    let seconds = prop_oneof![Just(1), Just(7), Just(60), Just(61), Just(3_600), Just(86_400), 1..10_000_u32];
    prop_oneof![
        4 => seconds.clone().prop_map(|seconds| (LimitWindow::Seconds(seconds), WindowAlignment::Calendar)),
        6 => seconds.prop_map(|seconds| (LimitWindow::Seconds(seconds), WindowAlignment::Rolling)),
        1 => Just((LimitWindow::Week, WindowAlignment::Calendar)),
        1 => Just((LimitWindow::Month, WindowAlignment::Calendar)),
    ]
}

/// Steps that move the clock by about the size of the window.
fn scenarios() -> impl Strategy<Value = ((LimitWindow, WindowAlignment), Vec<Step>)> {
    windows().prop_flat_map(|(window, align)| {
        let length = i64::from(window.seconds().unwrap_or(10 * 86_400)) * 1_000;
        let step = prop_oneof![
            4 => (0..=length / 3).prop_map(Step::Move),
            1 => (0..=length * 3).prop_map(Step::Move),
            1 => (-length * 2..=0).prop_map(Step::Move),
            8 => (0..=MAX + 1).prop_map(Step::Reserve),
            3 => any::<usize>().prop_map(Step::Release),
        ];
        (Just((window, align)), prop::collection::vec(step, 1..80))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn windows_in_memory_follow_the_model((window, steps) in scenarios()) {
        let clock = Arc::new(ManualClock::at(timestamp(START_TIME)));
        let store = MemoryStore::new(clock.clone());
        Runtime::new().expect("a runtime").block_on(run_scenario(&store, &clock, window, &steps));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn windows_on_sqlite_follow_the_model((window, steps) in scenarios()) {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::at(timestamp(START_TIME)));
        let ledger = SqliteLedger::open(dir.path(), Durability::Process, clock.clone()).expect("a ledger");
        Runtime::new().expect("a runtime").block_on(run_scenario(&ledger, &clock, window, &steps));
    }
}
