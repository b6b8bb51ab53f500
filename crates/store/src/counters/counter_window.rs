//! Maps times to the periods of a window. Pure functions of a window and a time, with no clock.
//!
//! A calendar window has one period at a time, which lasts until the next one starts. A rolling window is divided into
//! 60 slots; a charge counts until its whole slot is older than the window, so usage in any interval of the window's
//! length stays within the limit.

use gatelodge_policy::{LimitWindow, WindowAlignment};
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{RoundMode, Timestamp, ToSpan, Unit, Zoned, ZonedRound};

use crate::model::PeriodIndex;

/// Number of slots in a rolling window.
const ROLLING_SLOTS: i64 = 60;
const NANOSECONDS_PER_SECOND: i128 = 1_000_000_000;
const WEEK_SECONDS: u32 = 7 * 86_400;

/// Returns the period that contains a time.
pub(crate) fn period_at(window: LimitWindow, align: WindowAlignment, at: Timestamp) -> PeriodIndex {
    match align {
        WindowAlignment::Rolling => {
            let slot = at.as_nanosecond() * i128::from(ROLLING_SLOTS);
            saturate_to_i64(slot.div_euclid(i128::from(window_seconds(window)) * NANOSECONDS_PER_SECOND))
        }
        WindowAlignment::Calendar => match window {
            LimitWindow::Seconds(seconds) => {
                let seconds = i64::from(seconds);
                at.as_nanosecond()
                    .div_euclid(NANOSECONDS_PER_SECOND)
                    .try_into()
                    .map_or(i64::MAX, |now: i64| now.div_euclid(seconds) * seconds)
            }
            LimitWindow::Week | LimitWindow::Month => calendar_start(window, at),
        },
    }
}

/// Returns whether a charge in `period` still counts when `current` is the newest period.
pub(crate) fn is_counted(align: WindowAlignment, period: PeriodIndex, current: PeriodIndex) -> bool {
    match align {
        WindowAlignment::Calendar => period == current,
        WindowAlignment::Rolling => period + ROLLING_SLOTS >= current && period <= current,
    }
}

/// Returns the time from which a charge in `period` no longer counts.
pub(crate) fn period_end(window: LimitWindow, align: WindowAlignment, period: PeriodIndex) -> Timestamp {
    match align {
        WindowAlignment::Rolling => {
            let slot =
                i128::from(period + ROLLING_SLOTS + 1) * i128::from(window_seconds(window)) * NANOSECONDS_PER_SECOND;
            // Rounded up: one nanosecond earlier, the charge still counts.
            let nanosecond = slot.div_euclid(i128::from(ROLLING_SLOTS))
                + i128::from(slot.rem_euclid(i128::from(ROLLING_SLOTS)) != 0);
            Timestamp::from_nanosecond(nanosecond).unwrap_or(Timestamp::MAX)
        }
        WindowAlignment::Calendar => {
            let start = Timestamp::from_second(period).unwrap_or(Timestamp::MAX);
            let next = match window {
                LimitWindow::Seconds(seconds) => start.checked_add(i64::from(seconds).seconds()).ok(),
                LimitWindow::Week => to_utc(start).checked_add(1.week()).ok().map(|zoned| zoned.timestamp()),
                LimitWindow::Month => to_utc(start).checked_add(1.month()).ok().map(|zoned| zoned.timestamp()),
            };
            next.unwrap_or(Timestamp::MAX)
        }
    }
}

fn calendar_start(window: LimitWindow, at: Timestamp) -> PeriodIndex {
    let midnight = to_utc(at).round(ZonedRound::new().smallest(Unit::Day).mode(RoundMode::Floor));
    let Ok(midnight) = midnight else { return at.as_second() };
    let date = midnight.date();
    let start = match window {
        LimitWindow::Month => date.first_of_month(),
        LimitWindow::Week | LimitWindow::Seconds(_) => {
            let since_monday = date.weekday().since(Weekday::Monday);
            date.checked_sub(i64::from(since_monday).days()).unwrap_or(date)
        }
    };
    start.to_zoned(TimeZone::UTC).map_or(at.as_second(), |zoned| zoned.timestamp().as_second())
}

fn to_utc(at: Timestamp) -> Zoned {
    at.to_zoned(TimeZone::UTC)
}

