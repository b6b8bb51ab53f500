//! Task ownership, stored in memory.

use async_trait::async_trait;
use jiff::Timestamp;

use super::MemoryStore;
use crate::model::{GrantId, IdDigest, MAX_TASKS_PER_GRANT, ServerName, StoreError, TaskOwner};
use crate::traits::{TaskOwners, other_owner_error};

#[async_trait]
impl TaskOwners for MemoryStore {
    async fn put(&self, task: TaskOwner, now: Timestamp) -> Result<(), StoreError> {
        let mut state = self.state();
        let tasks = &mut state.tasks;
        if tasks.get(&task.id).is_some_and(|old| old.grant != task.grant && old.expires_at > now) {
            return Err(other_owner_error());
        }
        let grant = task.grant.clone();
        tasks.insert(task.id, task);
        let mut own: Vec<_> =
            tasks.values().filter(|task| task.grant == grant).map(|task| (task.expires_at, task.id)).collect();
        own.sort_unstable();
        for (_, id) in own.iter().rev().skip(MAX_TASKS_PER_GRANT) {
            tasks.remove(id);
        }
        Ok(())
    }

    async fn find(&self, id: IdDigest) -> Result<Option<TaskOwner>, StoreError> {
        Ok(self.state().tasks.get(&id).cloned())
    }

    async fn list_for_grant(&self, grant: &GrantId, server: &ServerName) -> Result<Vec<TaskOwner>, StoreError> {
        let state = self.state();
        let own = state.tasks.values().filter(|task| task.grant == *grant && task.server == *server);
        Ok(own.cloned().collect())
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        let mut state = self.state();
        let all = state.tasks.len();
        state.tasks.retain(|_, task| task.expires_at >= before);
        Ok(all - state.tasks.len())
    }
}
