//! Requirements for reservations that are made one at a time.

use gatelodge_policy::{Amount, WindowAlignment};

use super::ConformanceBackend;
use super::conformance_support::{DAY_WINDOW, billionths, calls, counter_charge, daily_charge, record};
use crate::{ExhaustedCounter, RecordKind, ReserveOutcome};

const BILLION: i128 = 1_000_000_000;

pub async fn a_reservation_charges_and_writes_the_intent(backend: &ConformanceBackend) {
    let intent = record(RecordKind::Intent);
    let outcome = backend.store.ledger.reserve(vec![daily_charge("calls", 2)], &intent).await.expect("an answer");
    assert!(matches!(outcome, ReserveOutcome::Taken(_)));
    // Without a flush: the row is readable as soon as the reservation is confirmed.
    let rows =
        backend.store.call_log.rows(crate::CallLogFilter { limit: 10, ..Default::default() }).await.expect("rows");
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].seq, &rows[0].record), (1, &intent));
    assert_eq!(backend.used_billionths("calls").await, BILLION);
}

pub async fn all_charges_are_taken_or_none(backend: &ConformanceBackend) {
    let _spent = backend.reserve_ok(vec![daily_charge("small", 1)]).await;
    let exhausted = backend
        .reserve_exhausted(vec![daily_charge("large", 9), daily_charge("small", 1), daily_charge("new", 9)])
        .await;
    assert_eq!(exhausted.charge_index, 1);
    assert_eq!(
        (
            backend.used_billionths("large").await,
            backend.used_billionths("small").await,
            backend.used_billionths("new").await
        ),
        (0, BILLION, 0)
    );
    let _spent = backend.reserve_ok(vec![daily_charge("large", 9), daily_charge("new", 9)]).await;
    assert_eq!((backend.used_billionths("large").await, backend.used_billionths("new").await), (BILLION, BILLION));
}

pub async fn the_first_exhausted_charge_is_named(backend: &ConformanceBackend) {
    let _spent = backend.reserve_ok(vec![daily_charge("b", 1), daily_charge("c", 1)]).await;
    assert_eq!(
        backend
            .reserve_exhausted(vec![daily_charge("a", 1), daily_charge("c", 1), daily_charge("b", 1)])
            .await
            .charge_index,
        1
    );
    assert_eq!(backend.reserve_exhausted(vec![daily_charge("b", 1), daily_charge("c", 1)]).await.charge_index, 0);
}

pub async fn an_exhausted_counter_writes_nothing(backend: &ConformanceBackend) {
    let _spent = backend.reserve_ok(vec![daily_charge("calls", 1)]).await;
    let head = backend.store.call_log.head().await.expect("a head");
    let _ = backend.reserve_exhausted(vec![daily_charge("calls", 1)]).await;
    assert_eq!(backend.store.call_log.head().await.expect("a head"), head);
    assert_eq!(backend.rows().await.len(), 1);
}

pub async fn a_call_without_charges_only_writes_its_intent(backend: &ConformanceBackend) {
    let _spent = backend.reserve_ok(vec![]).await;
    assert_eq!(backend.rows().await.len(), 1);
    assert_eq!(backend.store.counter_usage.usage().await.expect("counters"), []);
}

pub async fn decimal_amounts_are_exact(backend: &ConformanceBackend) {
    // A tenth ten times, which floats would not add up to one.
    let spend = |amount| {
        vec![counter_charge("spend", (DAY_WINDOW, WindowAlignment::Calendar), billionths(BILLION), billionths(amount))]
    };
    for _ in 0..10 {
        let _spent = backend.reserve_ok(spend(BILLION / 10)).await;
    }
    let _nothing = backend.reserve_ok(spend(0)).await;
    assert_eq!(backend.reserve_exhausted(spend(1)).await.charge_index, 0);
    assert_eq!(backend.used_billionths("spend").await, BILLION);
    let largest = billionths(10_i128.pow(27) - 1);
    let _spent = backend
        .reserve_ok(vec![counter_charge("huge", (DAY_WINDOW, WindowAlignment::Calendar), largest, largest)])
        .await;
    let _ = backend
        .reserve_exhausted(vec![counter_charge("huge", (DAY_WINDOW, WindowAlignment::Calendar), largest, largest)])
        .await;
}

pub async fn an_amount_above_the_limit_never_fits(backend: &ConformanceBackend) {
    let two_of_one = counter_charge("calls", (DAY_WINDOW, WindowAlignment::Calendar), calls(1), calls(2));
    assert_eq!(
        backend.reserve_exhausted(vec![two_of_one]).await,
        ExhaustedCounter { charge_index: 0, retry_after: None }
    );
    let _spent = backend.reserve_ok(vec![daily_charge("calls", 1)]).await;
}

pub async fn a_changed_limit_keeps_the_usage(backend: &ConformanceBackend) {
    for _ in 0..3 {
        let _spent = backend.reserve_ok(vec![daily_charge("calls", 3)]).await;
    }
    let _ = backend.reserve_exhausted(vec![daily_charge("calls", 2)]).await;
    let _spent = backend.reserve_ok(vec![daily_charge("calls", 4)]).await;
    let _ = backend.reserve_exhausted(vec![daily_charge("calls", 4)]).await;
}

pub async fn counters_with_different_keys_are_independent(backend: &ConformanceBackend) {
    for key in ["a", "a ", "A", "ä", "a\0", "a|b"] {
        let _spent = backend.reserve_ok(vec![daily_charge(key, 1)]).await;
        let _ = backend.reserve_exhausted(vec![daily_charge(key, 1)]).await;
    }
}

pub async fn counters_are_listed_by_key(backend: &ConformanceBackend) {
    for key in ["b", "a", "c", "b"] {
        let _spent = backend.reserve_ok(vec![daily_charge(key, 2)]).await;
    }
    let usage = backend.store.counter_usage.usage().await.expect("counters");
    let listed: Vec<_> = usage.iter().map(|usage| (usage.key.as_str(), usage.used)).collect();
    assert_eq!(listed, [("a", Amount::ONE), ("b", calls(2)), ("c", Amount::ONE)]);
}
