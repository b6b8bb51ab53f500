//! Accepted definitions in memory.

use async_trait::async_trait;

use super::MemoryStore;
use crate::StoreError;
use crate::admin_log::AdminEntry;
use crate::tool_pins::{Known, Pin, SaidClass, ToolDefinition, ToolPins};
use crate::validated_name::ServerName;

#[async_trait]
impl ToolPins for MemoryStore {
    async fn known(&self, server: &ServerName) -> Result<Option<Known>, StoreError> {
        Ok(self.state().tools.get(server).cloned())
    }

    async fn offer(
        &self,
        server: &ServerName,
        mut offered: Vec<ToolDefinition>,
        first: Vec<String>,
        entry: AdminEntry,
    ) -> Result<(), StoreError> {
        offered.sort_by(|one, other| one.name.cmp(&other.name));
        let mut state = self.state();
        if let Some(known) = state.tools.get_mut(server) {
            known.offered = offered;
            return Ok(());
        }
        let pin = |definition: &ToolDefinition| Pin {
            definition: definition.clone(),
            accepted_at: entry.at,
            accepted_by: entry.by.clone(),
        };
        let accepted: Vec<Pin> = offered.iter().filter(|tool| first.contains(&tool.name)).map(pin).collect();
        state.tools.insert(server.clone(), Known { accepted, offered, said: Vec::new() });
        super::admin_log::write(&mut state.admin_log, &entry)
    }

    async fn accept(
        &self,
        server: &ServerName,
        tools: Vec<(String, String)>,
        entry: AdminEntry,
    ) -> Result<(), StoreError> {
        self.change(entry, |state, entry| {
            let known = state.tools.entry(server.clone()).or_default();
            let mut pins = Vec::new();
            for (name, fingerprint) in &tools {
                let is_meant = |tool: &&ToolDefinition| tool.name == *name && tool.fingerprint == *fingerprint;
                let definition = known.offered.iter().find(is_meant).cloned();
                let definition = definition.ok_or_else(|| not_offered(server, name))?;
                pins.push(Pin { definition, accepted_at: entry.at, accepted_by: entry.by.clone() });
            }
            for pin in pins {
                known.accepted.retain(|old| old.definition.name != pin.definition.name);
                known.accepted.push(pin);
            }
            known.accepted.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
            Ok(())
        })
    }

    async fn say(&self, server: &ServerName, said: SaidClass, entry: AdminEntry) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            let known = state.tools.get_mut(server).ok_or_else(|| never_asked(server))?;
            known.said.retain(|old| old.tool != said.tool);
            known.said.push(said);
            known.said.sort_by(|one, other| one.tool.cmp(&other.tool));
            Ok(())
        })
    }

    async fn unsay(&self, server: &ServerName, tool: &str, entry: AdminEntry) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            let known = state.tools.get_mut(server).ok_or_else(|| never_asked(server))?;
            let before = known.said.len();
            known.said.retain(|said| said.tool != tool);
            if known.said.len() == before { Err(nothing_said(server, tool)) } else { Ok(()) }
        })
    }
}

pub(crate) fn never_asked(server: &ServerName) -> StoreError {
    StoreError::NotFound(format!("a list of the tools of `{server}`"))
}

pub(crate) fn nothing_said(server: &ServerName, tool: &str) -> StoreError {
    StoreError::NotFound(format!("a category that somebody gave `{}` of `{server}`", tool.escape_debug()))
}

pub(crate) fn not_offered(server: &ServerName, tool: &str) -> StoreError {
    StoreError::Conflict(format!("`{server}` does not offer `{}` in that form any more", tool.escape_debug()))
}
