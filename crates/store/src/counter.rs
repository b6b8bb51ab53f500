//! Counters: what was used in which stretch of time, and whether there is room for more. Pure.

use std::borrow::{Borrow, Cow};
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use gatelodge_policy::{Align, Amount, Charge, LimitWindow, Scope};
use jiff::Timestamp;

use crate::counter_window::{PeriodIndex, is_counted, period_at, period_end};
use crate::grants::GrantId;
use crate::validated_name::{PolicyName, ServerName};

/// Larger than any stretch's number and than any sum that was ever taken, and far from what overflows.
const MAX_PERIOD: PeriodIndex = 1_000_000_000_000_000;
const MAX_USED_BILLIONTHS: i128 = 10_i128.pow(30);

/// A counter's identity. New versions of the policy and new tokens of the grant keep it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CounterKey(Arc<str>);

/// Who makes a call, as far as counters care.
#[derive(Debug, Clone, Copy)]
pub struct CounterOwner<'a> {
    /// The policy that has the limit.
    pub policy: &'a PolicyName,
    /// The server that is called.
    pub server: &'a ServerName,
    /// The grant.
    pub grant: &'a GrantId,
    /// The session, if the client has one.
    pub session: Option<&'a str>,
}

impl CounterKey {
    /// The counter that a charge of this holder goes to.
    ///
    /// It names the policy, the server unless the scope is the organisation, the counter with its window and align,
    /// and whose it is. The parts are separated by a character that none of them keeps.
    pub fn of(charge: &Charge, holder: &CounterOwner<'_>) -> Self {
        let window = match charge.window() {
            LimitWindow::Seconds(seconds) => Cow::Owned(seconds.to_string()),
            LimitWindow::Week => Cow::Borrowed("week"),
            LimitWindow::Month => Cow::Borrowed("month"),
        };
        let server = if charge.scope() == Scope::Organisation { "" } else { holder.server.as_str() };
        let session = holder.session.unwrap_or_default();
        let own = match charge.scope() {
            Scope::Grant => holder.grant.0.as_ref(),
            Scope::Session => session,
            Scope::Server | Scope::Organisation => "",
        };
        let parts = [
            holder.policy.as_str(),
            server,
            charge.counter().as_ref(),
            &window,
            charge.align().as_str(),
            charge.scope().as_str(),
            own,
        ];
        let mut key = String::with_capacity(96);
        for part in parts {
            if part.bytes().any(|byte| matches!(byte, b'|' | b'\\')) {
                key.push_str(&part.replace('\\', "\\\\").replace('|', "\\|"));
            } else {
                key.push_str(part);
            }
            key.push('|');
        }
        Self(key.into())
    }

    /// The key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes a stored key.
    pub(crate) fn from_stored(text: &str) -> Self {
        Self(text.into())
    }
}

impl Borrow<str> for CounterKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CounterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An amount to take from a counter, if there is room.
#[derive(Debug, Clone)]
pub struct CounterCharge {
    /// Which counter.
    pub key: CounterKey,
    /// How long it counts.
    pub window: LimitWindow,
    /// When its window begins.
    pub align: Align,
    /// What it may reach.
    pub max: Amount,
    /// What to add.
    pub amount: Amount,
}

impl CounterCharge {
    /// The claim of a charge.
    pub fn of(charge: &Charge, holder: &CounterOwner<'_>) -> Self {
        Self {
            key: CounterKey::of(charge, holder),
            window: charge.window(),
            align: charge.align(),
            max: charge.max(),
            amount: charge.amount(),
        }
    }
}

/// What was taken from one counter, and in which stretch.
#[derive(Debug, Clone)]
pub(crate) struct AppliedCharge {
    pub key: CounterKey,
    pub period: PeriodIndex,
    pub billionths: i128,
}

/// One counter: what was used in the stretches that still count, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CounterState {
    used_by_period: VecDeque<(PeriodIndex, i128)>,
    /// The second from which on nothing of it counts any more.
    expiry_second: i64,
}

impl CounterState {
    /// Finds the stretch in which `claim` can be taken now.
    ///
    /// INVARIANT: the stretch never goes back, whatever the clock does: it is at least the newest that was charged,
    /// and at least `floor`, below which counters have been forgotten. Looking forgets nothing: a clock that shows a
    /// later time for a moment must not empty a counter that is then not charged.
    ///
    /// # Errors
    /// There is no room; if waiting helps, the time until there is.
    pub fn charge_period(
        &self,
        claim: &CounterCharge,
        now: Timestamp,
        floor: Timestamp,
    ) -> Result<PeriodIndex, Option<Duration>> {
        let at = |time| period_at(claim.window, claim.align, time);
        let newest = self.used_by_period.back().map_or(i64::MIN, |(period, _)| *period);
        let current = at(now).max(at(floor)).max(newest);
        let counting = || self.used_by_period.iter().filter(|(period, _)| is_counted(claim.align, *period, current));
        let (amount, max) = (claim.amount.billionths(), claim.max.billionths());
        let mut used: i128 = counting().map(|(_, used)| used).sum();
        if used + amount <= max {
            return Ok(current);
        }
        for (period, leaving) in counting() {
            used -= leaving;
            if used + amount <= max {
                let until = period_end(claim.window, claim.align, *period).duration_since(now);
                return Err(Some(until.try_into().unwrap_or(Duration::ZERO)));
            }
        }
        Err(None)
    }

    /// Takes a claim in the stretch that [`CounterState::charge_period`] gave, and forgets what no longer counts then.
    pub fn charge(&mut self, claim: &CounterCharge, period: PeriodIndex) {
        self.used_by_period.retain(|(own, _)| is_counted(claim.align, *own, period));
        let billionths = claim.amount.billionths();
        match self.used_by_period.back_mut() {
            Some((last, used)) if *last == period => *used += billionths,
            _ => self.used_by_period.push_back((period, billionths)),
        }
        self.expiry_second = period_end(claim.window, claim.align, period).as_second() + 1;
    }

    /// Takes back what was added to a stretch, if it still counts.
    pub fn refund(&mut self, period: PeriodIndex, billionths: i128) {
        if let Some((_, used)) = self.used_by_period.iter_mut().find(|(own, _)| *own == period) {
            *used = (*used - billionths).max(0);
        }
    }

    /// What counts now.
    pub fn used_billionths(&self) -> i128 {
        self.used_by_period.iter().map(|(_, used)| used).sum()
    }

    /// The second from which on nothing of it counts any more.
    pub fn expiry_second(&self) -> i64 {
        self.expiry_second
    }

    /// Writes the counter for keeping, but for its end.
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(self.used_by_period.len() * 32);
        for (period, used) in &self.used_by_period {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}{period}:{used}");
        }
        text
    }

    /// Reads a kept counter; none if it is not one.
    pub fn decode(text: &str, ends: i64) -> Option<Self> {
        let mut used = VecDeque::new();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (period, amount) = pair.split_once(':')?;
            let (period, amount) = (period.parse().ok()?, amount.parse().ok()?);
            let is_sane = (-MAX_PERIOD..=MAX_PERIOD).contains(&period) && (0..=MAX_USED_BILLIONTHS).contains(&amount);
            used.push_back(is_sane.then_some((period, amount))?);
        }
        Some(Self { used_by_period: used, expiry_second: ends })
    }
}
