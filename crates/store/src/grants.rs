//! Grants: the servers that a token gives access to. Only the hash of the token is stored.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use data_encoding::BASE32HEX_NOPAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::admin_log::AdminEntry;
use crate::token::TokenHash;
use crate::validated_name::{PolicyName, ServerName};

/// Id of a grant. It survives the rotation of the token, so counters do too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub Arc<str>);

impl GrantId {
    /// Makes a unique id from 80 random bits.
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

/// Whether the policy of an attachment is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnforcementMode {
    /// Calls that the policy refuses are refused.
    Enforce,
    /// Calls that the policy refuses are recorded and sent all the same.
    Observe,
}

/// A server that a grant gives access to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantAttachment {
    /// The server.
    pub server: ServerName,
    /// The policy; without one, every call is refused.
    pub policy: Option<PolicyName>,
    /// Whether the policy is enforced.
    pub mode: EnforcementMode,
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Id of the grant.
    pub id: GrantId,
    /// Name of the grant for people; unique among grants that are not revoked.
    pub label: String,
    /// Labels that policies can refer to.
    pub labels: BTreeMap<String, String>,
    /// Hash of the token.
    pub token: TokenHash,
    /// The servers it gives access to, by name.
    pub attachments: Vec<GrantAttachment>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time at which it expires.
    pub expires_at: Option<Timestamp>,
    /// The oldest protocol revision that the client may use, as on the wire; `None` for any.
    pub minimum_revision: Option<String>,
    /// Time at which it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A grant to create.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// Name of the grant for people.
    pub label: String,
    /// Labels that policies can refer to.
    pub labels: BTreeMap<String, String>,
    /// Hash of the token.
    pub token: TokenHash,
    /// The servers it gives access to.
    pub attachments: Vec<GrantAttachment>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time at which it expires.
    pub expires_at: Option<Timestamp>,
    /// The oldest protocol revision that the client may use, as on the wire; `None` for any.
    pub minimum_revision: Option<String>,
}

/// Stores grants. Each change and its entry in the admin log are one atomic step.
#[async_trait]
pub trait Grants: Send + Sync {
    /// Creates a grant with a new id. `Conflict` if a grant that is not revoked has the label, or any grant has the token.
    /// The store adds the id to the detail of the entry, as `id`.
    async fn create(&self, grant: NewGrant, entry: AdminEntry) -> Result<GrantId, StoreError>;
    /// All grants, including expired and revoked ones, ordered by label and then by age.
    async fn list(&self) -> Result<Vec<Grant>, StoreError>;
    /// Finds a grant by its id, or one that is not revoked by its label. `NotFound` if it does not exist.
    async fn get(&self, id_or_label: &str) -> Result<Grant, StoreError>;
    /// Replaces the token of a grant and sets its expiry; the old token becomes invalid at once.
    /// `NotFound` if there is no such grant, `Conflict` if it is revoked.
    async fn rotate(
        &self,
        id: &GrantId,
        token: TokenHash,
        expires_at: Option<Timestamp>,
        entry: AdminEntry,
    ) -> Result<(), StoreError>;
    /// Revokes a grant. `Conflict` if it is already revoked, so that no entry is written without a change.
    async fn revoke(&self, id: &GrantId, at: Timestamp, entry: AdminEntry) -> Result<(), StoreError>;
    /// Adds an attachment to a grant, replacing the one for the same server.
    async fn attach(&self, id: &GrantId, attachment: GrantAttachment, entry: AdminEntry) -> Result<(), StoreError>;
    /// Removes the attachment of a server. `NotFound` if it does not exist.
    async fn detach(&self, id: &GrantId, server: &ServerName, entry: AdminEntry) -> Result<(), StoreError>;
}
