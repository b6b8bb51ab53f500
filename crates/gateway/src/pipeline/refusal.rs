//! Why a call did not go through, in words for the caller and in words for the log.

use std::time::Duration;

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_policy::{ApprovalRequirement, Charge, Code, Reason};
use gatelodge_store::StoreError;

use crate::upstream::SendError;

/// Why a call did not go through.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The policy said no.
    Denied(Reason),
    /// A counter is full.
    Exhausted { charge: Box<Charge>, retry_after: Option<Duration> },
    /// A person would have to agree, and nobody can be asked.
    ApprovalUnavailable(ApprovalRequirement),
    /// Too much is in flight.
    Busy(&'static str),
    /// The same in words that say what to do.
    CapacityReached(&'static str),
    /// Something has more bytes than are taken.
    TooLarge(&'static str, usize),
    /// Head and body do not say the same.
    Protocol(ProtocolError),
    /// It refers to nothing that is under way.
    UnknownReference,
    /// The store did not answer: without a record nothing is sent.
    Store(StoreError),
    /// The upstream could not be asked what it offers.
    ToolListUnavailable(SendError),
    /// The handshake with the upstream failed, so what the caller wants was not sent.
    Handshake(SendError),
    /// What does nothing at the upstream got no answer, or none that can be passed on.
    NoResponse(SendError),
    /// A call got no answer, or none that can be passed on. Where it was sent, it may have run. One whose caller left
    /// was not.
    Upstream(SendError),
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Denied(reason) => reason.code.as_str(),
            Self::Exhausted { .. } => Code::Limit.as_str(),
            Self::ApprovalUnavailable(_) => "approval_unavailable",
            Self::Busy(_) | Self::CapacityReached(_) => "busy",
            Self::Protocol(_) | Self::UnknownReference | Self::TooLarge(..) => "rejected",
            Self::Store(_) => "store_unavailable",
            Self::ToolListUnavailable(_) => "upstream_unreachable",
            Self::Handshake(error) | Self::NoResponse(error) | Self::Upstream(error) => match error {
                SendError::NotSent(_) => "upstream_unreachable",
                SendError::Timeout | SendError::HandshakeTimeout(_) => "upstream_timeout",
                SendError::ClientGone => "cancelled",
                SendError::ConnectionLost(_)
                | SendError::InvalidResponse(_)
                | SendError::Status(_)
                | SendError::SessionExpired
                | SendError::MissingCapability { .. } => "upstream_gone",
            },
        }
    }

    /// The rule that refused.
    pub fn rule(&self) -> Option<&str> {
        match self {
            Self::Denied(reason) => reason.rule.as_deref(),
            Self::Exhausted { charge, .. } => Some(charge.rule()),
            Self::ApprovalUnavailable(question) => Some(&question.rule),
            Self::Busy(_)
            | Self::CapacityReached(_)
            | Self::TooLarge(..)
            | Self::Protocol(_)
            | Self::UnknownReference => None,
            Self::Store(_) => None,
            Self::ToolListUnavailable(_) | Self::Handshake(_) | Self::NoResponse(_) | Self::Upstream(_) => None,
        }
    }

    /// The counter that was full or could not be charged.
    pub fn counter(&self) -> Option<&str> {
        match self {
            Self::Denied(reason) => reason.counter.as_deref(),
            Self::Exhausted { charge, .. } => Some(charge.counter()),
            _ => None,
        }
    }

    /// Whole seconds until there is room, rounded up.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Exhausted { retry_after: room_in, .. } => {
                room_in.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
            }
            _ => None,
        }
    }

    /// Whether the caller must not learn that there is such a thing.
    pub fn is_invisible(&self) -> bool {
        match self {
            Self::Denied(reason) => matches!(reason.code, Code::Hidden | Code::NotListed | Code::NotOffered),
            _ => false,
        }
    }

    /// What is said to the caller, with whom it comes from in front.
    pub fn client_text(&self, call: &str) -> String {
        let who = match self {
            Self::Denied(_) | Self::Exhausted { .. } | Self::ApprovalUnavailable(_) => "POLICY DENIED",
            Self::Busy(_) | Self::CapacityReached(_) | Self::TooLarge(..) => "GATEWAY",
            Self::Protocol(_) | Self::UnknownReference | Self::Store(_) => "GATEWAY",
            Self::ToolListUnavailable(_) | Self::Handshake(_) | Self::NoResponse(_) | Self::Upstream(_) => "UPSTREAM",
        };
        let call = match self {
            Self::Busy(_) | Self::CapacityReached(_) | Self::Store(_) => format!("; quote call {call}"),
            _ if who == "UPSTREAM" => format!("; quote call {call}"),
            _ => String::new(),
        };
        format!("[{who}] {}{call}", self.message())
    }

    /// What is said to the caller: short, true, without internals.
    pub fn message(&self) -> String {
        match self {
            Self::Denied(reason) => reason.message.to_string(),
            Self::Exhausted { charge, .. } => match charge.on_deny() {
                Some(own) => own.to_string(),
                None => self.limit_message(charge),
            },
            Self::ApprovalUnavailable(question) => {
                let why = question.message.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
                format!("a person has to agree to this call{why}, and this gateway has no approvals; nothing was sent")
            }
            Self::Busy(what) => format!("too many {what}; try again when some have ended"),
            Self::CapacityReached(words) => (*words).to_owned(),
            Self::TooLarge(what, max) => format!("{what} has more than {max} bytes"),
            Self::Protocol(misfit) => misfit.message.clone(),
            Self::UnknownReference => "the message refers to nothing that is under way".to_owned(),
            Self::Store(_) => "the record of calls cannot be written, so nothing was sent; try again later".to_owned(),
            Self::ToolListUnavailable(_) => {
                "the server does not say which tools it has; the call was not sent".to_owned()
            }
            Self::Handshake(error @ SendError::NotSent(_)) | Self::NoResponse(error @ SendError::NotSent(_)) => {
                format!("{}; nothing was sent", describe_send_error(error))
            }
            Self::Handshake(error @ SendError::HandshakeTimeout(_)) => format!("{error}; nothing else was sent"),
            Self::Handshake(error) => {
                format!("the handshake with the server failed: {}; nothing else was sent", describe_send_error(error))
            }
            Self::NoResponse(error) => describe_send_error(error),
            Self::Upstream(
                error @ (SendError::NotSent(_) | SendError::HandshakeTimeout(_) | SendError::ClientGone),
            ) => {
                format!("{}; the call was not sent", describe_send_error(error))
            }
            Self::Upstream(error) => format!("{}; the call may have run", describe_send_error(error)),
        }
    }

    /// The same for a request that could not be sent because the server could not be greeted.
    pub fn as_handshake_failure(self) -> Self {
        match self {
            Self::Upstream(error) if error != SendError::ClientGone => Self::Handshake(error),
            other => other,
        }
    }

    fn limit_message(&self, charge: &Charge) -> String {
        let wait = match self.retry_after_seconds() {
            Some(seconds) => format!(", room again in {seconds} s"),
            None => String::new(),
        };
        format!("limit `{}`: {} per {}{wait}", charge.counter(), charge.max(), charge.window())
    }

    /// What only the log says.
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

/// What went wrong at a server, without what that means for a call.
fn describe_send_error(error: &SendError) -> String {
    match error {
        SendError::NotSent(_) => "the server cannot be reached".to_owned(),
        SendError::Timeout => "the server did not answer in time".to_owned(),
        SendError::ConnectionLost(_) => "the server's answer did not come whole".to_owned(),
        SendError::InvalidResponse(why) => why.clone(),
        SendError::HandshakeTimeout(_)
        | SendError::SessionExpired
        | SendError::ClientGone
        | SendError::MissingCapability { .. } => error.to_string(),
        SendError::Status(status @ (401 | 403)) => {
            format!("the server does not take the credential that it was sent (HTTP status {status})")
        }
        SendError::Status(status) => format!("the server answered with HTTP status {status}"),
    }
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Self {
        Self::Upstream(error)
    }
}
