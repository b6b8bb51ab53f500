//! The state of one counter: how much is used in each period, and whether a charge fits. All functions are pure.

use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;

use super::counter_window::{is_counted, period_at, period_end};
use crate::model::{CounterCharge, PeriodIndex};

/// Upper bounds for stored values: larger than any period index or sum that can occur, but far from overflowing.
const MAX_PERIOD: PeriodIndex = 1_000_000_000_000_000;
const MAX_USED_BILLIONTHS: i128 = 10_i128.pow(30);

/// The state of one counter: its usage in the periods that still count, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CounterState {
    used_by_period: VecDeque<(PeriodIndex, i128)>,
    /// Unix time in seconds by which all of the usage has expired.
    expiry_second: i64,
}

impl CounterState {
    /// Returns the period to which `charge` would be added now, if it fits.
    ///
    /// INVARIANT: the period never moves back, whatever the clock does. It is never earlier than the newest charged
    /// period or the period that contains `floor`, the time before which counters have been removed. This method does
    /// not drop old periods: if the clock is briefly ahead and the charge is not made, the counter must keep its usage.
    ///
    /// # Errors
    /// The charge does not fit. The error is the time until it fits, or `None` if waiting does not help.
    pub fn charge_period(
        &self,
        charge: &CounterCharge,
        now: Timestamp,
        floor: Timestamp,
    ) -> Result<PeriodIndex, Option<Duration>> {
        let at = |time| period_at(charge.window, charge.align, time);
        let newest = self.used_by_period.back().map_or(i64::MIN, |(period, _)| *period);
        let current = at(now).max(at(floor)).max(newest);
        let counting = || self.used_by_period.iter().filter(|(period, _)| is_counted(charge.align, *period, current));
        let (amount, max) = (charge.amount.billionths(), charge.max.billionths());
        let mut used: i128 = counting().map(|(_, used)| used).sum();
        if used + amount <= max {
            return Ok(current);
        }
        for (period, leaving) in counting() {
            used -= leaving;
            if used + amount <= max {
                let until = period_end(charge.window, charge.align, *period).duration_since(now);
                return Err(Some(until.try_into().unwrap_or(Duration::ZERO)));
            }
        }
        Err(None)
    }

    /// Adds a charge to the period that [`CounterState::charge_period`] returned, and drops periods that no longer
    /// count.
    pub fn charge(&mut self, charge: &CounterCharge, period: PeriodIndex) {
        self.used_by_period.retain(|(own, _)| is_counted(charge.align, *own, period));
        let billionths = charge.amount.billionths();
        match self.used_by_period.back_mut() {
            Some((last, used)) if *last == period => *used += billionths,
            _ => self.used_by_period.push_back((period, billionths)),
        }
        self.expiry_second = period_end(charge.window, charge.align, period).as_second() + 1;
    }

    /// Subtracts an amount from a period, if that period still counts.
    pub fn refund(&mut self, period: PeriodIndex, billionths: i128) {
        if let Some((_, used)) = self.used_by_period.iter_mut().find(|(own, _)| *own == period) {
            *used = (*used - billionths).max(0);
        }
    }

    /// Returns the total usage, including that of periods which have expired since the last charge.
    pub fn used_billionths(&self) -> i128 {
        self.used_by_period.iter().map(|(_, used)| used).sum()
    }

    /// Returns the Unix time in seconds by which all of the usage has expired.
    pub fn expiry_second(&self) -> i64 {
        self.expiry_second
    }

    /// Returns the counter in its stored form, without its expiry.
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(self.used_by_period.len() * 32);
        for (period, used) in &self.used_by_period {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{period}:{used}");
        }
        text
    }

    /// Parses a stored counter; `None` if it is malformed.
    pub fn decode(text: &str, expiry_second: i64) -> Option<Self> {
        let mut used = VecDeque::new();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (period, amount) = pair.split_once(':')?;
            let (period, amount) = (period.parse().ok()?, amount.parse().ok()?);
            let is_sane = (-MAX_PERIOD..=MAX_PERIOD).contains(&period) && (0..=MAX_USED_BILLIONTHS).contains(&amount);
            used.push_back(is_sane.then_some((period, amount))?);
        }
        Some(Self { used_by_period: used, expiry_second })
    }
}
