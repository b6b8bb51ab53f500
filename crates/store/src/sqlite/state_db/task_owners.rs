//! Task ownership, stored in `state.db`.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, TransactionBehavior, params};

use super::SqliteStateStore;
use crate::clock::{from_unix_nanoseconds, to_unix_nanoseconds};
use crate::model::{GrantId, IdDigest, MAX_TASKS_PER_GRANT, ServerName, StoreError, TaskOwner};
use crate::traits::{TaskOwners, other_owner_error};

const INSERT_TASK: &str =
    "INSERT OR REPLACE INTO tasks (id, grant_id, server, tool, expires_at) VALUES (?, ?, ?, ?, ?)";
const DELETE_EXCESS_TASKS: &str = "DELETE FROM tasks WHERE grant_id = ?1 AND expires_at <= \
     (SELECT expires_at FROM tasks WHERE grant_id = ?1 ORDER BY expires_at DESC LIMIT 1 OFFSET ?2)";

#[async_trait]
impl TaskOwners for SqliteStateStore {
    async fn put(&self, task: TaskOwner, now: Timestamp) -> Result<(), StoreError> {
        let keep = self.run_relaxed(move |db| {
            let db = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let others = "SELECT 1 FROM tasks WHERE id = ? AND grant_id <> ? AND expires_at > ?";
            let is_taken = db.prepare_cached(others)?.exists(params![
                task.id.as_bytes(),
                task.grant.0,
                to_unix_nanoseconds(now)
            ])?;
            if is_taken {
                return Err(other_owner_error());
            }
            let (server, end) = (task.server.as_str(), to_unix_nanoseconds(task.expires_at));
            db.prepare_cached(INSERT_TASK)?.execute(params![
                task.id.as_bytes(),
                task.grant.0,
                server,
                task.tool,
                end
            ])?;
            db.prepare_cached(DELETE_EXCESS_TASKS)?.execute(params![task.grant.0, MAX_TASKS_PER_GRANT])?;
            Ok(db.commit()?)
        });
        keep.await
    }

    async fn find(&self, id: IdDigest) -> Result<Option<TaskOwner>, StoreError> {
        let find = self.run_relaxed(move |db| {
            let select = "SELECT id, grant_id, server, tool, expires_at FROM tasks WHERE id = ?";
            let found = db.prepare_cached(select)?.query_row([id.as_bytes()], |row| Ok(read_task(row))).optional()?;
            found.transpose()
        });
        find.await
    }

    async fn list_for_grant(&self, grant: &GrantId, server: &ServerName) -> Result<Vec<TaskOwner>, StoreError> {
        let (grant, server) = (grant.clone(), server.clone());
        let list = self.run_relaxed(move |db| {
            let select = "SELECT id, grant_id, server, tool, expires_at FROM tasks WHERE grant_id = ? AND server = ?";
            let mut statement = db.prepare_cached(select)?;
            let rows = statement.query_map(params![grant.0, server.as_str()], |row| Ok(read_task(row)))?;
            rows.map(|row| row?).collect()
        });
        list.await
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        let sweep = self.run_relaxed(move |db| {
            Ok(db.execute("DELETE FROM tasks WHERE expires_at < ?", [to_unix_nanoseconds(before)])?)
        });
        sweep.await
    }
}

fn read_task(row: &Row<'_>) -> Result<TaskOwner, StoreError> {
    Ok(TaskOwner {
        id: IdDigest::from_bytes(row.get(0)?),
        grant: GrantId(row.get::<_, String>(1)?.into()),
        server: super::parse_name(&row.get::<_, String>(2)?)?,
        tool: row.get(3)?,
        expires_at: from_unix_nanoseconds(row.get(4)?),
    })
}
