//! The counters that are at hand, and the one place where claims are held against them. Pure.

use foldhash::{HashMap, HashMapExt};
use jiff::Timestamp;

use crate::counter::{AppliedCharge, CounterCharge, CounterKey, CounterState};
use crate::ledger::ExhaustedCounter;

/// Counters by key. One that is not there has never been charged, or was forgotten before `floor`.
#[derive(Debug)]
pub(crate) struct CounterMap {
    counters: HashMap<CounterKey, CounterState>,
    /// No window starts before this time.
    pub min_window_start: Timestamp,
}

impl CounterMap {
    /// A book without counters.
    pub fn new() -> Self {
        Self { counters: HashMap::new(), min_window_start: Timestamp::MIN }
    }

    /// Takes all claims or none.
    ///
    /// INVARIANT: nobody else sees the book between looking and taking; it is behind `&mut`.
    ///
    /// # Errors
    /// The first claim without room, in their order.
    pub fn charge_all(
        &mut self,
        claims: &[CounterCharge],
        now: Timestamp,
    ) -> Result<Vec<AppliedCharge>, ExhaustedCounter> {
        let mut taken = Vec::with_capacity(claims.len());
        for (index, claim) in claims.iter().enumerate() {
            let room = match self.counters.get(&claim.key) {
                Some(counter) => counter.charge_period(claim, now, self.min_window_start),
                None => CounterState::default().charge_period(claim, now, self.min_window_start),
            };
            let period = room.map_err(|room_in| ExhaustedCounter { charge_index: index, retry_after: room_in })?;
            taken.push(AppliedCharge { key: claim.key.clone(), period, billionths: claim.amount.billionths() });
        }
        for (claim, taken) in claims.iter().zip(&taken) {
            self.counters.entry(claim.key.clone()).or_default().charge(claim, taken.period);
        }
        Ok(taken)
    }

    /// Gives back what was taken, where it still counts.
    pub fn refund_all(&mut self, taken: &[AppliedCharge]) {
        for taken in taken {
            if let Some(counter) = self.counters.get_mut(&taken.key) {
                counter.refund(taken.period, taken.billionths);
            }
        }
    }

    /// The counter of a key, if it is at hand.
    pub fn get(&self, key: &CounterKey) -> Option<&CounterState> {
        self.counters.get(key)
    }

    /// Puts a counter at hand.
    pub fn insert(&mut self, key: CounterKey, counter: CounterState) {
        self.counters.insert(key, counter);
    }

    /// Lets go of a counter.
    pub fn remove(&mut self, key: &str) {
        self.counters.remove(key);
    }

    /// Lets go of all counters.
    pub fn clear(&mut self) {
        self.counters.clear();
    }

    /// How many are at hand.
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// All that are at hand, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&CounterKey, &CounterState)> {
        self.counters.iter()
    }
}
