//! Requirements for concurrent reservations.

use std::sync::Arc;

use gatelodge_policy::{Amount, LimitWindow, WindowAlignment};
use tokio::task::JoinSet;

use super::ConformanceBackend;
use super::conformance_support::{
    DAY_WINDOW, billionths, calls, counter_charge, daily_charge, not_sent_record, record,
};
use crate::{CounterCharge, Ledger, RecordKind, ReserveOutcome};

const CONCURRENT_CALLERS: u32 = 64;

/// Reserves until the counter is exhausted, and returns the number of reservations.
async fn take_until_exhausted(ledger: Arc<dyn Ledger>, claims: Vec<CounterCharge>) -> u32 {
    let mut taken = 0;
    loop {
        match ledger.reserve(claims.clone(), &record(RecordKind::Intent)).await.expect("an answer") {
            ReserveOutcome::Taken(_) => taken += 1,
            ReserveOutcome::Exhausted(_) => return taken,
        }
    }
}

async fn take_concurrently(backend: &ConformanceBackend, claims: impl Fn(u32) -> Vec<CounterCharge>) -> u32 {
    let mut tasks = JoinSet::new();
    for caller in 0..CONCURRENT_CALLERS {
        tasks.spawn(take_until_exhausted(Arc::clone(&backend.store.ledger), claims(caller)));
    }
    tasks.join_all().await.into_iter().sum()
}

pub async fn concurrent_callers_take_exactly_the_limit(backend: &ConformanceBackend) {
    for limit in [1, 7, 100, 1_000] {
        let counter = format!("calls-{limit}");
        let daily = take_concurrently(backend, |_| vec![daily_charge(&counter, limit)]).await;
        assert_eq!(daily, limit);
        assert_eq!(backend.used_billionths(&counter).await, calls(limit).billionths());
        let rolling = (LimitWindow::Seconds(60), WindowAlignment::Rolling);
        let rolling = |_| vec![counter_charge(&format!("rolling-{limit}"), rolling, calls(limit), Amount::ONE)];
        assert_eq!(take_concurrently(backend, rolling).await, limit);
    }
    assert_eq!(backend.rows().await.len(), 2 * (1 + 7 + 100 + 1_000));
    backend.assert_chain_valid().await;
}

pub async fn concurrent_callers_take_exactly_the_decimal_limit(backend: &ConformanceBackend) {
    // 12.34 in steps of 0.07: 176 times, and 0.02 remain.
    let (max, amount) = (billionths(12_340_000_000), billionths(70_000_000));
    let taken = take_concurrently(backend, |_| {
        vec![counter_charge("spend", (DAY_WINDOW, WindowAlignment::Calendar), max, amount)]
    })
    .await;
    assert_eq!(taken, 176);
    assert_eq!(backend.used_billionths("spend").await, 12_320_000_000);
}

pub async fn concurrent_callers_take_two_counters_together(backend: &ConformanceBackend) {
    // Half of the callers list them in reverse order.
    let claims = |caller| match caller % 2 {
        0 => vec![daily_charge("a", 50), daily_charge("b", 70)],
        _ => vec![daily_charge("b", 70), daily_charge("a", 50)],
    };
    assert_eq!(take_concurrently(backend, claims).await, 50);
    assert_eq!(
        (backend.used_billionths("a").await, backend.used_billionths("b").await),
        (calls(50).billionths(), calls(50).billionths())
    );
}

/// Reserves and releases repeatedly, and returns the number of reservations that were kept.
async fn take_and_release(ledger: Arc<dyn Ledger>, rounds: u32) -> u32 {
    let mut kept = 0;
    for round in 0..rounds {
        match ledger.reserve(vec![daily_charge("calls", 40)], &record(RecordKind::Intent)).await.expect("an answer") {
            ReserveOutcome::Taken(reservation) if round % 4 != 3 => {
                ledger.release(reservation, &not_sent_record()).await.expect("queued");
            }
            ReserveOutcome::Taken(_) => kept += 1,
            ReserveOutcome::Exhausted(_) => {}
        }
    }
    kept
}

pub async fn concurrent_reservations_and_releases_never_exceed_the_limit(backend: &ConformanceBackend) {
    let mut tasks = JoinSet::new();
    for _ in 0..CONCURRENT_CALLERS {
        tasks.spawn(take_and_release(Arc::clone(&backend.store.ledger), 20));
    }
    let kept: u32 = tasks.join_all().await.into_iter().sum();
    assert!(kept <= 40, "{kept}");
    assert_eq!(backend.used_billionths("calls").await, calls(kept).billionths());
    // Released capacity can be taken again, and no more.
    assert_eq!(take_concurrently(backend, |_| vec![daily_charge("calls", 40)]).await, 40 - kept);
    backend.assert_chain_valid().await;
}
