//! What taking claims owes when many do it at once.

use std::sync::Arc;

use gatelodge_policy::{Align, Amount, LimitWindow};
use tokio::task::JoinSet;

use super::Backend;
use super::kit::{DAY, a_day, billionths, calls, claim, not_sent, record};
use crate::{CounterCharge, Ledger, RecordKind, ReserveOutcome};

const CALLERS: u32 = 64;

/// Takes until there is no room; gives how often there was.
async fn take_all(ledger: Arc<dyn Ledger>, claims: Vec<CounterCharge>) -> u32 {
    let mut taken = 0;
    loop {
        match ledger.reserve(claims.clone(), &record(RecordKind::Intent)).await.expect("an answer") {
            ReserveOutcome::Taken(_) => taken += 1,
            ReserveOutcome::Exhausted(_) => return taken,
        }
    }
}

async fn all_take(store: &Backend, claims: impl Fn(u32) -> Vec<CounterCharge>) -> u32 {
    let mut tasks = JoinSet::new();
    for caller in 0..CALLERS {
        tasks.spawn(take_all(Arc::clone(&store.ledger), claims(caller)));
    }
    tasks.join_all().await.into_iter().sum()
}

pub async fn exactly_the_limit_is_taken_however_many_try(store: &Backend) {
    for limit in [1, 7, 100, 1_000] {
        let counter = format!("calls-{limit}");
        let daily = all_take(store, |_| vec![a_day(&counter, limit)]).await;
        assert_eq!(daily, limit);
        assert_eq!(store.used(&counter).await, calls(limit).billionths());
        let rolling = (LimitWindow::Seconds(60), Align::Rolling);
        let rolling = |_| vec![claim(&format!("rolling-{limit}"), rolling, calls(limit), Amount::ONE)];
        assert_eq!(all_take(store, rolling).await, limit);
    }
    assert_eq!(store.rows().await.len(), 2 * (1 + 7 + 100 + 1_000));
    store.assert_whole().await;
}

pub async fn exactly_the_decimal_limit_is_taken_however_many_try(store: &Backend) {
    // 12.34 in steps of 0.07: 176 times, and 0.02 are left.
    let (max, amount) = (billionths(12_340_000_000), billionths(70_000_000));
    let taken = all_take(store, |_| vec![claim("spend", (DAY, Align::Calendar), max, amount)]).await;
    assert_eq!(taken, 176);
    assert_eq!(store.used("spend").await, 12_320_000_000);
}

pub async fn two_counters_are_taken_together_however_many_try(store: &Backend) {
    // Half of the callers name them in the other order.
    let claims = |caller| match caller % 2 {
        0 => vec![a_day("a", 50), a_day("b", 70)],
        _ => vec![a_day("b", 70), a_day("a", 50)],
    };
    assert_eq!(all_take(store, claims).await, 50);
    assert_eq!((store.used("a").await, store.used("b").await), (calls(50).billionths(), calls(50).billionths()));
}

/// Takes and gives back, over and over; gives how many were kept.
async fn take_and_release(ledger: Arc<dyn Ledger>, rounds: u32) -> u32 {
    let mut kept = 0;
    for round in 0..rounds {
        match ledger.reserve(vec![a_day("calls", 40)], &record(RecordKind::Intent)).await.expect("an answer") {
            ReserveOutcome::Taken(reservation) if round % 4 != 3 => {
                ledger.release(reservation, &not_sent()).await.expect("queued");
            }
            ReserveOutcome::Taken(_) => kept += 1,
            ReserveOutcome::Exhausted(_) => {}
        }
    }
    kept
}

pub async fn reservations_and_releases_at_once_never_overshoot(store: &Backend) {
    let mut tasks = JoinSet::new();
    for _ in 0..CALLERS {
        tasks.spawn(take_and_release(Arc::clone(&store.ledger), 20));
    }
    let kept: u32 = tasks.join_all().await.into_iter().sum();
    assert!(kept <= 40, "{kept}");
    assert_eq!(store.used("calls").await, calls(kept).billionths());
    // What was given back can be taken, and no more.
    assert_eq!(all_take(store, |_| vec![a_day("calls", 40)]).await, 40 - kept);
    store.assert_whole().await;
}
