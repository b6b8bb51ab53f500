//! Servers, stored in memory.

use async_trait::async_trait;

use super::MemoryStore;
use crate::model::{AdminLogEntry, ServerName, StoreError, StoredServer};
use crate::traits::{Servers, no_server_error, server_exists_error};

#[async_trait]
impl Servers for MemoryStore {
    async fn add(&self, server: StoredServer, entry: AdminLogEntry) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            if state.servers.contains_key(&server.name) {
                return Err(server_exists_error(&server.name));
            }
            state.servers.insert(server.name.clone(), server);
            Ok(())
        })
    }

    async fn remove(&self, name: &ServerName, entry: AdminLogEntry) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            if state.servers.remove(name).is_none() {
                return Err(no_server_error(name));
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
