//! Counters in memory. This is the only place where charges are checked against counters. There is no I/O here.

use foldhash::{HashMap, HashMapExt};
use jiff::Timestamp;

use super::counter_state::CounterState;
use crate::model::{AppliedCharge, CounterCharge, CounterKey, ExhaustedCounter};

/// Counters by key. A missing counter was never charged, or was removed because it expired before `min_window_start`.
#[derive(Debug)]
pub(crate) struct CounterMap {
    counters: HashMap<CounterKey, CounterState>,
    /// No window starts before this time.
    pub min_window_start: Timestamp,
}

impl CounterMap {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self { counters: HashMap::new(), min_window_start: Timestamp::MIN }
    }

    /// Applies either all charges or none.
    ///
    /// INVARIANT: `&mut self` prevents other charges between the check and the update.
    ///
    /// # Errors
    /// Returns the first charge, in the given order, that does not fit.
    pub fn charge_all(
        &mut self,
        charges: &[CounterCharge],
        now: Timestamp,
    ) -> Result<Vec<AppliedCharge>, ExhaustedCounter> {
        let mut applied = Vec::with_capacity(charges.len());
        for (index, charge) in charges.iter().enumerate() {
            let period = match self.counters.get(&charge.key) {
                Some(counter) => counter.charge_period(charge, now, self.min_window_start),
                None => CounterState::default().charge_period(charge, now, self.min_window_start),
            };
            let period = period.map_err(|retry_after| ExhaustedCounter { charge_index: index, retry_after })?;
            applied.push(AppliedCharge { key: charge.key.clone(), period, billionths: charge.amount.billionths() });
        }
        for (charge, applied) in charges.iter().zip(&applied) {
            self.counters.entry(charge.key.clone()).or_default().charge(charge, applied.period);
        }
        Ok(applied)
    }

    /// Refunds those charges that still count towards their limits.
    pub fn refund_all(&mut self, charges: &[AppliedCharge]) {
        for charge in charges {
            if let Some(counter) = self.counters.get_mut(&charge.key) {
                counter.refund(charge.period, charge.billionths);
            }
        }
    }

    /// Returns the counter with this key, if it is in memory.
    pub fn get(&self, key: &CounterKey) -> Option<&CounterState> {
        self.counters.get(key)
    }

    /// Adds a counter.
    pub fn insert(&mut self, key: CounterKey, counter: CounterState) {
        self.counters.insert(key, counter);
    }

    /// Removes a counter.
    pub fn remove(&mut self, key: &str) {
        self.counters.remove(key);
    }

    /// Removes all counters.
    pub fn clear(&mut self) {
        self.counters.clear();
    }

    /// Returns the number of counters in memory.
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// Returns all counters in memory, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&CounterKey, &CounterState)> {
        self.counters.iter()
    }
}
