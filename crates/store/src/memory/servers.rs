//! Servers, stored in memory.

use async_trait::async_trait;

use super::MemoryStore;
use crate::model::{AdminLogEntry, ServerName, StoreError, StoredServer};
use crate::traits::Servers;

#[async_trait]
impl Servers for MemoryStore {
    async fn add(&self, server: StoredServer, entry: AdminLogEntry) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            if state.servers.contains_key(&server.name) {
                return Err(StoreError::Conflict(format!("there is already a server `{}`", server.name)));
            }
            state.servers.insert(server.name.clone(), server);
            Ok(())
        })
    }

    async fn remove(&self, name: &ServerName, entry: AdminLogEntry) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            if state.servers.remove(name).is_none() {
                return Err(StoreError::NotFound(format!("server `{name}`")));
            }
            // A later server with the same name is a different one.
            state.tools.remove(name);
            for grant in &mut state.grants {
                grant.attachments.retain(|attachment| attachment.server != *name);
            }
            Ok(())
        })
    }

    async fn list(&self) -> Result<Vec<StoredServer>, StoreError> {
        Ok(self.state().servers.values().cloned().collect())
    }
}
