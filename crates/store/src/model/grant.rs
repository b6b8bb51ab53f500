//! Grants: the servers that a token gives access to. Only the hash of the token is stored.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use data_encoding::BASE32HEX_NOPAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{PolicyName, ServerName, StoreError, TokenHash};

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
