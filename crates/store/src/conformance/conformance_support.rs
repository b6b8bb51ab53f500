//! Helpers for the conformance cases.

use std::sync::atomic::{AtomicU64, Ordering};

use gatelodge_policy::{Amount, LimitWindow, WindowAlignment};
use jiff::Timestamp;

use super::ConformanceBackend;
use crate::{
    AdminLogEntry, CallId, CallLogFilter, CallLogRow, CallOutcome, CallRecord, CounterCharge, CounterKey,
    ExhaustedCounter, RecordKind, Reservation, ReserveOutcome, StoreError,
};

/// The time at which the suite's clock starts, a Sunday.
pub const START_TIME: &str = "2026-11-15T12:00:00Z";
pub const DAY_WINDOW: LimitWindow = LimitWindow::Seconds(86_400);
const BILLIONTHS_PER_UNIT: i128 = 1_000_000_000;

pub fn timestamp(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// Returns the amount for `number` calls.
pub fn calls(number: u32) -> Amount {
    billionths(i128::from(number) * BILLIONTHS_PER_UNIT)
}

pub fn billionths(number: i128) -> Amount {
    Amount::of_billionths(number).expect("an amount")
}

/// Returns a charge to the counter with this name.
pub fn counter_charge(
    counter: &str,
    (window, align): (LimitWindow, WindowAlignment),
    max: Amount,
    amount: Amount,
) -> CounterCharge {
    CounterCharge { key: CounterKey::from_stored(counter), window, align, max, amount }
}

/// Returns a charge of one call to a counter that allows `max` calls per calendar day.
pub fn daily_charge(counter: &str, max: u32) -> CounterCharge {
    counter_charge(counter, (DAY_WINDOW, WindowAlignment::Calendar), calls(max), Amount::ONE)
}

/// Returns a record with a unique call id.
pub fn record(kind: RecordKind) -> CallRecord {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let mut random = [0; 10];
    random[..8].copy_from_slice(&LAST.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let now = timestamp(START_TIME);
    CallRecord::new(kind, CallId::new(now, random), now)
}

pub fn not_sent_record() -> CallRecord {
    CallRecord { outcome: Some(CallOutcome::NotSent), ..record(RecordKind::Outcome) }
}

/// Returns an admin log entry, for cases that are not about the admin log.
pub fn admin_entry() -> AdminLogEntry {
    AdminLogEntry {
        at: timestamp(START_TIME),
        by: "ann".into(),
        action: "some.change".into(),
        subject: "it".into(),
        detail: serde_json::json!({}),
    }
}

impl ConformanceBackend {
    pub async fn reserve(&self, claims: Vec<CounterCharge>) -> ReserveOutcome {
        self.store.ledger.reserve(claims, &record(RecordKind::Intent)).await.expect("an answer")
    }

    /// Reserves charges and fails the test unless they are granted.
    pub async fn reserve_ok(&self, claims: Vec<CounterCharge>) -> Reservation {
        match self.reserve(claims).await {
            ReserveOutcome::Taken(reservation) => reservation,
            ReserveOutcome::Exhausted(exhausted) => panic!("exhausted: {exhausted:?}"),
        }
    }

    /// Tries to reserve charges and fails the test unless they are refused.
    pub async fn reserve_exhausted(&self, claims: Vec<CounterCharge>) -> ExhaustedCounter {
        match self.reserve(claims).await {
            ReserveOutcome::Taken(reservation) => panic!("taken: {reservation:?}"),
            ReserveOutcome::Exhausted(exhausted) => exhausted,
        }
    }

    /// Returns how much of a counter is used, in billionths of a unit.
    pub async fn used_billionths(&self, counter: &str) -> i128 {
        self.flush().await;
        let usage = self.store.counter_usage.usage().await.expect("counters");
        usage.iter().find(|usage| usage.key.as_str() == counter).map_or(0, |usage| usage.used.billionths())
    }

    pub async fn write(&self, record: CallRecord) {
        self.store.ledger.write(&record).await.expect("room in the queue");
    }

    pub async fn flush(&self) {
        self.store.ledger.flush().await.expect("written");
    }

    pub async fn rows(&self) -> Vec<CallLogRow> {
        self.flush().await;
        self.store.call_log.rows(CallLogFilter { limit: usize::MAX, ..CallLogFilter::default() }).await.expect("rows")
    }

    /// Checks that the chain verifies.
    pub async fn assert_chain_valid(&self) {
        let verified = self.store.call_log.verify(vec![]).await.expect("a walk");
        assert_eq!(verified.chain_break, None);
    }
}

pub fn assert_conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
}

pub fn assert_not_found<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::NotFound(_))), "{result:?}");
}
