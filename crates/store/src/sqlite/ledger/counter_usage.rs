//! The usage of the counters in `ledger.db`.

use async_trait::async_trait;
use gatelodge_policy::Amount;
use rusqlite::Connection;

use super::SqliteLedger;
use crate::counters::CounterState;
use crate::model::{CounterKey, CounterUsageRow, StoreError};
use crate::traits::CounterUsage;

#[async_trait]
impl CounterUsage for SqliteLedger {
    async fn usage(&self) -> Result<Vec<CounterUsageRow>, StoreError> {
        self.read(|_, db| read_counters(db)).await
    }
}

fn read_counters(db: &Connection) -> Result<Vec<CounterUsageRow>, StoreError> {
    let mut statement = db.prepare("SELECT key, state, ends FROM counters ORDER BY key")?;
    let mut rows = statement.query([])?;
    let mut usage = Vec::new();
    while let Some(row) = rows.next()? {
        let key: String = row.get(0)?;
        let counter = CounterState::decode(&row.get::<_, String>(1)?, row.get(2)?);
        let used = counter.and_then(|counter| Amount::of_billionths(counter.used_billionths()));
        let used = used.ok_or_else(|| StoreError::Corrupt(format!("counter `{key}`")))?;
        usage.push(CounterUsageRow { key: CounterKey::from_stored(&key), used });
    }
    Ok(usage)
}
