//! Grants, stored in `state.db`.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteStateStore, from_json, parse_name, to_json};
use crate::clock::{from_unix_nanoseconds, to_unix_nanoseconds};
use crate::model::{
    AdminLogEntry, EnforcementMode, Grant, GrantId, GrantServerAttachment, NewGrant, ServerName, StoreError, TokenHash,
};
use crate::traits::{
    Grants, already_revoked_error, label_taken_error, no_attachment_error, no_grant_error, revoked_error,
    token_taken_error,
};

const COLUMNS: &str = "id, label, labels, token, created_at, expires_at, minimum_revision, revoked_at";

#[async_trait]
impl Grants for SqliteStateStore {
    async fn create(&self, new: NewGrant, entry: AdminLogEntry) -> Result<GrantId, StoreError> {
        let id = GrantId::random()?;
        let labels = to_json(&new.labels)?;
        let change = self.change(entry, move |db, entry| {
            if exists(db, "SELECT 1 FROM grants WHERE label = ? AND revoked_at IS NULL", &new.label)? {
                return Err(label_taken_error(&new.label));
            }
            refuse_taken(db, &id, new.token)?;
            db.execute(
                &format!("INSERT INTO grants ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)"),
                params![
                    id.0,
                    new.label,
                    labels,
                    new.token.to_string(),
                    to_unix_nanoseconds(new.created_at),
                    new.expires_at.map(to_unix_nanoseconds),
                    new.minimum_revision,
                ],
            )?;
            for attachment in &new.attachments {
                attach(db, &id, attachment)?;
            }
            entry.add_detail("id", &id)?;
            Ok(id)
        });
        change.await
    }

    async fn list(&self) -> Result<Vec<Grant>, StoreError> {
        let list = self.run(|db| {
            let sql = format!("SELECT {COLUMNS} FROM grants ORDER BY label, created_at, number");
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query([])?;
            let mut grants = Vec::new();
            while let Some(row) = rows.next()? {
                grants.push(grant(db, row)?);
            }
            Ok(grants)
        });
        list.await
    }

    async fn get(&self, id_or_label: &str) -> Result<Grant, StoreError> {
        let wanted = id_or_label.to_owned();
        let get = self.run(move |db| {
            // Both may match: a label may look like the id of another grant. The id takes precedence.
            let sql = format!(
                "SELECT {COLUMNS} FROM grants WHERE id = ?1 OR (label = ?1 AND revoked_at IS NULL) \
                 ORDER BY id = ?1 DESC LIMIT 1"
            );
            let mut statement = db.prepare_cached(&sql)?;
            let found = statement.query_row([&wanted], |row| Ok(grant(db, row))).optional()?;
            found.unwrap_or_else(|| Err(no_grant_error(&wanted)))
        });
        get.await
    }

    async fn rotate(
        &self,
        id: &GrantId,
        token: TokenHash,
        expires_at: Option<Timestamp>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        let id = id.clone();
        let change = self.change(entry, move |db, _| {
            if revoked_at(db, &id)?.is_some() {
                return Err(revoked_error(&id));
            }
            refuse_taken(db, &id, token)?;
            db.execute(
                "UPDATE grants SET token = ?, expires_at = ? WHERE id = ?",
                params![token.to_string(), expires_at.map(to_unix_nanoseconds), id.0],
            )?;
            Ok(())
        });
        change.await
    }

    async fn revoke(&self, id: &GrantId, at: Timestamp, entry: AdminLogEntry) -> Result<(), StoreError> {
        let id = id.clone();
        let change = self.change(entry, move |db, _| {
            if revoked_at(db, &id)?.is_some() {
                return Err(already_revoked_error(&id));
            }
            db.execute("UPDATE grants SET revoked_at = ? WHERE id = ?", params![to_unix_nanoseconds(at), id.0])?;
            Ok(())
        });
        change.await
    }

