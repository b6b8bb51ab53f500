//! Why a request to an upstream got no usable response.

use std::time::Duration;

use gatelodge_mutants::mutant;
use gatelodge_policy::format_duration;
use gatelodge_store::CallOutcome;

use super::SecretRedactor;

/// Why a request got no usable response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpstreamSendError {
    /// Not connected; no byte of the request was written.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The connection was lost; the request may have been executed.
    #[error("{0}")]
    ConnectionLost(String),
    /// The response cannot be forwarded; the request may have been executed. The error message was written by the
    /// gateway, not the server.
    #[error("{0}")]
    InvalidResponse(String),
    /// The deadline passed; the request may have been executed.
    #[error("no response in time")]
    Timeout,
    /// Probing the protocol or performing the handshake took too long; the call itself was not sent.
    #[error("the server did not answer the handshake within {}", format_duration(*.0))]
    HandshakeTimeout(Duration),
    /// The HTTP status is an error.
    #[error("HTTP status {0}")]
    Status(u16),
    /// The server had lost the session, which was reopened. It has probably not executed the request, but that is not
    /// certain.
    #[error("the server no longer knew the session")]
    SessionExpired,
    /// The client disconnected or cancelled.
    #[error("the client did not wait for the response")]
    ClientGone,
    /// The server used a capability that the client has not declared.
    #[error("the server {action}: {required_capability}")]
    MissingCapability { action: &'static str, required_capability: &'static str },
}

impl UpstreamSendError {
    /// Returns the outcome for the call record.
    pub fn outcome(&self) -> CallOutcome {
        match self {
            Self::NotSent(_) => CallOutcome::NotSent,
            Self::Timeout | Self::HandshakeTimeout(_) => CallOutcome::Timeout,
            Self::ClientGone => CallOutcome::Cancelled,
            Self::ConnectionLost(_)
            | Self::InvalidResponse(_)
            | Self::Status(_)
            | Self::SessionExpired
            | Self::MissingCapability { .. } => CallOutcome::NoValidResponse,
        }
    }

    /// Converts the error of a follow-up request: the call itself was sent, so it may have been executed.
    pub fn after_call_sent(self) -> Self {
        match self {
            Self::NotSent(why) if !mutant!("follow-up-failure-counts-as-unsent") => Self::ConnectionLost(why),
            other => other,
        }
    }

    /// Returns the error type for spans.
    pub fn error_type(&self) -> String {
        match self {
            Self::NotSent(_) => "not_sent".to_owned(),
            Self::ConnectionLost(_) => "gone".to_owned(),
            Self::InvalidResponse(_) => "unusable".to_owned(),
            Self::Timeout | Self::HandshakeTimeout(_) => "timeout".to_owned(),
            Self::Status(status) => status.to_string(),
            Self::SessionExpired => "forgotten".to_owned(),
            Self::ClientGone => "left".to_owned(),
            Self::MissingCapability { .. } => "undeclared".to_owned(),
        }
    }

    /// Redacts secrets that the upstream has returned.
    pub fn redact(self, secrets: &SecretRedactor) -> Self {
        match self {
            Self::NotSent(why) => Self::NotSent(secrets.redact_text(&why)),
            Self::ConnectionLost(why) => Self::ConnectionLost(secrets.redact_text(&why)),
            Self::InvalidResponse(why) => Self::InvalidResponse(secrets.redact_text(&why)),
            other @ (Self::Timeout | Self::HandshakeTimeout(_) | Self::Status(_)) => other,
            other @ (Self::SessionExpired | Self::ClientGone | Self::MissingCapability { .. }) => other,
        }
    }
}
