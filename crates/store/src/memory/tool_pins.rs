//! Pinned tool definitions, stored in memory.

use async_trait::async_trait;

use super::MemoryStore;
use crate::model::{
    AdminLogEntry, CategoryOverride, PinnedDefinition, ServerName, ServerTools, StoreError, ToolDefinition,
};
use crate::traits::{ToolPins, no_override_error, stale_definition_error, tools_unknown_error};

#[async_trait]
impl ToolPins for MemoryStore {
    async fn server_tools(&self, server: &ServerName) -> Result<Option<ServerTools>, StoreError> {
        Ok(self.state().tools.get(server).cloned())
    }

    async fn record_offered(
        &self,
        server: &ServerName,
        mut offered: Vec<ToolDefinition>,
        first: Vec<String>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        offered.sort_by(|one, other| one.name.cmp(&other.name));
        let mut state = self.state();
        if let Some(known) = state.tools.get_mut(server) {
            known.offered = offered;
            return Ok(());
        }
        let pin = |definition: &ToolDefinition| PinnedDefinition {
            definition: definition.clone(),
            accepted_at: entry.at,
            accepted_by: entry.by.clone(),
        };
        let accepted: Vec<PinnedDefinition> =
            offered.iter().filter(|tool| first.contains(&tool.name)).map(pin).collect();
        state.tools.insert(server.clone(), ServerTools { pinned: accepted, offered, category_overrides: Vec::new() });
        super::admin_log::write(&mut state.admin_log, &entry)
    }

    async fn accept(
        &self,
        server: &ServerName,
        tools: Vec<(String, String)>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        self.change(entry, |state, entry| {
            let Some(known) = state.tools.get_mut(server) else {
                // Nothing is listed, so the first requested definition is not.
                return tools.first().map_or(Ok(()), |(name, _)| Err(stale_definition_error(server, name)));
            };
            let mut pins = Vec::new();
            for (name, fingerprint) in &tools {
                let is_requested = |tool: &&ToolDefinition| tool.name == *name && tool.fingerprint == *fingerprint;
                let definition = known.offered.iter().find(is_requested).cloned();
                let definition = definition.ok_or_else(|| stale_definition_error(server, name))?;
                pins.push(PinnedDefinition { definition, accepted_at: entry.at, accepted_by: entry.by.clone() });
            }
            for pin in pins {
                known.pinned.retain(|old| old.definition.name != pin.definition.name);
                known.pinned.push(pin);
            }
            known.pinned.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
            Ok(())
        })
    }

    async fn set_category(
        &self,
        server: &ServerName,
        category_override: CategoryOverride,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            let known = state.tools.get_mut(server).ok_or_else(|| tools_unknown_error(server))?;
            known.category_overrides.retain(|old| old.tool != category_override.tool);
            known.category_overrides.push(category_override);
            known.category_overrides.sort_by(|one, other| one.tool.cmp(&other.tool));
            Ok(())
        })
    }

    async fn clear_category(&self, server: &ServerName, tool: &str, entry: AdminLogEntry) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            let known = state.tools.get_mut(server).ok_or_else(|| tools_unknown_error(server))?;
            let before = known.category_overrides.len();
            known.category_overrides.retain(|category_override| category_override.tool != tool);
            if known.category_overrides.len() == before { Err(no_override_error(server, tool)) } else { Ok(()) }
        })
    }
}
