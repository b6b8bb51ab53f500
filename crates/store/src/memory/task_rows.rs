//! Whose tasks are, in memory.

use async_trait::async_trait;
use jiff::Timestamp;

use super::MemoryStore;
use crate::StoreError;
use crate::grants::GrantId;
use crate::id_hash::IdHash;
use crate::task_rows::{MAX_TASKS, TaskRow, TaskRows, taken};
use crate::validated_name::ServerName;

#[async_trait]
impl TaskRows for MemoryStore {
    async fn keep(&self, task: TaskRow, now: Timestamp) -> Result<(), StoreError> {
        let mut state = self.state();
        let tasks = &mut state.tasks;
        if tasks.get(&task.id).is_some_and(|old| old.grant != task.grant && old.expires_at > now) {
            return Err(taken());
        }
        let grant = task.grant.clone();
        tasks.insert(task.id, task);
        let mut own: Vec<_> =
            tasks.values().filter(|task| task.grant == grant).map(|task| (task.expires_at, task.id)).collect();
        own.sort_unstable();
        for (_, id) in own.iter().rev().skip(MAX_TASKS) {
            tasks.remove(id);
        }
        Ok(())
    }

    async fn find(&self, id: IdHash) -> Result<Option<TaskRow>, StoreError> {
        Ok(self.state().tasks.get(&id).cloned())
    }

    async fn of_grant(&self, grant: &GrantId, server: &ServerName) -> Result<Vec<TaskRow>, StoreError> {
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
