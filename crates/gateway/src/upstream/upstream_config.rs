//! Configuration of a server: its transport, and which of its tool definitions are pinned without a review.

use std::time::Duration;

use gatelodge_store::ServerName;
use http::Uri;
use http::uri::Scheme;

use super::{SecretRedactor, UpstreamProcessConfig};
use crate::settings::InjectedHeader;

/// Configuration of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Name of the server, which is the last segment of its URL at the gateway.
    pub name: ServerName,
    /// Transport and address.
    pub transport: UpstreamTransport,
    /// Whether the call log keeps argument values.
    pub log_arguments: bool,
    /// Which tool definitions are pinned automatically.
    pub pinning: PinningSettings,
}

/// Which tool definitions are pinned without an operator's review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinningSettings {
    /// Require a review of every definition, including those in the first listing.
    pub review: bool,
    /// Pin new tools automatically.
    pub accept_new: bool,
    /// Maximum age of the tool listing when a tool is called, because not every server sends `list_changed`. If zero,
    /// the tools are listed before each call.
    pub check_definitions: Duration,
}

impl Default for PinningSettings {
    fn default() -> Self {
        Self { review: false, accept_new: false, check_definitions: Duration::from_secs(60) }
    }
}

impl UpstreamConfig {
    /// Returns whether the server is reached over TLS.
    pub(super) fn uses_tls(&self) -> bool {
        matches!(&self.transport, UpstreamTransport::Http(config) if config.url.scheme() == Some(&Scheme::HTTPS))
    }

    /// Returns a redactor for all secrets sent to the server.
    pub fn secret_redactor(&self) -> SecretRedactor {
        match &self.transport {
            UpstreamTransport::Process(process) => SecretRedactor::new(&process.secrets),
            UpstreamTransport::Http(http) => {
                // URL queries may hold keys too. Only secret-looking parameters: other values occur in normal
                // responses.
                let pairs = http.url.query().into_iter().flat_map(|query| query.split('&'));
                let values = pairs.filter_map(|pair| pair.split_once('=').filter(|(name, _)| is_secret_name(name)));
                let values: Vec<String> = values.map(|(_, value)| value.to_owned()).collect();
                SecretRedactor::new(http.headers.iter().flat_map(|header| &header.secrets).chain(&values))
            }
        }
    }
}

/// Returns whether a query parameter with this name is likely to hold a secret.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "password", "auth", "sig", "credential", "code"].iter().any(|part| name.contains(part))
}

/// Transport of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamTransport {
    /// Streamable HTTP, or HTTP+SSE.
    Http(UpstreamHttpConfig),
    /// Stdio: a process started by the gateway.
    Process(UpstreamProcessConfig),
}

/// Address of an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamHttpConfig {
    /// URL of the MCP endpoint.
    pub url: Uri,
    /// Headers sent with each request.
    pub headers: Vec<InjectedHeader>,
}
