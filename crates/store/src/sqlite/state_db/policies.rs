//! Policies, stored in `state.db`.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row, params};

use super::{SqliteStateStore, parse_name};
use crate::clock::{from_unix_nanoseconds, to_unix_nanoseconds};
use crate::model::{AdminLogEntry, PolicyName, PolicySummary, PolicyVersionNumber, StoreError, StoredPolicy};
use crate::traits::{Policies, no_policy_error};

const COLUMNS: &str = "name, version, text, is_yaml, restores, created_at, created_by";

#[async_trait]
impl Policies for SqliteStateStore {
    async fn put(&self, policy: StoredPolicy, entry: AdminLogEntry) -> Result<PolicyVersionNumber, StoreError> {
        let change = self.change(entry, move |db, entry| {
            let last: u32 = db.query_row(
                "SELECT coalesce(max(version), 0) FROM policies WHERE name = ?",
                [policy.name.as_str()],
                |row| row.get(0),
            )?;
            let version = last + 1;
            db.execute(
                &format!("INSERT INTO policies ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"),
                params![
                    policy.name.as_str(),
                    version,
                    policy.text,
                    policy.is_yaml,
                    policy.restores.map(|version| version.0),
                    to_unix_nanoseconds(policy.created_at),
                    policy.created_by,
                ],
            )?;
            entry.add_detail("version", version)?;
            Ok(PolicyVersionNumber(version))
        });
        change.await
    }

    async fn list(&self) -> Result<Vec<PolicySummary>, StoreError> {
        let list = self.run(|db| {
            // With `max`, SQLite takes the other columns from the row that has the maximum.
            let mut statement = db.prepare_cached(
                "SELECT name, max(version), created_at, created_by FROM policies GROUP BY name ORDER BY name",
            )?;
            let mut rows = statement.query([])?;
            let mut policies = Vec::new();
            while let Some(row) = rows.next()? {
                policies.push(PolicySummary {
                    name: parse_name(&row.get::<_, String>(0)?)?,
                    version: PolicyVersionNumber(row.get(1)?),
                    created_at: from_unix_nanoseconds(row.get(2)?),
                    created_by: row.get(3)?,
                });
            }
            Ok(policies)
        });
        list.await
    }

    async fn get(&self, name: &PolicyName, version: Option<PolicyVersionNumber>) -> Result<StoredPolicy, StoreError> {
        let name = name.clone();
        let get = self.run(move |db| {
            let sql = format!(
                "SELECT {COLUMNS} FROM policies WHERE name = ?1 AND version = coalesce(?2, version) \
                 ORDER BY version DESC LIMIT 1"
            );
            let mut statement = db.prepare_cached(&sql)?;
            let found =
                statement.query_row(params![name.as_str(), version.map(|version| version.0)], |row| Ok(stored(row)));
            found.optional()?.unwrap_or_else(|| Err(no_policy_error(&name, version)))
        });
        get.await
    }

    async fn versions(&self, name: &PolicyName) -> Result<Vec<StoredPolicy>, StoreError> {
        let name = name.clone();
        let versions = self.run(move |db| {
            let sql = format!("SELECT {COLUMNS} FROM policies WHERE name = ? ORDER BY version DESC");
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query([name.as_str()])?;
            let mut versions = Vec::new();
            while let Some(row) = rows.next()? {
                versions.push(stored(row)?);
            }
            if versions.is_empty() { Err(no_policy_error(&name, None)) } else { Ok(versions) }
        });
        versions.await
    }
}

fn stored(row: &Row<'_>) -> Result<StoredPolicy, StoreError> {
    Ok(StoredPolicy {
        name: parse_name(&row.get::<_, String>(0)?)?,
        version: PolicyVersionNumber(row.get(1)?),
        text: row.get(2)?,
        is_yaml: row.get(3)?,
        restores: row.get::<_, Option<u32>>(4)?.map(PolicyVersionNumber),
        created_at: from_unix_nanoseconds(row.get(5)?),
        created_by: row.get(6)?,
    })
}
