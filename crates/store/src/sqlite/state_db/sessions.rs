//! Sessions, stored in `state.db`.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, TransactionBehavior, params};

use super::SqliteStateStore;
use crate::clock::{from_unix_nanoseconds, to_unix_nanoseconds};
use crate::model::{GrantId, IdDigest, SessionRow, StoreError};
use crate::traits::Sessions;

const COLUMNS: &str =
    "id, grant_id, server, revision, client_name, client_version, handshake, is_far_stateless, watched, used_at, level";

/// Represents the aggregate endpoint; not a valid server name.
const AGGREGATE_SERVER: &str = "";

#[async_trait]
impl Sessions for SqliteStateStore {
    async fn put(&self, session: SessionRow) -> Result<(), StoreError> {
        let keep = self.run_relaxed(move |db| {
            let insert =
                format!("INSERT OR REPLACE INTO sessions ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
            db.prepare_cached(&insert)?.execute(params![
                session.id.as_bytes(),
                session.grant.0,
                session.server.as_ref().map_or(AGGREGATE_SERVER, |server| server.as_str()),
                session.revision,
                session.client_name,
                session.client_version,
                session.handshake,
                session.is_upstream_stateless,
                encode_uris(&session.subscribed_uris),
                to_unix_nanoseconds(session.last_used_at),
                session.log_level,
            ])?;
            Ok(())
        });
        keep.await
    }

    async fn find(&self, id: IdDigest) -> Result<Option<SessionRow>, StoreError> {
        let find = self.run_relaxed(move |db| {
            let select = format!("SELECT {COLUMNS} FROM sessions WHERE id = ?");
            let found =
                db.prepare_cached(&select)?.query_row([id.as_bytes()], |row| Ok(read_session(row))).optional()?;
            found.transpose()
        });
        find.await
    }

    async fn set_subscriptions(&self, id: IdDigest, uris: Vec<String>) -> Result<(), StoreError> {
        let watch = self.run_relaxed(move |db| {
            let update = "UPDATE sessions SET watched = ? WHERE id = ?";
            db.prepare_cached(update)?.execute(params![encode_uris(&uris), id.as_bytes()])?;
            Ok(())
        });
        watch.await
    }

    async fn set_log_level(&self, id: IdDigest, level: String) -> Result<(), StoreError> {
        let set = self.run_relaxed(move |db| {
            let update = "UPDATE sessions SET level = ? WHERE id = ?";
            db.prepare_cached(update)?.execute(params![level, id.as_bytes()])?;
            Ok(())
        });
        set.await
    }

    async fn touch(&self, ids: Vec<IdDigest>, at: Timestamp) -> Result<(), StoreError> {
        let touch = self.run_relaxed(move |db| {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for id in &ids {
                let update = "UPDATE sessions SET used_at = max(used_at, ?) WHERE id = ?";
                transaction.prepare_cached(update)?.execute(params![to_unix_nanoseconds(at), id.as_bytes()])?;
            }
            Ok(transaction.commit()?)
        });
        touch.await
    }

    async fn delete(&self, ids: Vec<IdDigest>) -> Result<(), StoreError> {
        let forget = self.run_relaxed(move |db| {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for id in &ids {
                transaction.prepare_cached("DELETE FROM sessions WHERE id = ?")?.execute([id.as_bytes()])?;
            }
            Ok(transaction.commit()?)
        });
        forget.await
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        let sweep = self.run_relaxed(move |db| {
            Ok(db.execute("DELETE FROM sessions WHERE used_at < ?", [to_unix_nanoseconds(before)])?)
        });
        sweep.await
    }
}

fn read_session(row: &Row<'_>) -> Result<SessionRow, StoreError> {
    Ok(SessionRow {
        id: IdDigest::from_bytes(row.get(0)?),
        grant: GrantId(row.get::<_, String>(1)?.into()),
        server: Some(row.get::<_, String>(2)?)
            .filter(|server| server != AGGREGATE_SERVER)
            .map(|server| super::parse_name(&server))
            .transpose()?,
        revision: row.get(3)?,
        client_name: row.get(4)?,
        client_version: row.get(5)?,
        handshake: row.get(6)?,
        is_upstream_stateless: row.get(7)?,
        subscribed_uris: decode_uris(&row.get::<_, String>(8)?),
        last_used_at: from_unix_nanoseconds(row.get(9)?),
        log_level: row.get(10)?,
    })
}

/// Encodes a list of URIs as JSON, because they may contain any character.
fn encode_uris(uris: &[String]) -> String {
    serde_json::Value::from(uris).to_string()
}

/// Decodes a list of URIs. A malformed list is treated as empty; the client then has to subscribe again.
fn decode_uris(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_default()
}
