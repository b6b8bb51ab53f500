//! Creates grants, and changes those that are in the store.

use std::collections::BTreeMap;

use gatelodge_json::escape_for_terminal;
use gatelodge_mcp::Revision;
use gatelodge_store::{
    EnforcementMode, Grant, GrantId, GrantServerAttachment, GrantToken, GrantTokenError, NewGrant, PolicyName,
    ServerName, StoreError, is_valid_grant_label,
};
use jiff::Timestamp;
use serde_json::json;

use crate::administration::Administration;
use crate::name_suggestion::suggest_name;

/// A grant that is about to be created.
#[derive(Debug)]
pub struct GrantRequest {
    /// Label of the grant.
    pub label: String,
    /// Labels that policies can refer to.
    pub labels: BTreeMap<String, String>,
    /// The servers that it gives access to.
    pub attachments: Vec<GrantServerAttachment>,
    /// When it expires; `None` if it does not.
    pub expires_at: Option<Timestamp>,
    /// Oldest protocol revision that the client may use; `None` allows any.
    pub minimum_revision: Option<Revision>,
}

/// A grant that was created. Its token is not stored, and cannot be read again.
#[derive(Debug)]
pub struct CreatedGrant {
    /// Id of the grant.
    pub id: GrantId,
    /// The token.
    pub token: GrantToken,
}

/// A grant that can be changed: it is in the store, and not revoked. Only [`Administration::find_editable_grant`] returns
/// one.
#[derive(Debug)]
pub struct EditableGrant(Grant);

/// Why a grant was not created or changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeGrantError {
    /// The label of a new grant is invalid.
    #[error(
        "a label has 1 to 128 characters, no control characters, does not begin with `file:` and contains no token"
    )]
    InvalidLabel,
    /// The configuration file defines the grant.
    #[error("grant `{}` is defined in the configuration file; change it there", escape_for_terminal(.0))]
    DefinedInFile(String),
    /// The grant was revoked.
    #[error("grant `{}` was revoked", escape_for_terminal(.label))]
    Revoked {
        /// Label of the grant.
        label: String,
        /// When it was revoked.
        at: Timestamp,
    },
    /// There is no such server.
    #[error("there is no server `{}`; {help}", escape_for_terminal(.name))]
    UnknownServer {
        /// The name that was given.
        name: String,
        /// A similar name, or all names.
        help: String,
    },
    /// There is no such policy.
    #[error("there is no policy `{}`; {help}", escape_for_terminal(.name))]
    UnknownPolicy {
        /// The name that was given.
        name: String,
        /// A similar name, or all names.
        help: String,
    },
    /// No token could be generated.
    #[error(transparent)]
    Token(#[from] GrantTokenError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EditableGrant {
    /// Returns the grant as it was when it was read.
    pub fn grant(&self) -> &Grant {
        &self.0
    }
}

/// Checks the label of a new grant.
pub fn check_grant_label(label: &str) -> Result<(), ChangeGrantError> {
    if is_valid_grant_label(label) { Ok(()) } else { Err(ChangeGrantError::InvalidLabel) }
}

impl Administration {
    /// Creates a grant with a new token.
    pub async fn create_grant(&self, request: GrantRequest) -> Result<CreatedGrant, ChangeGrantError> {
        self.check_new_grant(&request.label)?;
        let GrantRequest { label, labels, attachments, expires_at, minimum_revision } = request;
        let minimum_revision = minimum_revision.map(|revision| revision.to_string());
        let token = GrantToken::random()?;
        let detail = json!({"attachments": attachments, "expires_at": expires_at, "labels": labels,
            "minimum_revision": minimum_revision});
        let entry = self.log_entry("grant.create", &label, detail);
        let (created_at, hash) = (self.clock.now(), token.hash());
        let new = NewGrant { label, labels, token: hash, attachments, created_at, expires_at, minimum_revision };
        let id = self.stores.grants.create(new, entry).await?;
        Ok(CreatedGrant { id, token })
    }

    /// Checks that a grant can be created with this label. The store refuses the label of another stored grant.
    pub fn check_new_grant(&self, label: &str) -> Result<(), ChangeGrantError> {
        check_grant_label(label)?;
        if self.file_entries.has_grant_label(label) {
            return Err(ChangeGrantError::DefinedInFile(label.to_owned()));
        }
        Ok(())
    }

