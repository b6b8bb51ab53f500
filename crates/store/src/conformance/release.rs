//! What giving back owes.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use gatelodge_policy::{Align, Amount, LimitWindow};

use super::Backend;
use super::kit::{NOON, a_day, at, calls, claim, not_sent, record};
use crate::{CallOutcome, RecordKind, ReserveOutcome};

const BILLION: i128 = 1_000_000_000;
const ROLLING: (LimitWindow, Align) = (LimitWindow::Seconds(60), Align::Rolling);

pub async fn a_release_makes_room_and_writes_the_outcome(store: &Backend) {
    let claims = || vec![a_day("a", 1), a_day("b", 2)];
    let reservation = store.take(claims()).await;
    let outcome = not_sent();
    store.ledger.release(reservation, &outcome).await.expect("queued");
    assert_eq!((store.used("a").await, store.used("b").await), (0, 0));
    assert_eq!(store.rows().await.last().expect("a row").record, outcome);
    let _spent = store.take(claims()).await;
    let _ = store.refused(claims()).await;
}

pub async fn a_release_after_the_window_gives_nothing_back(store: &Backend) {
    let early = store.take(vec![a_day("calls", 1)]).await;
    store.clock.advance(Duration::from_secs(86_400));
    let _spent = store.take(vec![a_day("calls", 1)]).await;
    store.ledger.release(early, &not_sent()).await.expect("queued");
    assert_eq!(store.used("calls").await, BILLION);
    let _ = store.refused(vec![a_day("calls", 1)]).await;
}

pub async fn a_release_after_a_rolling_window_gives_nothing_back(store: &Backend) {
    let one = || vec![claim("calls", ROLLING, calls(1), Amount::ONE)];
    let early = store.take(one()).await;
    store.clock.advance(Duration::from_secs(61));
    let _spent = store.take(one()).await;
    store.ledger.release(early, &not_sent()).await.expect("queued");
    assert_eq!(store.used("calls").await, BILLION);
    let _ = store.refused(one()).await;
}

pub async fn a_release_in_an_earlier_slot_gives_back_there(store: &Backend) {
    let one = || vec![claim("calls", ROLLING, calls(2), Amount::ONE)];
    let early = store.take(one()).await;
    store.clock.advance(Duration::from_secs(30));
    let _spent = store.take(one()).await;
    let _ = store.refused(one()).await;
    store.ledger.release(early, &not_sent()).await.expect("queued");
    store.flush().await;
    let _spent = store.take(one()).await;
    // Both that are left were taken half a minute later, and leave together.
    let exhausted = store.refused(one()).await;
    assert_eq!(exhausted.retry_after, Some(Duration::from_secs(61)));
}

pub async fn a_reservation_that_is_only_dropped_is_spent(store: &Backend) {
    drop(store.take(vec![a_day("calls", 1)]).await);
    store.flush().await;
    let _ = store.refused(vec![a_day("calls", 1)]).await;
}

pub async fn a_reservation_nobody_waits_for_is_given_back(store: &Backend) {
    let mut kept = 0;
    for round in 0..200 {
        let ledger = Arc::clone(&store.ledger);
        let reserve = async move { ledger.reserve(vec![a_day("calls", 1_000)], &record(RecordKind::Intent)).await };
        // Some give up before the writer has seen the call, some in the middle, some have their answer.
        match tokio::time::timeout(Duration::from_micros(round * 5), reserve).await {
            Ok(outcome) => kept += i128::from(matches!(outcome, Ok(ReserveOutcome::Taken(_)))),
            Err(_gave_up) => {}
        }
    }
    store.flush().await;
    assert_eq!(store.used("calls").await, kept * BILLION);
    let rows = store.rows().await;
    let intents = rows.iter().filter(|row| row.record.kind == RecordKind::Intent);
    let not_sent = rows.iter().filter(|row| row.record.outcome == Some(CallOutcome::NotSent));
    let (intents, not_sent) = (intents.count() as i128, not_sent.count() as i128);
    assert_eq!(intents - not_sent, kept, "each intent that was not answered has its outcome");
    assert!(rows.iter().all(|row| row.record.at <= at(NOON)));
    store.assert_whole().await;
}

pub async fn an_answer_that_nobody_picks_up_is_given_back(store: &Backend) {
    let intent = record(RecordKind::Intent);
    let mut reserve = store.ledger.reserve(vec![a_day("calls", 1)], &intent);
    let first = reserve.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let is_spent = matches!(first, Poll::Ready(_));
    // The intent is there, and so the answer is, or is about to be.
    while store.ledger.head().await.expect("a head").seq == 0 {}
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(reserve);
    store.flush().await;
    assert_eq!(store.used("calls").await, if is_spent { BILLION } else { 0 });
    store.assert_whole().await;
}
