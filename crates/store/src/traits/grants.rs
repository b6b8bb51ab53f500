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

/// Returns the error for a label that another grant has.
pub(crate) fn label_taken_error(label: &str) -> StoreError {
    StoreError::Conflict(format!("there is already a grant `{label}`"))
}

/// Returns the error for a token that another grant has.
pub(crate) fn token_taken_error() -> StoreError {
    StoreError::Conflict("another grant has this token".to_owned())
}

/// Returns the error for a grant that does not exist.
pub(crate) fn no_grant_error(id_or_label: &str) -> StoreError {
    StoreError::NotFound(format!("grant `{id_or_label}`"))
}

/// Returns the error for rotating the token of a revoked grant.
pub(crate) fn revoked_error(id: &GrantId) -> StoreError {
    StoreError::Conflict(format!("grant `{id}` is revoked"))
}

/// Returns the error for revoking a revoked grant.
pub(crate) fn already_revoked_error(id: &GrantId) -> StoreError {
    StoreError::Conflict(format!("grant `{id}` is already revoked"))
}

/// Returns the error for a server that is not attached to a grant.
pub(crate) fn no_attachment_error(id: &GrantId, server: &ServerName) -> StoreError {
    StoreError::NotFound(format!("server `{server}` in grant `{id}`"))
}
