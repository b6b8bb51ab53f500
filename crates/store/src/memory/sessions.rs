//! Sessions, stored in memory.

use async_trait::async_trait;
use jiff::Timestamp;

use super::MemoryStore;
use crate::model::{IdDigest, SessionRow, StoreError};
use crate::traits::Sessions;

#[async_trait]
impl Sessions for MemoryStore {
    async fn put(&self, session: SessionRow) -> Result<(), StoreError> {
        self.state().sessions.insert(session.id, session);
        Ok(())
    }

    async fn find(&self, id: IdDigest) -> Result<Option<SessionRow>, StoreError> {
        Ok(self.state().sessions.get(&id).cloned())
    }

    async fn set_subscriptions(&self, id: IdDigest, uris: Vec<String>) -> Result<(), StoreError> {
        if let Some(session) = self.state().sessions.get_mut(&id) {
            session.subscribed_uris = uris;
        }
        Ok(())
    }

    async fn set_log_level(&self, id: IdDigest, level: String) -> Result<(), StoreError> {
        if let Some(session) = self.state().sessions.get_mut(&id) {
            session.log_level = Some(level);
        }
        Ok(())
    }

    async fn touch(&self, ids: Vec<IdDigest>, at: Timestamp) -> Result<(), StoreError> {
        let mut state = self.state();
        for id in ids {
            if let Some(session) = state.sessions.get_mut(&id) {
                session.last_used_at = session.last_used_at.max(at);
            }
        }
        Ok(())
    }

    async fn delete(&self, ids: Vec<IdDigest>) -> Result<(), StoreError> {
        let mut state = self.state();
        for id in ids {
            state.sessions.remove(&id);
        }
        Ok(())
    }

    async fn sweep(&self, before: Timestamp) -> Result<usize, StoreError> {
        let mut state = self.state();
        let all = state.sessions.len();
        state.sessions.retain(|_, session| session.last_used_at >= before);
        Ok(all - state.sessions.len())
    }
}