/// Returns the length of a rolling window in seconds. The policy language does not allow rolling months.
fn window_seconds(window: LimitWindow) -> u32 {
    match window {
        LimitWindow::Seconds(seconds) => seconds,
        LimitWindow::Week => WEEK_SECONDS,
        LimitWindow::Month => 31 * 86_400,
    }
}

fn saturate_to_i64(number: i128) -> i64 {
    number.try_into().unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn start(window: LimitWindow, now: &str) -> String {
        let period = period_at(window, WindowAlignment::Calendar, at(now));
        Timestamp::from_second(period).expect("a time").to_string()
    }

    #[test]
    fn calendar_windows_start_at_calendar_boundaries() {
        let now = "2026-11-15T13:37:42.5Z";
        assert_eq!(start(LimitWindow::Seconds(60), now), "2026-11-15T13:37:00Z");
        assert_eq!(start(LimitWindow::Seconds(3_600), now), "2026-11-15T13:00:00Z");
        assert_eq!(start(LimitWindow::Seconds(86_400), now), "2026-11-15T00:00:00Z");
        assert_eq!(start(LimitWindow::Week, now), "2026-11-09T00:00:00Z", "a Sunday belongs to the Monday before it");
        assert_eq!(start(LimitWindow::Week, "2026-11-16T00:00:00Z"), "2026-11-16T00:00:00Z");
        assert_eq!(start(LimitWindow::Month, now), "2026-11-01T00:00:00Z");
        assert_eq!(start(LimitWindow::Month, "2028-02-29T23:59:59.999Z"), "2028-02-01T00:00:00Z");
    }

    #[test]
    fn a_calendar_window_ends_where_the_next_one_starts() {
        for window in [
            LimitWindow::Seconds(1),
            LimitWindow::Seconds(7),
            LimitWindow::Seconds(86_400),
            LimitWindow::Week,
            LimitWindow::Month,
        ] {
            for now in
                ["2026-11-15T13:37:42.5Z", "2026-12-31T23:59:59Z", "2028-02-29T12:00:00Z", "1970-01-01T00:00:00Z"]
            {
                let period = period_at(window, WindowAlignment::Calendar, at(now));
                let end = period_end(window, WindowAlignment::Calendar, period);
                assert!(end > at(now));
                assert_eq!(period_at(window, WindowAlignment::Calendar, end), end.as_second(), "{window} {now}");
                let before = end.checked_sub(1.nanosecond()).expect("a time");
                assert_eq!(period_at(window, WindowAlignment::Calendar, before), period, "{window} {now}");
            }
        }
    }

    #[test]
    fn a_rolling_charge_counts_until_its_whole_slot_is_older_than_the_window() {
        let window = LimitWindow::Seconds(60);
        let charged = at("2026-11-15T12:00:00.999Z");
        let period = period_at(window, WindowAlignment::Rolling, charged);
        // The slot is the second from 12:00:00 to 12:00:01.
        assert_eq!(period_end(window, WindowAlignment::Rolling, period), at("2026-11-15T12:01:01Z"));
        let current = |now: &str| period_at(window, WindowAlignment::Rolling, at(now));
        assert!(is_counted(WindowAlignment::Rolling, period, current("2026-11-15T12:01:00.999999999Z")));
        assert!(!is_counted(WindowAlignment::Rolling, period, current("2026-11-15T12:01:01Z")));
    }

    #[test]
    fn a_rolling_slot_stops_counting_exactly_at_its_end() {
        for seconds in [1, 7, 59, 61, 900, 86_400, LimitWindow::MAX_SECONDS] {
            let window = LimitWindow::Seconds(seconds);
            let period = period_at(window, WindowAlignment::Rolling, at("2026-11-15T13:37:42.123456789Z"));
            let end = period_end(window, WindowAlignment::Rolling, period);
            let before = end.checked_sub(1.nanosecond()).expect("a time");
            assert!(
                !is_counted(WindowAlignment::Rolling, period, period_at(window, WindowAlignment::Rolling, end)),
                "{seconds}"
            );
            assert!(
                is_counted(WindowAlignment::Rolling, period, period_at(window, WindowAlignment::Rolling, before)),
                "{seconds}"
            );
        }
    }
}
