//! The usage of counters in memory.

use async_trait::async_trait;
use gatelodge_policy::Amount;

use super::MemoryStore;
use crate::model::{CounterUsageRow, StoreError};
use crate::traits::CounterUsage;

#[async_trait]
impl CounterUsage for MemoryStore {
    async fn usage(&self) -> Result<Vec<CounterUsageRow>, StoreError> {
        let ledger = self.ledger();
        let mut usage = Vec::with_capacity(ledger.counters.len());
        for (key, counter) in ledger.counters.iter() {
            if let Some(used) = Amount::of_billionths(counter.used_billionths()) {
                usage.push(CounterUsageRow { key: key.clone(), used });
            }
        }
        usage.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(usage)
    }
}
