//! Refusals: why a call did not go through, with one message for the client and one for the log.

use std::time::Duration;

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_policy::{ApprovalRequirement, Charge, Reason, ReasonCode, format_seconds};
use gatelodge_store::StoreError;

use crate::upstream::UpstreamSendError;

/// Why a call did not go through.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Denied by the policy.
    Denied(Reason),
    /// A counter has reached its limit.
    Exhausted { charge: Box<Charge>, retry_after: Option<Duration> },
    /// The call needs approval by a person, and there is no way to ask for it.
    ApprovalUnavailable(ApprovalRequirement),
    /// An in-flight limit is reached. The string names what is limited.
    Busy(&'static str),
    /// A limit is reached. The string is the complete message, including what to do.
    CapacityReached(&'static str),
    /// A part of the request exceeds its size limit; contains the name of the part and the limit in bytes.
    TooLarge(&'static str, usize),
    /// Headers and body contradict each other.
    Protocol(ProtocolError),
    /// The message refers to no request in flight.
    UnknownReference,
    /// The store failed. Nothing is sent without a record.
    Store(StoreError),
    /// The server's tool list could not be read.
    ToolListUnavailable(UpstreamSendError),
    /// The handshake with the server failed, so the client's request was not sent.
    Handshake(UpstreamSendError),
    /// A request without side effects got no usable response.
    NoResponse(UpstreamSendError),
    /// A call got no usable response. If it was sent, it may have been executed. It was not sent if the error is
    /// `ClientGone`.
    Upstream(UpstreamSendError),
}

impl Refusal {
    /// Returns the refusal code, which does not change between versions.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied(reason) => reason.code.as_str(),
            Self::Exhausted { .. } => ReasonCode::Limit.as_str(),
            Self::ApprovalUnavailable(_) => "approval_unavailable",
            Self::Busy(_) | Self::CapacityReached(_) => "busy",
            Self::Protocol(_) | Self::UnknownReference | Self::TooLarge(..) => "rejected",
            Self::Store(_) => "store_unavailable",
            Self::ToolListUnavailable(_) => "upstream_unreachable",
            Self::Handshake(error) | Self::NoResponse(error) | Self::Upstream(error) => match error {
                UpstreamSendError::NotSent(_) => "upstream_unreachable",
                UpstreamSendError::Timeout | UpstreamSendError::HandshakeTimeout(_) => "upstream_timeout",
                UpstreamSendError::ClientGone => "cancelled",
                UpstreamSendError::ConnectionLost(_)
                | UpstreamSendError::InvalidResponse(_)
                | UpstreamSendError::Status(_)
                | UpstreamSendError::SessionExpired
                | UpstreamSendError::MissingCapability { .. } => "upstream_gone",
            },
        }
    }

    /// Returns the rule that refused the call.
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Denied(reason) => reason.rule.as_deref(),
            Self::Exhausted { charge, .. } => Some(charge.rule()),
            Self::ApprovalUnavailable(approval) => Some(&approval.rule),
            Self::Busy(_)
            | Self::CapacityReached(_)
            | Self::TooLarge(..)
            | Self::Protocol(_)
            | Self::UnknownReference => None,
            Self::Store(_) => None,
            Self::ToolListUnavailable(_) | Self::Handshake(_) | Self::NoResponse(_) | Self::Upstream(_) => None,
        }
    }

    /// Returns the counter that is exhausted or could not be charged.
    pub fn counter(&self) -> Option<&str> {
        match self {
            Self::Denied(reason) => reason.counter.as_deref(),
            Self::Exhausted { charge, .. } => Some(charge.counter()),
            _ => None,
        }
    }

    /// Returns the seconds until the counter has capacity again, rounded up.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Exhausted { retry_after: wait, .. } => {
                wait.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
            }
            _ => None,
        }
    }

    /// Returns whether the client must not learn that the target exists.
    pub fn is_invisible(&self) -> bool {
        match self {
            Self::Denied(reason) => {
                matches!(reason.code, ReasonCode::Hidden | ReasonCode::NotListed | ReasonCode::NotOffered)
            }
            _ => false,
        }
    }

    /// Returns the message for the client, with a prefix that says where the refusal comes from: the policy, the
    /// gateway or the upstream.
    pub fn client_text(&self, call: &str) -> String {
        let origin = match self {
            Self::Denied(_) | Self::Exhausted { .. } | Self::ApprovalUnavailable(_) => "POLICY DENIED",
            Self::Busy(_) | Self::CapacityReached(_) | Self::TooLarge(..) => "GATEWAY",
            Self::Protocol(_) | Self::UnknownReference | Self::Store(_) => "GATEWAY",
            Self::ToolListUnavailable(_) | Self::Handshake(_) | Self::NoResponse(_) | Self::Upstream(_) => "UPSTREAM",
        };
        let call = match self {
            Self::Busy(_) | Self::CapacityReached(_) | Self::Store(_) => format!("; call id {call}"),
            _ if origin == "UPSTREAM" => format!("; call id {call}"),
            _ => String::new(),
        };
        format!("[{origin}] {}{call}", self.message())
    }

    /// Returns the message for the client: short, accurate, and without internal details.
    pub fn message(&self) -> String {
        match self {
            Self::Denied(reason) => reason.message.to_string(),
            Self::Exhausted { charge, .. } => match charge.on_deny() {
                Some(own) => own.to_string(),
                None => self.limit_message(charge),
            },
            Self::ApprovalUnavailable(approval) => {
                let why = approval.message.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
                format!(
                    "this call needs approval by a person{why}, and this gateway has no approvals; nothing was sent"
                )
            }
            Self::Busy(what) => format!("too many {what}; try again when some have finished"),
            Self::CapacityReached(message) => (*message).to_owned(),
            Self::TooLarge(what, max) => format!("{what} is larger than {max} bytes"),
            Self::Protocol(error) => error.message.clone(),
            Self::UnknownReference => "the message refers to no request in flight".to_owned(),
            Self::Store(_) => "the call log cannot be written, so nothing was sent; try again later".to_owned(),
            Self::ToolListUnavailable(_) => {
                "the tool list of the server is not available; the call was not sent".to_owned()
            }
            Self::Handshake(error @ UpstreamSendError::NotSent(_))
            | Self::NoResponse(error @ UpstreamSendError::NotSent(_)) => {
                format!("{}; nothing was sent", describe_send_error(error))
            }
            Self::Handshake(error @ UpstreamSendError::HandshakeTimeout(_)) => {
                format!("{error}; nothing else was sent")
            }
            Self::Handshake(error) => {
                format!("the handshake with the server failed: {}; nothing else was sent", describe_send_error(error))
            }
            Self::NoResponse(error) => describe_send_error(error),
            Self::Upstream(
                error @ (UpstreamSendError::NotSent(_)
                | UpstreamSendError::HandshakeTimeout(_)
                | UpstreamSendError::ClientGone),
            ) => {
                format!("{}; the call was not sent", describe_send_error(error))
            }
            Self::Upstream(error) => format!("{}; the call may have run", describe_send_error(error)),
        }
    }

    /// Turns an upstream error into a handshake error, for requests that were not sent because the handshake failed.
    pub fn into_handshake_failure(self) -> Self {
        match self {
            Self::Upstream(error) if error != UpstreamSendError::ClientGone => Self::Handshake(error),
            other => other,
        }
    }

    fn limit_message(&self, charge: &Charge) -> String {
        let wait = match self.retry_after_seconds() {
            Some(seconds) => format!(", resets in {}", format_seconds(seconds)),
            None => String::new(),
        };
        format!("limit `{}`: {} per {}{wait}", charge.counter(), charge.max(), charge.window())
    }

    /// Returns details that appear only in the log.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Store(error) => Some(error.to_string()),
            Self::ToolListUnavailable(error)
            | Self::Handshake(error)
            | Self::NoResponse(error)
            | Self::Upstream(error) => Some(error.to_string()),
            _ => None,
        }
    }
}

/// Describes an upstream error, but not its consequence for the call.
fn describe_send_error(error: &UpstreamSendError) -> String {
    match error {
        UpstreamSendError::NotSent(_) => "the server cannot be reached".to_owned(),
        UpstreamSendError::Timeout => "the server did not answer in time".to_owned(),
        UpstreamSendError::ConnectionLost(_) => "the server's response is incomplete".to_owned(),
        UpstreamSendError::InvalidResponse(why) => why.clone(),
        UpstreamSendError::HandshakeTimeout(_)
        | UpstreamSendError::SessionExpired
        | UpstreamSendError::ClientGone
        | UpstreamSendError::MissingCapability { .. } => error.to_string(),
        UpstreamSendError::Status(status @ (401 | 403)) => {
            format!("the server rejected the gateway's credential (HTTP status {status})")
        }
        UpstreamSendError::Status(status) => format!("the server answered with HTTP status {status}"),
    }
}

impl From<UpstreamSendError> for Refusal {
    fn from(error: UpstreamSendError) -> Self {
        Self::Upstream(error)
    }
}
