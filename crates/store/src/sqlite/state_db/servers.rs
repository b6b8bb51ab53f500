//! Servers, stored in `state.db`.

use async_trait::async_trait;
use rusqlite::{Row, params};

use super::{SqliteStateStore, from_json, parse_name, to_json};
use crate::clock::{from_unix_nanoseconds, to_unix_nanoseconds};
use crate::model::{AdminLogEntry, ServerName, StoreError, StoredServer};
use crate::traits::{Servers, no_server_error, server_exists_error};

#[async_trait]
impl Servers for SqliteStateStore {
    async fn add(&self, server: StoredServer, entry: AdminLogEntry) -> Result<(), StoreError> {
        let headers = to_json(&server.headers)?;
        let change = self.change(entry, move |db, _| {
            let added = db.execute(
                "INSERT INTO servers (name, url, headers, created_at, log_arguments, review, accept_new) \
                 VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                params![
                    server.name.as_str(),
                    server.url,
                    headers,
                    to_unix_nanoseconds(server.created_at),
                    server.log_arguments,
                    server.review,
                    server.accept_new
                ],
            )?;
            match added {
                0 => Err(server_exists_error(&server.name)),
                _ => Ok(()),
            }
        });
        change.await
    }

    async fn remove(&self, name: &ServerName, entry: AdminLogEntry) -> Result<(), StoreError> {
        let name = name.clone();
        let change = self.change(entry, move |db, _| {
            if db.execute("DELETE FROM servers WHERE name = ?", [name.as_str()])? == 0 {
                return Err(no_server_error(&name));
            }
            // A later server with the same name is a different one.
            for table in ["attachments", "tool_pins", "tool_offers", "tool_classes", "asked_servers"] {
                db.execute(&format!("DELETE FROM {table} WHERE server = ?"), [name.as_str()])?;
            }
            Ok(())
        });
        change.await
    }

    async fn list(&self) -> Result<Vec<StoredServer>, StoreError> {
        let list = self.run(|db| {
            let mut statement = db.prepare_cached(
                "SELECT name, url, headers, created_at, log_arguments, review, accept_new FROM servers ORDER BY name",
            )?;
            let mut rows = statement.query([])?;
            let mut servers = Vec::new();
            while let Some(row) = rows.next()? {
                servers.push(read_server(row)?);
            }
            Ok(servers)
        });
        list.await
    }
}

fn read_server(row: &Row<'_>) -> Result<StoredServer, StoreError> {
    Ok(StoredServer {
        name: parse_name(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?,
        url: row.get(1)?,
        headers: from_json(&row.get::<_, String>(2)?)?,
        created_at: from_unix_nanoseconds(row.get(3)?),
        log_arguments: row.get(4)?,
        review: row.get(5)?,
        accept_new: row.get(6)?,
    })
}
