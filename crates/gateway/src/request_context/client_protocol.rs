//! The client of a request, and the protocol that it speaks.

use std::sync::Arc;

use gatelodge_mcp::{ClientCapabilities, ProtocolGeneration, Revision};
use http::HeaderMap;

use crate::config_snapshot::ActiveGrant;
use crate::session::{ClientInfo, ExclusiveSession, Session};
use crate::telemetry::RequestTrace;

/// Protocol generation used with the client. The one used with the upstream may differ.
#[derive(Debug, Clone)]
pub(crate) enum ClientProtocol {
    /// The client performs a handshake and has a session. The session is `None` before the handshake.
    Stateful(Option<Arc<Session>>),
    /// Every request is self-contained.
    // Boxed because the value is large and a context is moved often.
    Stateless(Box<StatelessClient>),
}

/// The client's properties, as declared in a stateless request.
#[derive(Debug, Clone)]
pub(crate) struct StatelessClient {
    pub revision: Revision,
    pub client: ClientInfo,
    pub client_capabilities: ClientCapabilities,
    /// Whether the client asked for log messages.
    pub wants_log_messages: bool,
    /// The `Mcp-Param-*` headers of a call; `None` for a transport without headers.
    pub param_headers: Option<HeaderMap>,
    /// The session that the gateway opened with a stateful upstream.
    pub upstream_session: Option<Arc<Session>>,
    /// Held while a call has exclusive use of the upstream session.
    pub exclusive_session: Option<Arc<ExclusiveSession>>,
}

/// The client of a request at `/mcp/<server>` or `/mcp`, as a call record describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientContext<'a> {
    pub grant: &'a ActiveGrant,
    pub address: &'a Arc<str>,
    pub protocol: &'a ClientProtocol,
    pub trace: Option<&'a RequestTrace>,
}

impl ClientProtocol {
    pub fn generation(&self) -> ProtocolGeneration {
        match self {
            Self::Stateful(_) => ProtocolGeneration::Stateful,
            Self::Stateless(_) => ProtocolGeneration::Stateless,
        }
    }

    /// Returns the client's session.
    pub fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Stateful(session) => session.as_ref(),
            Self::Stateless(_) => None,
        }
    }

    pub fn revision(&self) -> Option<Revision> {
        match self {
            Self::Stateful(session) => session.as_ref().map(|session| session.revision()),
            Self::Stateless(stateless) => Some(stateless.revision),
        }
    }

    pub fn client_info(&self) -> Option<&ClientInfo> {
        match self {
            Self::Stateful(session) => session.as_ref().map(|session| &session.negotiated.client_info),
            Self::Stateless(stateless) => Some(&stateless.client),
        }
    }

    /// Returns the client's name and version for the log.
    pub fn client_display_name(&self) -> Option<Arc<str>> {
        self.client_info()?.display_name.clone()
    }
}
