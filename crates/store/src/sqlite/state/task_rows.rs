//! Whose tasks are, in `state.db`.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, TransactionBehavior, params};

use super::SqliteState;
use crate::StoreError;
use crate::clock::{from_unix_nanoseconds, to_unix_nanoseconds};
use crate::grants::GrantId;
use crate::id_hash::IdHash;
use crate::task_rows::{MAX_TASKS, TaskRow, TaskRows, taken};
use crate::validated_name::ServerName;

const INSERT: &str = "INSERT OR REPLACE INTO tasks (id, grant_id, server, tool, expires_at) VALUES (?, ?, ?, ?, ?)";
const BEYOND: &str = "DELETE FROM tasks WHERE grant_id = ?1 AND expires_at <= \
     (SELECT expires_at FROM tasks WHERE grant_id = ?1 ORDER BY expires_at DESC LIMIT 1 OFFSET ?2)";

#[async_trait]
impl TaskRows for SqliteState {
    async fn keep(&self, task: TaskRow, now: Timestamp) -> Result<(), StoreError> {
        let keep = self.run_light(move |db| {
            let db = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let others = "SELECT 1 FROM tasks WHERE id = ? AND grant_id <> ? AND expires_at > ?";
            let is_taken = db.prepare_cached(others)?.exists(params![
                task.id.as_bytes(),
                task.grant.0,
                to_unix_nanoseconds(now)
            ])?;
            if is_taken {
                return Err(taken());
            }
            let (server, end) = (task.server.as_str(), to_unix_nanoseconds(task.expires_at));
            db.prepare_cached(INSERT)?.execute(params![task.id.as_bytes(), task.grant.0, server, task.tool, end])?;
            db.prepare_cached(BEYOND)?.execute(params![task.grant.0, MAX_TASKS])?;
            Ok(db.commit()?)
        });
        keep.await
    }

    async fn find(&self, id: IdHash) -> Result<Option<TaskRow>, StoreError> {
        let find = self.run_light(move |db| {
            let select = "SELECT id, grant_id, server, tool, expires_at FROM tasks WHERE id = ?";
            let found = db.prepare_cached(select)?.query_row([id.as_bytes()], |row| Ok(task(row))).optional()?;
            found.transpose()
        });
        find.await
    }

    async fn of_grant(&self, grant: &GrantId, server: &ServerName) -> Result<Vec<TaskRow>, StoreError> {
        let (grant, server) = (grant.clone(), server.clone());
        let list = self.run_light(move |db| {
            let select = "SELECT id, grant_id, server, tool, expires_at FROM tasks WHERE grant_id = ? AND server = ?";
            let mut statement = db.prepare_cached(select)?;
            let rows = statement.query_map(params![grant.0, server.as_str()], |row| Ok(task(row)))?;
            rows.map(|row| row?).collect()
        });
        list.await
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        let sweep = self.run_light(move |db| {
            Ok(db.execute("DELETE FROM tasks WHERE expires_at < ?", [to_unix_nanoseconds(before)])?)
        });
        sweep.await
    }
}

fn task(row: &Row<'_>) -> Result<TaskRow, StoreError> {
    Ok(TaskRow {
        id: IdHash::from_bytes(row.get(0)?),
        grant: GrantId(row.get::<_, String>(1)?.into()),
        server: super::name(&row.get::<_, String>(2)?)?,
        tool: row.get(3)?,
        expires_at: from_unix_nanoseconds(row.get(4)?),
    })
}
