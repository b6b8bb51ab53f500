//! Servers that were added on the command line or in the console.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ServerName;

/// An upstream server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredServer {
    /// Name of the server, which is the last part of its URL at the gateway.
    pub name: ServerName,
    /// URL at which the server listens.
    pub url: String,
    /// Headers sent with each request, as written: `${NAME}` refers to an environment variable, so that no secret is
    /// stored.
    pub headers: BTreeMap<String, String>,
    /// Whether the call log keeps the redacted arguments of calls to this server.
    pub log_arguments: bool,
    /// Whether the server's tool definitions are pinned only after a review.
    pub review: bool,
    /// Whether new tools are pinned automatically.
    pub accept_new: bool,
    /// Time at which the server was added.
    pub created_at: Timestamp,
}
