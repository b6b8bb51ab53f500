//! Requirements for releasing reservations.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use gatelodge_policy::{Amount, LimitWindow, WindowAlignment};

use super::ConformanceBackend;
use super::conformance_support::{START_TIME, calls, counter_charge, daily_charge, not_sent_record, record, timestamp};
use crate::{CallOutcome, RecordKind, ReserveOutcome};

const BILLION: i128 = 1_000_000_000;
const ROLLING: (LimitWindow, WindowAlignment) = (LimitWindow::Seconds(60), WindowAlignment::Rolling);

pub async fn a_release_refunds_and_writes_the_outcome(backend: &ConformanceBackend) {
    let claims = || vec![daily_charge("a", 1), daily_charge("b", 2)];
    let reservation = backend.reserve_ok(claims()).await;
    let outcome = not_sent_record();
    backend.store.ledger.release(reservation, &outcome).await.expect("queued");
    assert_eq!((backend.used_billionths("a").await, backend.used_billionths("b").await), (0, 0));
    assert_eq!(backend.rows().await.last().expect("a row").record, outcome);
    let _spent = backend.reserve_ok(claims()).await;
    let _ = backend.reserve_exhausted(claims()).await;
}

pub async fn a_release_after_the_window_refunds_nothing(backend: &ConformanceBackend) {
    let early = backend.reserve_ok(vec![daily_charge("calls", 1)]).await;
    backend.clock.advance(Duration::from_secs(86_400));
    let _spent = backend.reserve_ok(vec![daily_charge("calls", 1)]).await;
    backend.store.ledger.release(early, &not_sent_record()).await.expect("queued");
    assert_eq!(backend.used_billionths("calls").await, BILLION);
    let _ = backend.reserve_exhausted(vec![daily_charge("calls", 1)]).await;
}

pub async fn a_release_after_a_rolling_window_refunds_nothing(backend: &ConformanceBackend) {
    let one = || vec![counter_charge("calls", ROLLING, calls(1), Amount::ONE)];
    let early = backend.reserve_ok(one()).await;
    backend.clock.advance(Duration::from_secs(61));
    let _spent = backend.reserve_ok(one()).await;
    backend.store.ledger.release(early, &not_sent_record()).await.expect("queued");
    assert_eq!(backend.used_billionths("calls").await, BILLION);
    let _ = backend.reserve_exhausted(one()).await;
}

pub async fn a_release_refunds_the_slot_of_its_charge(backend: &ConformanceBackend) {
    let one = || vec![counter_charge("calls", ROLLING, calls(2), Amount::ONE)];
    let early = backend.reserve_ok(one()).await;
    backend.clock.advance(Duration::from_secs(30));
    let _spent = backend.reserve_ok(one()).await;
    let _ = backend.reserve_exhausted(one()).await;
    backend.store.ledger.release(early, &not_sent_record()).await.expect("queued");
    backend.flush().await;
    let _spent = backend.reserve_ok(one()).await;
    // Both remaining charges were taken half a minute later and expire together.
    let exhausted = backend.reserve_exhausted(one()).await;
    assert_eq!(exhausted.retry_after, Some(Duration::from_secs(61)));
}

pub async fn a_dropped_reservation_is_spent(backend: &ConformanceBackend) {
    drop(backend.reserve_ok(vec![daily_charge("calls", 1)]).await);
    backend.flush().await;
    let _ = backend.reserve_exhausted(vec![daily_charge("calls", 1)]).await;
}

pub async fn an_abandoned_reservation_is_refunded(backend: &ConformanceBackend) {
    let mut kept = 0;
    for round in 0..200 {
        let ledger = Arc::clone(&backend.store.ledger);
        let reserve =
            async move { ledger.reserve(vec![daily_charge("calls", 1_000)], &record(RecordKind::Intent)).await };
        // Some callers give up before the writer sees the request, some during the batch, some after the reply.
        match tokio::time::timeout(Duration::from_micros(round * 5), reserve).await {
            Ok(outcome) => kept += i128::from(matches!(outcome, Ok(ReserveOutcome::Taken(_)))),
            Err(_gave_up) => {}
        }
    }
    backend.flush().await;
    assert_eq!(backend.used_billionths("calls").await, kept * BILLION);
    let rows = backend.rows().await;
    let intents = rows.iter().filter(|row| row.record.kind == RecordKind::Intent);
    let not_sent = rows.iter().filter(|row| row.record.outcome == Some(CallOutcome::NotSent));
    let (intents, not_sent) = (intents.count() as i128, not_sent.count() as i128);
    assert_eq!(intents - not_sent, kept, "each intent without a reply has an outcome");
    assert!(rows.iter().all(|row| row.record.at <= timestamp(START_TIME)));
    backend.assert_chain_valid().await;
}

pub async fn an_unread_reply_is_refunded(backend: &ConformanceBackend) {
    let intent = record(RecordKind::Intent);
    let mut reserve = backend.store.ledger.reserve(vec![daily_charge("calls", 1)], &intent);
    let first = reserve.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let is_spent = matches!(first, Poll::Ready(_));
    // The reservation is not polled again, so something else must cause the next batch.
    backend.store.ledger.write(&record(RecordKind::Refused)).await.expect("queued");
    // The intent is written, so the reply has been or is about to be sent.
    while backend.store.call_log.head().await.expect("a head").seq < 2 {}
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(reserve);
    backend.flush().await;
    assert_eq!(backend.used_billionths("calls").await, if is_spent { BILLION } else { 0 });
    backend.assert_chain_valid().await;
}