    async fn attach(
        &self,
        id: &GrantId,
        attachment: GrantServerAttachment,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        let id = id.clone();
        let change = self.change(entry, move |db, _| {
            revoked_at(db, &id)?;
            attach(db, &id, &attachment)
        });
        change.await
    }

    async fn detach(&self, id: &GrantId, server: &ServerName, entry: AdminLogEntry) -> Result<(), StoreError> {
        let (id, server) = (id.clone(), server.clone());
        let change = self.change(entry, move |db, _| {
            revoked_at(db, &id)?;
            let sql = "DELETE FROM attachments WHERE grant_id = ? AND server = ?";
            match db.execute(sql, params![id.0, server.as_str()])? {
                0 => Err(no_attachment_error(&id, &server)),
                _ => Ok(()),
            }
        });
        change.await
    }
}

fn exists(db: &Connection, sql: &str, value: &str) -> Result<bool, StoreError> {
    Ok(db.query_row(sql, [value], |_| Ok(())).optional()?.is_some())
}

fn refuse_taken(db: &Connection, id: &GrantId, token: TokenHash) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM grants WHERE token = ? AND id <> ?";
    let found = db.query_row(sql, params![token.to_string(), id.0], |_| Ok(())).optional()?;
    found.map_or(Ok(()), |()| Err(token_taken_error()))
}

/// Returns when the grant was revoked, if it was. Returns `NotFound` if there is no such grant.
fn revoked_at(db: &Connection, id: &GrantId) -> Result<Option<i64>, StoreError> {
    let found = db.query_row("SELECT revoked_at FROM grants WHERE id = ?", [&id.0], |row| row.get(0)).optional()?;
    found.ok_or_else(|| no_grant_error(&id.0))
}

fn attach(db: &Connection, id: &GrantId, attachment: &GrantServerAttachment) -> Result<(), StoreError> {
    let mode = match attachment.mode {
        EnforcementMode::Enforce => "enforce",
        EnforcementMode::Observe => "observe",
    };
    let policy = attachment.policy.as_ref().map(|policy| policy.as_str());
    db.execute(
        "INSERT OR REPLACE INTO attachments (grant_id, server, policy, mode) VALUES (?, ?, ?, ?)",
        params![id.0, attachment.server.as_str(), policy, mode],
    )?;
    Ok(())
}

fn grant(db: &Connection, row: &Row<'_>) -> Result<Grant, StoreError> {
    let id: String = row.get(0)?;
    let token: String = row.get(3)?;
    Ok(Grant {
        attachments: attachments(db, &id)?,
        id: GrantId(id.into()),
        label: row.get(1)?,
        labels: from_json(&row.get::<_, String>(2)?)?,
        token: TokenHash::parse(&token).map_err(|error| StoreError::Corrupt(error.to_string()))?,
        created_at: from_unix_nanoseconds(row.get(4)?),
        expires_at: row.get::<_, Option<i64>>(5)?.map(from_unix_nanoseconds),
        minimum_revision: row.get(6)?,
        revoked_at: row.get::<_, Option<i64>>(7)?.map(from_unix_nanoseconds),
    })
}

fn attachments(db: &Connection, id: &str) -> Result<Vec<GrantServerAttachment>, StoreError> {
    let sql = "SELECT server, policy, mode FROM attachments WHERE grant_id = ? ORDER BY server";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([id])?;
    let mut attachments = Vec::new();
    while let Some(row) = rows.next()? {
        let policy: Option<String> = row.get(1)?;
        let mode: String = row.get(2)?;
        attachments.push(GrantServerAttachment {
            server: parse_name(&row.get::<_, String>(0)?)?,
            policy: policy.map(|policy| parse_name(&policy)).transpose()?,
            mode: match mode.as_str() {
                "enforce" => EnforcementMode::Enforce,
                "observe" => EnforcementMode::Observe,
                other => return Err(StoreError::Corrupt(format!("invalid mode `{other}`"))),
            },
        });
    }
    Ok(attachments)
}
