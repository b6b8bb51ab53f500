//! The counters that are at hand, and the one place where claims are held against them. Pure.

use foldhash::{HashMap, HashMapExt};
use jiff::Timestamp;

use crate::counter::{AppliedCharge, Counter, CounterCharge, CounterKey};
use crate::ledger::ExhaustedCounter;

/// Counters by key. One that is not there has never been charged, or was forgotten before `floor`.
#[derive(Debug)]
pub(crate) struct Book {
    counters: HashMap<CounterKey, Counter>,
    /// No window starts before this time.
    pub floor: Timestamp,
}

impl Book {
    /// A book without counters.
    pub fn new() -> Self {
        Self { counters: HashMap::new(), floor: Timestamp::MIN }
    }

    /// Takes all claims or none.
    ///
    /// INVARIANT: nobody else sees the book between looking and taking; it is behind `&mut`.
    ///
    /// # Errors
    /// The first claim without room, in their order.
    pub fn take(&mut self, claims: &[CounterCharge], now: Timestamp) -> Result<Vec<AppliedCharge>, ExhaustedCounter> {
        let mut taken = Vec::with_capacity(claims.len());
        for (index, claim) in claims.iter().enumerate() {
            let room = match self.counters.get(&claim.key) {
                Some(counter) => counter.room(claim, now, self.floor),
                None => Counter::default().room(claim, now, self.floor),
            };
            let period = room.map_err(|room_in| ExhaustedCounter { charge_index: index, retry_after: room_in })?;
            taken.push(AppliedCharge { key: claim.key.clone(), period, billionths: claim.amount.billionths() });
        }
        for (claim, taken) in claims.iter().zip(&taken) {
            self.counters.entry(claim.key.clone()).or_default().take(claim, taken.period);
        }
        Ok(taken)
    }

    /// Gives back what was taken, where it still counts.
    pub fn give_back(&mut self, taken: &[AppliedCharge]) {
        for taken in taken {
            if let Some(counter) = self.counters.get_mut(&taken.key) {
                counter.give_back(taken.period, taken.billionths);
            }
        }
    }

    /// The counter of a key, if it is at hand.
    pub fn get(&self, key: &CounterKey) -> Option<&Counter> {
        self.counters.get(key)
    }

    /// Puts a counter at hand.
    pub fn insert(&mut self, key: CounterKey, counter: Counter) {
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
    pub fn iter(&self) -> impl Iterator<Item = (&CounterKey, &Counter)> {
        self.counters.iter()
    }
}
