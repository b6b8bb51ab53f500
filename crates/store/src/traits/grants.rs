//! The grants of a store.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::model::{AdminLogEntry, Grant, GrantId, GrantServerAttachment, NewGrant, ServerName, StoreError, TokenHash};

/// Stores grants, which are never removed: a revoked grant is kept. Each change is written together with its admin log
/// entry in one atomic step.
#[async_trait]
pub trait Grants: Send + Sync {
    /// Creates a grant with a new id. Returns `Conflict` if a grant that is not revoked already has the label, or any
    /// grant has the token. The store adds the id to the entry's details as `id`.
    async fn create(&self, grant: NewGrant, entry: AdminLogEntry) -> Result<GrantId, StoreError>;
    /// Returns all grants, including expired and revoked ones, ordered by label and then by age.
    async fn list(&self) -> Result<Vec<Grant>, StoreError>;
    /// Finds a grant by its id or label; an id takes precedence. Revoked grants are found only by id. Returns
    /// `NotFound` if there is no such grant.
    async fn get(&self, id_or_label: &str) -> Result<Grant, StoreError>;
    /// Replaces a grant's token and sets its expiry; the old token becomes invalid immediately. Returns `NotFound` if
    /// there is no such grant, `Conflict` if it is revoked or another grant has the token.
    async fn rotate(
        &self,
        id: &GrantId,
        token: TokenHash,
        expires_at: Option<Timestamp>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError>;
    /// Revokes a grant. Returns `NotFound` if there is no such grant, `Conflict` if it is already revoked, so that no
    /// entry is written when nothing changes.
    async fn revoke(&self, id: &GrantId, at: Timestamp, entry: AdminLogEntry) -> Result<(), StoreError>;
    /// Adds an attachment to a grant, replacing any existing one for the same server. Returns `NotFound` if there is no
    /// such grant.
    async fn attach(
        &self,
        id: &GrantId,
        attachment: GrantServerAttachment,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError>;
    /// Removes a server's attachment from a grant. Returns `NotFound` if there is no such grant or it has no such
    /// attachment.
    async fn detach(&self, id: &GrantId, server: &ServerName, entry: AdminLogEntry) -> Result<(), StoreError>;
}
