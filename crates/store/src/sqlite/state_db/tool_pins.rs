//! Pinned tool definitions, stored in `state.db`.

use async_trait::async_trait;
use gatelodge_policy::Category;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStateStore;
use crate::clock::{from_unix_nanoseconds, to_unix_nanoseconds};
use crate::model::{
    AdminLogEntry, CategoryOverride, PinnedDefinition, ServerName, ServerTools, StoreError, ToolDefinition,
};
use crate::traits::{ToolPins, no_override_error, stale_definition_error, tools_unknown_error};

#[async_trait]
impl ToolPins for SqliteStateStore {
    async fn server_tools(&self, server: &ServerName) -> Result<Option<ServerTools>, StoreError> {
        let server = server.clone();
        let known = self.run(move |db| {
            if !is_asked(db, &server)? {
                return Ok(None);
            }
            let (accepted, offered, category_override) =
                (pins(db, &server)?, offers(db, &server)?, category_override(db, &server)?);
            Ok(Some(ServerTools { pinned: accepted, offered, category_overrides: category_override }))
        });
        known.await
    }

    async fn record_offered(
        &self,
        server: &ServerName,
        offered: Vec<ToolDefinition>,
        first: Vec<String>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        let server = server.clone();
        let write = self.write(move |db| {
            let asked = "INSERT INTO asked_servers (server) VALUES (?) ON CONFLICT DO NOTHING";
            let is_first = db.execute(asked, [server.as_str()])? > 0;
            db.execute("DELETE FROM tool_offers WHERE server = ?", [server.as_str()])?;
            let mut insert = db.prepare_cached(
                "INSERT INTO tool_offers (server, tool, fingerprint, definition) VALUES (?, ?, ?, ?)",
            )?;
            for tool in &offered {
                insert.execute(params![server.as_str(), tool.name, tool.fingerprint, tool.text])?;
            }
            if is_first {
                for tool in offered.iter().filter(|tool| first.contains(&tool.name)) {
                    pin(db, &server, tool, &entry)?;
                }
                super::admin_log::write(db, &entry)?;
            }
            Ok(())
        });
        write.await
    }

    async fn accept(
        &self,
        server: &ServerName,
        tools: Vec<(String, String)>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        let server = server.clone();
        let change = self.change(entry, move |db, entry| {
            for (tool, fingerprint) in &tools {
                let text = "SELECT definition FROM tool_offers WHERE server = ? AND tool = ? AND fingerprint = ?";
                let text: Option<String> = db
                    .prepare_cached(text)?
                    .query_row(params![server.as_str(), tool, fingerprint], |row| row.get(0))
                    .optional()?;
                let text = text.ok_or_else(|| stale_definition_error(&server, tool))?;
                let tool = ToolDefinition { name: tool.clone(), fingerprint: fingerprint.clone(), text };
                pin(db, &server, &tool, entry)?;
            }
            Ok(())
        });
        change.await
    }

    async fn set_category(
        &self,
        server: &ServerName,
        category_override: CategoryOverride,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        let server = server.clone();
        let change = self.change(entry, move |db, _| {
            if !is_asked(db, &server)? {
                return Err(tools_unknown_error(&server));
            }
            let mut insert = db.prepare_cached(
                "INSERT OR REPLACE INTO tool_classes (server, tool, category, why, said_by, said_at, fingerprint) \
                 VALUES (?, ?, ?, ?, ?, ?, ?)",
            )?;
            let CategoryOverride { tool, category, reason: why, fingerprint, set_at: said_at, set_by: said_by } =
                category_override;
            let at = to_unix_nanoseconds(said_at);
            insert.execute(params![server.as_str(), tool, category.as_str(), why, said_by, at, fingerprint])?;
            Ok(())
        });
        change.await
    }

    async fn clear_category(&self, server: &ServerName, tool: &str, entry: AdminLogEntry) -> Result<(), StoreError> {
        let (server, tool) = (server.clone(), tool.to_owned());
        let change = self.change(entry, move |db, _| {
            let gone = "DELETE FROM tool_classes WHERE server = ? AND tool = ?";
            match db.execute(gone, params![server.as_str(), tool])? {
                0 => Err(no_override_error(&server, &tool)),
                _ => Ok(()),
            }
        });
        change.await
    }
}

fn is_asked(db: &Connection, server: &ServerName) -> Result<bool, StoreError> {
    Ok(db.prepare_cached("SELECT 1 FROM asked_servers WHERE server = ?")?.exists([server.as_str()])?)
}

fn category_override(db: &Connection, server: &ServerName) -> Result<Vec<CategoryOverride>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT tool, category, why, fingerprint, said_at, said_by FROM tool_classes WHERE server = ? ORDER BY tool",
    )?;
    let rows = statement.query_map([server.as_str()], |row| {
        Ok(CategoryOverride {
            tool: row.get(0)?,
            // A category that this build does not know counts as the riskiest one.
            category: Category::from_word(&row.get::<_, String>(1)?).unwrap_or(Category::Unknown),
            reason: row.get(2)?,
            fingerprint: row.get(3)?,
            set_at: from_unix_nanoseconds(row.get(4)?),
            set_by: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn pin(db: &Connection, server: &ServerName, tool: &ToolDefinition, entry: &AdminLogEntry) -> Result<(), StoreError> {
    let mut insert = db.prepare_cached(
        "INSERT OR REPLACE INTO tool_pins (server, tool, fingerprint, definition, accepted_at, accepted_by) \
         VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    let at = to_unix_nanoseconds(entry.at);
    insert.execute(params![server.as_str(), tool.name, tool.fingerprint, tool.text, at, entry.by])?;
    Ok(())
}

fn pins(db: &Connection, server: &ServerName) -> Result<Vec<PinnedDefinition>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT tool, fingerprint, definition, accepted_at, accepted_by FROM tool_pins WHERE server = ? ORDER BY tool",
    )?;
    let rows = statement.query_map([server.as_str()], |row| {
        let definition = ToolDefinition { name: row.get(0)?, fingerprint: row.get(1)?, text: row.get(2)? };
        Ok(PinnedDefinition { definition, accepted_at: from_unix_nanoseconds(row.get(3)?), accepted_by: row.get(4)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn offers(db: &Connection, server: &ServerName) -> Result<Vec<ToolDefinition>, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT tool, fingerprint, definition FROM tool_offers WHERE server = ? ORDER BY tool")?;
    let rows = statement.query_map([server.as_str()], |row| {
        Ok(ToolDefinition { name: row.get(0)?, fingerprint: row.get(1)?, text: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