    /// Finds a grant by its id or label. Returns an error if it is defined in the configuration file or was revoked.
    pub async fn find_editable_grant(&self, name: &str) -> Result<EditableGrant, ChangeGrantError> {
        if self.file_entries.has_grant(name) {
            return Err(ChangeGrantError::DefinedInFile(name.to_owned()));
        }
        match self.stores.grants.get(name).await {
            Ok(grant) => Ok(EditableGrant(grant)),
            Err(StoreError::NotFound(what)) => {
                let revoked = self.stores.grants.list().await?.into_iter().filter(|grant| grant.label == name);
                Err(match revoked.filter_map(|grant| grant.revoked_at).max() {
                    Some(at) => ChangeGrantError::Revoked { label: name.to_owned(), at },
                    None => StoreError::NotFound(what).into(),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a grant a new token. The old one is refused from now on.
    pub async fn rotate_grant(
        &self,
        EditableGrant(grant): &EditableGrant,
        expires_at: Option<Timestamp>,
    ) -> Result<GrantToken, ChangeGrantError> {
        let token = GrantToken::random()?;
        let entry = self.log_entry("grant.rotate", &grant.label, json!({"id": grant.id, "expires_at": expires_at}));
        self.stores.grants.rotate(&grant.id, token.hash(), expires_at, entry).await?;
        Ok(token)
    }

    /// Revokes a grant. Its token is refused from now on.
    pub async fn revoke_grant(&self, EditableGrant(grant): &EditableGrant) -> Result<(), ChangeGrantError> {
        let entry = self.log_entry("grant.revoke", &grant.label, json!({"id": grant.id}));
        Ok(self.stores.grants.revoke(&grant.id, self.clock.now(), entry).await?)
    }

    /// Attaches a server to a grant.
    pub async fn attach_server(
        &self,
        EditableGrant(grant): &EditableGrant,
        attachment: &GrantServerAttachment,
    ) -> Result<(), ChangeGrantError> {
        let entry = self.log_entry("grant.attach", &grant.label, json!(attachment));
        Ok(self.stores.grants.attach(&grant.id, attachment.clone(), entry).await?)
    }

    /// Detaches a server from a grant.
    pub async fn detach_server(
        &self,
        EditableGrant(grant): &EditableGrant,
        server: &ServerName,
    ) -> Result<(), ChangeGrantError> {
        let entry = self.log_entry("grant.detach", &grant.label, json!({"server": server}));
        Ok(self.stores.grants.detach(&grant.id, server, entry).await?)
    }

    /// Returns an attachment for a server and a policy that exist, in the configuration file or in the store.
    pub async fn new_attachment(
        &self,
        server: &str,
        policy: Option<&str>,
        mode: EnforcementMode,
    ) -> Result<GrantServerAttachment, ChangeGrantError> {
        let server = self.existing_server(server).await?;
        let policy = match policy {
            Some(policy) => Some(self.existing_policy(policy).await?),
            None => None,
        };
        Ok(GrantServerAttachment { server, policy, mode })
    }

    async fn existing_server(&self, name: &str) -> Result<ServerName, ChangeGrantError> {
        let stored = self.stores.servers.list().await?;
        let known: Vec<&ServerName> =
            self.file_entries.servers.iter().chain(stored.iter().map(|server| &server.name)).collect();
        known.iter().find(|server| server.as_str() == name).map(|server| (*server).clone()).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|server| server.as_str()).collect();
            ChangeGrantError::UnknownServer { name: name.to_owned(), help: suggest_name(name, &names) }
        })
    }

    async fn existing_policy(&self, name: &str) -> Result<PolicyName, ChangeGrantError> {
        let stored = self.stores.policies.list().await?;
        let known: Vec<&PolicyName> =
            self.file_entries.policies.iter().chain(stored.iter().map(|policy| &policy.name)).collect();
        known.iter().find(|policy| policy.as_str() == name).map(|policy| (*policy).clone()).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|policy| policy.as_str()).collect();
            ChangeGrantError::UnknownPolicy { name: name.to_owned(), help: suggest_name(name, &names) }
        })
    }
}
