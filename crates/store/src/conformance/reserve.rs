//! What taking claims owes, one call at a time.

use gatelodge_policy::{Align, Amount};

use super::Backend;
use super::kit::{DAY, a_day, billionths, calls, claim, record};
use crate::{ExhaustedCounter, RecordKind, ReserveOutcome};

const BILLION: i128 = 1_000_000_000;

pub async fn a_reservation_charges_and_writes_the_intent(store: &Backend) {
    let intent = record(RecordKind::Intent);
    let outcome = store.ledger.reserve(vec![a_day("calls", 2)], &intent).await.expect("an answer");
    assert!(matches!(outcome, ReserveOutcome::Taken(_)));
    // Without a flush: the row is there when the answer is.
    let rows = store.ledger.rows(crate::CallLogFilter { limit: 10, ..Default::default() }).await.expect("rows");
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].seq, &rows[0].record), (1, &intent));
    assert_eq!(store.used("calls").await, BILLION);
}

pub async fn all_claims_are_taken_or_none(store: &Backend) {
    let _spent = store.take(vec![a_day("small", 1)]).await;
    let exhausted = store.refused(vec![a_day("large", 9), a_day("small", 1), a_day("new", 9)]).await;
    assert_eq!(exhausted.charge_index, 1);
    assert_eq!((store.used("large").await, store.used("small").await, store.used("new").await), (0, BILLION, 0));
    let _spent = store.take(vec![a_day("large", 9), a_day("new", 9)]).await;
    assert_eq!((store.used("large").await, store.used("new").await), (BILLION, BILLION));
}

pub async fn the_first_full_claim_is_named(store: &Backend) {
    let _spent = store.take(vec![a_day("b", 1), a_day("c", 1)]).await;
    assert_eq!(store.refused(vec![a_day("a", 1), a_day("c", 1), a_day("b", 1)]).await.charge_index, 1);
    assert_eq!(store.refused(vec![a_day("b", 1), a_day("c", 1)]).await.charge_index, 0);
}

pub async fn a_full_counter_writes_nothing(store: &Backend) {
    let _spent = store.take(vec![a_day("calls", 1)]).await;
    let head = store.ledger.head().await.expect("a head");
    let _ = store.refused(vec![a_day("calls", 1)]).await;
    assert_eq!(store.ledger.head().await.expect("a head"), head);
    assert_eq!(store.rows().await.len(), 1);
}

pub async fn a_call_without_claims_is_only_written(store: &Backend) {
    let _spent = store.take(vec![]).await;
    assert_eq!(store.rows().await.len(), 1);
    assert_eq!(store.ledger.usage().await.expect("counters"), []);
}

pub async fn decimal_amounts_are_exact(store: &Backend) {
    // A third of what floats would lose.
    let spend = |amount| vec![claim("spend", (DAY, Align::Calendar), billionths(BILLION), billionths(amount))];
    for _ in 0..10 {
        let _spent = store.take(spend(BILLION / 10)).await;
    }
    let _nothing = store.take(spend(0)).await;
    assert_eq!(store.refused(spend(1)).await.charge_index, 0);
    assert_eq!(store.used("spend").await, BILLION);
    let largest = billionths(10_i128.pow(27) - 1);
    let _spent = store.take(vec![claim("huge", (DAY, Align::Calendar), largest, largest)]).await;
    let _ = store.refused(vec![claim("huge", (DAY, Align::Calendar), largest, largest)]).await;
}

pub async fn an_amount_above_the_limit_never_fits(store: &Backend) {
    let two_of_one = claim("calls", (DAY, Align::Calendar), calls(1), calls(2));
    assert_eq!(store.refused(vec![two_of_one]).await, ExhaustedCounter { charge_index: 0, retry_after: None });
    let _spent = store.take(vec![a_day("calls", 1)]).await;
}

pub async fn another_limit_meets_what_was_used(store: &Backend) {
    for _ in 0..3 {
        let _spent = store.take(vec![a_day("calls", 3)]).await;
    }
    let _ = store.refused(vec![a_day("calls", 2)]).await;
    let _spent = store.take(vec![a_day("calls", 4)]).await;
    let _ = store.refused(vec![a_day("calls", 4)]).await;
}

pub async fn counters_with_other_keys_are_apart(store: &Backend) {
    for key in ["a", "a ", "A", "ä", "a\0", "a|b"] {
        let _spent = store.take(vec![a_day(key, 1)]).await;
        let _ = store.refused(vec![a_day(key, 1)]).await;
    }
}

pub async fn counters_are_told_by_key(store: &Backend) {
    for key in ["b", "a", "c", "b"] {
        let _spent = store.take(vec![a_day(key, 2)]).await;
    }
    let usage = store.ledger.usage().await.expect("counters");
    let told: Vec<_> = usage.iter().map(|usage| (usage.key.as_str(), usage.used)).collect();
    assert_eq!(told, [("a", Amount::ONE), ("b", calls(2)), ("c", Amount::ONE)]);
}
