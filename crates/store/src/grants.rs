//! Grants: what a token lets its bearer reach. The token itself is never kept, only its hash.

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

/// A grant's id. It stays when the token is rotated, so that counters do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub Arc<str>);

impl GrantId {
    /// Makes an id that no other grant has: 80 random bits.
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

/// Whether the policy of an attachment refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnforcementMode {
    /// What the policy refuses is refused.
    Enforce,
    /// What the policy refuses is recorded and sent all the same.
    Observe,
}

/// What a grant has for one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantAttachment {
    /// The server it may reach.
    pub server: ServerName,
    /// By which policy; without one every call is refused.
    pub policy: Option<PolicyName>,
    /// Whether the policy refuses.
    pub mode: EnforcementMode,
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// What people call it. No two grants that are not revoked have the same.
    pub label: String,
    /// Facts that policies may look at.
    pub labels: BTreeMap<String, String>,
    /// The hash of its token.
    pub token: TokenHash,
    /// What it may reach, by server.
    pub attachments: Vec<GrantAttachment>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// The oldest revision of the protocol that its bearer may speak, as it is written on the wire; none for any.
    pub minimum_revision: Option<String>,
    /// When somebody ended it.
    pub revoked_at: Option<Timestamp>,
}

/// A grant to be made.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// What people call it.
    pub label: String,
    /// Facts that policies may look at.
    pub labels: BTreeMap<String, String>,
    /// The hash of its token.
    pub token: TokenHash,
    /// What it may reach.
    pub attachments: Vec<GrantAttachment>,
    /// When it is made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// The oldest revision of the protocol that its bearer may speak, as it is written on the wire; none for any.
    pub minimum_revision: Option<String>,
}

/// Keeps grants. Each change and its entry in the admin log are one step: both are kept, or neither.
#[async_trait]
pub trait Grants: Send + Sync {
    /// Makes a grant under a new id. `Conflict` if one that is not revoked has the label, or any has the token.
    /// The entry's detail gets the id as `id`.
    async fn create(&self, grant: NewGrant, entry: AdminEntry) -> Result<GrantId, StoreError>;
    /// All grants, also ended ones, by label and then by age.
    async fn list(&self) -> Result<Vec<Grant>, StoreError>;
    /// Finds a grant by its id, or one that is not revoked by its label. `NotFound` if there is none.
    async fn get(&self, id_or_label: &str) -> Result<Grant, StoreError>;
    /// Gives the grant another token; the old one ends at once. Its expiry is set anew.
    /// `NotFound` for a grant that is not there, `Conflict` for one that is revoked.
    async fn rotate(
        &self,
        id: &GrantId,
        token: TokenHash,
        expires_at: Option<Timestamp>,
        entry: AdminEntry,
    ) -> Result<(), StoreError>;
    /// Ends the grant. `Conflict` if it has ended already: what changes nothing leaves no entry.
    async fn revoke(&self, id: &GrantId, at: Timestamp, entry: AdminEntry) -> Result<(), StoreError>;
    /// Says what the grant has for a server, in place of what it had.
    async fn attach(&self, id: &GrantId, attachment: GrantAttachment, entry: AdminEntry) -> Result<(), StoreError>;
    /// Takes a server from the grant. `NotFound` if it had none.
    async fn detach(&self, id: &GrantId, server: &ServerName, entry: AdminEntry) -> Result<(), StoreError>;
}
