//! Grants, stored in memory.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{MemoryState, MemoryStore};
use crate::model::{AdminLogEntry, Grant, GrantId, GrantServerAttachment, NewGrant, ServerName, StoreError, TokenHash};
use crate::traits::{
    Grants, already_revoked_error, label_taken_error, no_attachment_error, no_grant_error, revoked_error,
    token_taken_error,
};

#[async_trait]
impl Grants for MemoryStore {
    async fn create(&self, new: NewGrant, entry: AdminLogEntry) -> Result<GrantId, StoreError> {
        let id = GrantId::random()?;
        self.change(entry, |state, entry| {
            if state.grants.iter().any(|grant| grant.revoked_at.is_none() && grant.label == new.label) {
                return Err(label_taken_error(&new.label));
            }
            if state.grants.iter().any(|grant| grant.token == new.token) {
                return Err(token_taken_error());
            }
            entry.add_detail("id", &id)?;
            state.grants.push(build_grant(id.clone(), new));
            Ok(id)
        })
    }

    async fn list(&self) -> Result<Vec<Grant>, StoreError> {
        let mut grants = self.state().grants.clone();
        grants.sort_by(|a, b| (&a.label, a.created_at).cmp(&(&b.label, b.created_at)));
        Ok(grants)
    }

    async fn get(&self, id_or_label: &str) -> Result<Grant, StoreError> {
        let state = self.state();
        let by_id = state.grants.iter().find(|grant| &*grant.id.0 == id_or_label);
        let by_label = || state.grants.iter().find(|grant| grant.revoked_at.is_none() && grant.label == id_or_label);
        by_id.or_else(by_label).cloned().ok_or_else(|| no_grant_error(id_or_label))
    }

    async fn rotate(
        &self,
        id: &GrantId,
        token: TokenHash,
        expires_at: Option<Timestamp>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            let is_taken = state.grants.iter().any(|grant| grant.id != *id && grant.token == token);
            let grant = grant_mut(state, id)?;
            if grant.revoked_at.is_some() {
                return Err(revoked_error(id));
            }
            if is_taken {
                return Err(token_taken_error());
            }
            grant.token = token;
            grant.expires_at = expires_at;
            Ok(())
        })
    }

    async fn revoke(&self, id: &GrantId, at: Timestamp, entry: AdminLogEntry) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            let grant = grant_mut(state, id)?;
            if grant.revoked_at.is_some() {
                return Err(already_revoked_error(id));
            }
            grant.revoked_at = Some(at);
            Ok(())
        })
    }

    async fn attach(
        &self,
        id: &GrantId,
        attachment: GrantServerAttachment,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            attach(grant_mut(state, id)?, attachment);
            Ok(())
        })
    }

    async fn detach(&self, id: &GrantId, server: &ServerName, entry: AdminLogEntry) -> Result<(), StoreError> {
        self.change(entry, |state, _| {
            let attachments = &mut grant_mut(state, id)?.attachments;
            let before = attachments.len();
            attachments.retain(|attachment| attachment.server != *server);
            if attachments.len() == before {
                return Err(no_attachment_error(id, server));
            }
            Ok(())
        })
    }
}

fn build_grant(id: GrantId, new: NewGrant) -> Grant {
    let mut grant = Grant {
        id,
        label: new.label,
        labels: new.labels,
        token: new.token,
        attachments: Vec::new(),
        created_at: new.created_at,
        expires_at: new.expires_at,
        minimum_revision: new.minimum_revision,
        revoked_at: None,
    };
    for attachment in new.attachments {
        attach(&mut grant, attachment);
    }
    grant
}

fn grant_mut<'a>(state: &'a mut MemoryState, id: &GrantId) -> Result<&'a mut Grant, StoreError> {
    let found = state.grants.iter_mut().find(|grant| grant.id == *id);
    found.ok_or_else(|| no_grant_error(&id.0))
}

fn attach(grant: &mut Grant, attachment: GrantServerAttachment) {
    grant.attachments.retain(|own| own.server != attachment.server);
    grant.attachments.push(attachment);
    grant.attachments.sort_by(|a, b| a.server.cmp(&b.server));
}
