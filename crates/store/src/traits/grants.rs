//! Grants: the servers that a token gives access to. Only the hash of the token is stored.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use data_encoding::BASE32HEX_NOPAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::model::{PolicyName, ServerName, TokenHash};
use crate::traits::AdminLogEntry;

/// Id of a grant. When the token is rotated, the grant keeps its id and its counters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub Arc<str>);

impl GrantId {
    /// Creates a unique id from 80 random bits.
    pub(crate) fn random() -> Result<Self, StoreError> {
        let mut random = [0; 10];
        getrandom::fill(&mut random).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self(format!("g{}", BASE32HEX_NOPAD.encode(&random).to_ascii_lowercase()).into()))
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a grant's policy for a server is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnforcementMode {
    /// Calls that the policy refuses are not sent.
    Enforce,
    /// Calls that the policy refuses are recorded, but sent anyway.
    Observe,
}

/// A server that a grant gives access to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantServerAttachment {
    /// The server.
    pub server: ServerName,
    /// The policy. Without one, every call is refused.
    pub policy: Option<PolicyName>,
    /// Whether the policy is enforced.
    pub mode: EnforcementMode,
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Id of the grant.
    pub id: GrantId,
    /// Human-readable name, unique among grants that are not revoked.
    pub label: String,
    /// Labels that policies can refer to.
    pub labels: BTreeMap<String, String>,
    /// Hash of the token.
    pub token: TokenHash,
    /// The servers that the grant gives access to, ordered by name.
    pub attachments: Vec<GrantServerAttachment>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time at which the grant expires, if it does.
    pub expires_at: Option<Timestamp>,
    /// The oldest protocol revision that the client may use, as written on the wire; `None` allows any.
    pub minimum_revision: Option<String>,
    /// Time at which the grant was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// A grant to be created.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// Human-readable name.
    pub label: String,
    /// Labels that policies can refer to.
    pub labels: BTreeMap<String, String>,
    /// Hash of the token.
    pub token: TokenHash,
    /// The servers that the grant gives access to.
    pub attachments: Vec<GrantServerAttachment>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time at which the grant expires, if it does.
    pub expires_at: Option<Timestamp>,
    /// The oldest protocol revision that the client may use, as written on the wire; `None` allows any.
    pub minimum_revision: Option<String>,
}

/// Stores grants. Each change is written together with its admin log entry in one atomic step.
#[async_trait]
pub trait Grants: Send + Sync {
    /// Creates a grant with a new id. Returns `Conflict` if a grant that is not revoked already has the label, or any
    /// grant has the token. The store adds the id to the entry's details as `id`.
    async fn create(&self, grant: NewGrant, entry: AdminLogEntry) -> Result<GrantId, StoreError>;
    /// Returns all grants, including expired and revoked ones, ordered by label and then by age.
    async fn list(&self) -> Result<Vec<Grant>, StoreError>;
    /// Finds a grant by its id or label. Revoked grants are found only by id. Returns `NotFound` if there is no such
    /// grant.
    async fn get(&self, id_or_label: &str) -> Result<Grant, StoreError>;
    /// Replaces a grant's token and sets its expiry; the old token becomes invalid immediately. Returns `NotFound` if
    /// there is no such grant, `Conflict` if it is revoked.
    async fn rotate(
        &self,
        id: &GrantId,
        token: TokenHash,
        expires_at: Option<Timestamp>,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError>;
    /// Revokes a grant. Returns `Conflict` if it is already revoked, so that no entry is written when nothing changes.
    async fn revoke(&self, id: &GrantId, at: Timestamp, entry: AdminLogEntry) -> Result<(), StoreError>;
    /// Adds an attachment to a grant, replacing any existing one for the same server.
    async fn attach(
        &self,
        id: &GrantId,
        attachment: GrantServerAttachment,
        entry: AdminLogEntry,
    ) -> Result<(), StoreError>;
    /// Removes a server's attachment from a grant. Returns `NotFound` if it does not exist.
    async fn detach(&self, id: &GrantId, server: &ServerName, entry: AdminLogEntry) -> Result<(), StoreError>;
}
