//! Conformance cases for limit windows: when a window starts, when it resets, and that no clock change refills it.

use std::time::Duration;

use gatelodge_policy::{Amount, LimitWindow, WindowAlignment};

use super::ConformanceBackend;
use super::conformance_support::{DAY_WINDOW, calls, counter_charge, daily_charge, timestamp};
use crate::CounterCharge;

const ROLLING: (LimitWindow, WindowAlignment) = (LimitWindow::Seconds(60), WindowAlignment::Rolling);

fn single_charge(window: LimitWindow) -> Vec<CounterCharge> {
    vec![counter_charge("calls", (window, WindowAlignment::Calendar), calls(1), Amount::ONE)]
}

/// Exhausts the window and checks that it has capacity again at `next` and not a nanosecond earlier.
async fn assert_capacity_at(backend: &ConformanceBackend, claims: Vec<CounterCharge>, now: &str, next: &str) {
    backend.clock.set(timestamp(now));
    let _spent = backend.reserve_ok(claims.clone()).await;
    let exhausted = backend.reserve_exhausted(claims.clone()).await;
    let expected: Duration = timestamp(next).duration_since(timestamp(now)).try_into().expect("later");
    assert_eq!(exhausted.retry_after, Some(expected), "{now} {next}");
    backend.clock.set(timestamp(next) - Duration::from_nanos(1));
    assert_eq!(
        backend.reserve_exhausted(claims.clone()).await.retry_after,
        Some(Duration::from_nanos(1)),
        "{now} {next}"
    );
    backend.clock.set(timestamp(next));
    let _spent = backend.reserve_ok(claims).await;
}

pub async fn a_calendar_day_ends_at_midnight(backend: &ConformanceBackend) {
    assert_capacity_at(backend, single_charge(DAY_WINDOW), "2026-11-15T23:59:59.5Z", "2026-11-16T00:00:00Z").await;
}

pub async fn windows_in_seconds_start_at_multiples_of_their_length(backend: &ConformanceBackend) {
    assert_capacity_at(
        backend,
        single_charge(LimitWindow::Seconds(900)),
        "2026-11-15T12:14:59Z",
        "2026-11-15T12:15:00Z",
    )
    .await;
    let seven =
        vec![counter_charge("seven", (LimitWindow::Seconds(7), WindowAlignment::Calendar), calls(1), Amount::ONE)];
    // 1,795,348,807 seconds after 1970, a multiple of seven.
    assert_capacity_at(backend, seven, "2026-11-22T12:00:01Z", "2026-11-22T12:00:07Z").await;
}

pub async fn a_week_starts_on_monday(backend: &ConformanceBackend) {
    assert_capacity_at(backend, single_charge(LimitWindow::Week), "2026-11-15T23:59:59Z", "2026-11-16T00:00:00Z").await;
    let other = vec![counter_charge("other", (LimitWindow::Week, WindowAlignment::Calendar), calls(1), Amount::ONE)];
    assert_capacity_at(backend, other, "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z").await;
}

pub async fn a_month_starts_on_its_first_day(backend: &ConformanceBackend) {
    assert_capacity_at(backend, single_charge(LimitWindow::Month), "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z")
        .await;
    let other = vec![counter_charge("other", (LimitWindow::Month, WindowAlignment::Calendar), calls(1), Amount::ONE)];
    assert_capacity_at(backend, other, "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z").await;
}

pub async fn a_rolling_charge_expires_with_its_whole_slot(backend: &ConformanceBackend) {
    let rolling = vec![counter_charge("calls", ROLLING, calls(1), Amount::ONE)];
    assert_capacity_at(backend, rolling, "2026-11-15T12:00:00.999Z", "2026-11-15T12:01:01Z").await;
}

pub async fn a_rolling_window_reports_when_enough_has_expired(backend: &ConformanceBackend) {
    let some = |amount| vec![counter_charge("calls", ROLLING, calls(4), calls(amount))];
    for amount in [1, 2, 1] {
        let _spent = backend.reserve_ok(some(amount)).await;
        backend.clock.advance(Duration::from_secs(10));
    }
    // Charged at 0, 10 and 20 seconds; it is 30 now, and each charge counts for 61 seconds from the start of its second.
    assert_eq!(backend.reserve_exhausted(some(1)).await.retry_after, Some(Duration::from_secs(31)));
    assert_eq!(backend.reserve_exhausted(some(2)).await.retry_after, Some(Duration::from_secs(41)));
    assert_eq!(backend.reserve_exhausted(some(4)).await.retry_after, Some(Duration::from_secs(51)));
    assert_eq!(backend.reserve_exhausted(some(5)).await.retry_after, None);
    backend.clock.advance(Duration::from_secs(31));
    let _spent = backend.reserve_ok(some(1)).await;
    let _ = backend.reserve_exhausted(some(1)).await;
}

pub async fn a_clock_set_back_does_not_refill_a_window(backend: &ConformanceBackend) {
    let _spent = backend.reserve_ok(vec![daily_charge("calls", 1)]).await;
    backend.clock.set(timestamp("2026-11-16T00:00:00Z"));
    let _spent = backend.reserve_ok(vec![daily_charge("calls", 1)]).await;
    for now in ["2026-11-15T12:00:00Z", "2026-11-14T00:00:00Z", "2020-01-01T00:00:00Z", "2026-11-16T23:00:00Z"] {
        backend.clock.set(timestamp(now));
        let until: Duration =
            timestamp("2026-11-17T00:00:00Z").duration_since(timestamp(now)).try_into().expect("later");
        assert_eq!(backend.reserve_exhausted(vec![daily_charge("calls", 1)]).await.retry_after, Some(until), "{now}");
    }
    backend.clock.set(timestamp("2026-11-17T00:00:00Z"));
    let _spent = backend.reserve_ok(vec![daily_charge("calls", 1)]).await;
}

pub async fn a_clock_briefly_ahead_does_not_refill_a_window(backend: &ConformanceBackend) {
    let week = counter_charge("week", (LimitWindow::Month, WindowAlignment::Calendar), calls(1), Amount::ONE);
    let _spent = backend.reserve_ok(vec![daily_charge("calls", 1), week.clone()]).await;
    // Tomorrow the first has capacity, but the second is exhausted: nothing is charged, and nothing expires.
    backend.clock.set(timestamp("2026-11-16T12:00:00Z"));
    assert_eq!(backend.reserve_exhausted(vec![daily_charge("calls", 1), week]).await.charge_index, 1);
    backend.clock.set(timestamp("2026-11-15T12:00:00Z"));
    let _ = backend.reserve_exhausted(vec![daily_charge("calls", 1)]).await;
}

pub async fn a_rolling_window_does_not_move_back_with_the_clock(backend: &ConformanceBackend) {
    let one = || vec![counter_charge("calls", ROLLING, calls(2), Amount::ONE)];
    let _spent = backend.reserve_ok(one()).await;
    backend.clock.set(timestamp("2026-11-15T11:00:00Z"));
    let _spent = backend.reserve_ok(one()).await;
    // Both count as charged at noon, regardless of the clock.
    assert_eq!(backend.reserve_exhausted(one()).await.retry_after, Some(Duration::from_secs(3_661)));
    backend.clock.set(timestamp("2026-11-15T12:01:00.999Z"));
    let _ = backend.reserve_exhausted(one()).await;
    backend.clock.set(timestamp("2026-11-15T12:01:01Z"));
    let _spent = backend.reserve_ok(one()).await;
}
