//! One request at the gate: who asks, for which server, by which policy, and how they speak.

use std::sync::Arc;

use bytes::Bytes;

use crate::arguments_digest::StreamingDigest;
use crate::config_snapshot::{ActiveGrant, ServerAccess};
use crate::methods::session_pool::Turn;
use crate::request_trace::{RequestTrace, UpstreamSpanContext};
use crate::session::{ClientInfo, Session};
use crate::upstream::{StatelessHeaders, ToolListing, ToolRegistry, Upstream, UpstreamRequest, UpstreamTool};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::translate::to_stateful;
use gatelodge_mcp::{ClientCapabilities, ProtocolGeneration, Revision};
use http::HeaderMap;

/// Where a client is that came over standard streams.
pub(crate) const STDIO_ADDRESS: &str = "stdio";

/// A request whose grant is known.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub grant: Arc<ActiveGrant>,
    pub server_access: ServerAccess,
    pub upstream: Arc<Upstream>,
    /// How often something else had been accepted of the upstream's tools when the request came.
    pub pins_epoch: u64,
    pub client_address: Arc<str>,
    pub client_protocol: ClientProtocol,
    /// Which trace the request belongs to, if any.
    pub trace: Option<Box<RequestTrace>>,
    /// The message as it came, so that what of it is sent on need not be copied; empty where nobody kept it.
    pub request_body: Bytes,
    /// The hash of its arguments, if it was begun when they came.
    pub streaming_digest: Option<Arc<StreamingDigest>>,
}

/// How the client speaks. The upstream's side is a matter of its own.
#[derive(Debug, Clone)]
pub(crate) enum ClientProtocol {
    /// With a handshake. The session is none before it.
    Stateful(Option<Arc<Session>>),
    /// Each request stands alone.
    // In a box: what it says of its client is long, and a request is handed on often.
    Stateless(Box<StatelessClient>),
}

/// What a stateless request says of its client.
#[derive(Debug, Clone)]
pub(crate) struct StatelessClient {
    pub revision: Revision,
    pub client: ClientInfo,
    /// What it can be asked.
    pub client_capabilities: ClientCapabilities,
    /// Whether it wants to hear log messages.
    pub wants_log_messages: bool,
    /// The `Mcp-Param-*` headers of a call; none where there is no head.
    pub param_headers: Option<HeaderMap>,
    /// A session of ours, where the upstream wants one.
    pub upstream_session: Option<Arc<Session>>,
    /// Kept while a call has that session to itself.
    pub exclusive_session: Option<Arc<Turn>>,
}

/// Whether the upstream is spoken to in the era of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolTranslation {
    /// It is.
    None,
    /// The client's requests stand alone; the upstream has a session with us.
    ToStateful,
    /// The client has a session with us; the upstream takes requests that stand alone.
    ToStateless,
}

impl ClientProtocol {
    pub fn generation(&self) -> ProtocolGeneration {
        match self {
            Self::Stateful(_) => ProtocolGeneration::Stateful,
            Self::Stateless(_) => ProtocolGeneration::Stateless,
        }
    }

    /// The session that the client has.
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
            Self::Stateful(session) => session.as_ref().map(|session| session.client_info()),
            Self::Stateless(stateless) => Some(&stateless.client),
        }
    }

    /// The client's name and version for the log.
    pub fn client_display_name(&self) -> Option<Arc<str>> {
        self.client_info()?.display_name.clone()
    }
}

impl RequestContext {
    /// The same by a session.
    pub fn with_session(&self, session: Arc<Session>) -> Self {
        Self { client_protocol: ClientProtocol::Stateful(Some(session)), ..self.clone() }
    }

    pub fn generation(&self) -> ProtocolGeneration {
        self.client_protocol.generation()
    }

    pub fn session(&self) -> Option<&Arc<Session>> {
        self.client_protocol.session()
    }

    pub fn translation(&self) -> ProtocolTranslation {
        match &self.client_protocol {
            ClientProtocol::Stateful(Some(session)) if session.is_upstream_stateless() => {
                ProtocolTranslation::ToStateless
            }
            ClientProtocol::Stateless(stateless) if stateless.upstream_session.is_some() => {
                ProtocolTranslation::ToStateful
            }
            ClientProtocol::Stateful(_) | ClientProtocol::Stateless(_) => ProtocolTranslation::None,
        }
    }

    /// The session that the upstream has with us.
    pub fn upstream_session(&self) -> Option<&Arc<Session>> {
        match &self.client_protocol {
            ClientProtocol::Stateful(session) => session.as_ref().filter(|session| !session.is_upstream_stateless()),
            ClientProtocol::Stateless(stateless) => stateless.upstream_session.as_ref(),
        }
    }

    /// Kept while a call has the upstream's session to itself.
    pub fn exclusive_session(&self) -> Option<&Arc<Turn>> {
        match &self.client_protocol {
            ClientProtocol::Stateful(_) => None,
            ClientProtocol::Stateless(stateless) => stateless.exclusive_session.as_ref(),
        }
    }

    pub fn revision(&self) -> Option<Revision> {
        self.client_protocol.revision()
    }

    pub fn client_info(&self) -> Option<&ClientInfo> {
        self.client_protocol.client_info()
    }

    /// What the server offers to this caller: its own process if it has one.
    pub fn tool_registry(&self) -> Arc<ToolRegistry> {
        match self.upstream_session().and_then(|session| session.server_process()) {
            Some(process) => Arc::clone(process.tool_registry()),
            None => Arc::clone(&self.upstream.tool_registry),
        }
    }

    /// What of that is known.
    pub fn current_tool_listing(&self) -> Option<Arc<ToolListing>> {
        match self.upstream_session().and_then(|session| session.server_process()) {
            Some(process) => process.tool_registry().current(),
            None => self.upstream.tool_registry.current(),
        }
    }

    /// Whether the server is a process, or speaks on one connection, and has a call there that it has not answered.
    pub fn has_pending_call(&self) -> bool {
        match self.upstream_session() {
            Some(session) => session.upstream_link().has_pending_call(),
            None => self.upstream.has_pending_call(),
        }
    }

    /// A tool of an offer. One whose arguments cannot be mirrored as its server wants it is none for whoever has to.
    pub fn find_tool<'o>(&self, listing: Option<&'o ToolListing>, name: &str) -> Option<&'o UpstreamTool> {
        let is_stateless = self.generation() == ProtocolGeneration::Stateless
            || self.translation() == ProtocolTranslation::ToStateless;
        let has_to_mirror = is_stateless && !self.upstream.is_process();
        listing?.find_tool(name).filter(|tool| !has_to_mirror || tool.param_headers.is_ok())
    }

    /// The revisions that a caller of an era may speak: those that are spoken there, without what the grant finds too old.
    pub fn supported_revisions(&self, generation: ProtocolGeneration) -> Vec<Revision> {
        self.grant.allowed_revisions(&self.upstream.supported_revisions(generation))
    }

    /// Holds that the grant lets its bearer speak in a revision.
    ///
    /// # Errors
    /// It wants a newer one.
    pub fn check_revision(&self, revision: Revision) -> Result<(), ProtocolError> {
        self.grant.check_revision(revision, || self.supported_revisions(revision.generation()))
    }

    /// Addresses a message as the upstream is spoken to.
    pub fn message_for_upstream(&self, mut outgoing: UpstreamRequest) -> UpstreamRequest {
        self.set_upstream_session(&mut outgoing);
        outgoing
    }

    fn set_upstream_session(&self, outgoing: &mut UpstreamRequest) {
        if let Some(session) = self.upstream_session() {
            outgoing.session_link = session.upstream_link();
            outgoing.revision = session.protocol_version_header();
        }
    }

    /// The same for a request, whose method and subject a stateless upstream wants in the head.
    pub fn request_for_upstream(
        &self,
        mut outgoing: UpstreamRequest,
        method: &str,
        about: Option<&str>,
    ) -> UpstreamRequest {
        self.set_upstream_session(&mut outgoing);
        let revision = match &self.client_protocol {
            ClientProtocol::Stateless(stateless) if stateless.upstream_session.is_none() => Some(stateless.revision),
            ClientProtocol::Stateful(Some(session)) if session.is_upstream_stateless() => Some(Revision::R2026_07_28),
            ClientProtocol::Stateless(_) | ClientProtocol::Stateful(_) => None,
        };
        if revision.is_some() {
            outgoing.revision = revision;
            outgoing.stateless_headers =
                Some(StatelessHeaders { method: method.to_owned(), name: about.map(str::to_owned) });
        }
        self.translate(&mut outgoing);
        outgoing
    }

    /// Writes a request as the era of the upstream does. Its text was read before, so it can be read.
    fn translate(&self, outgoing: &mut UpstreamRequest) {
        let text = || String::from_utf8(outgoing.body.clone().into_bytes().into()).ok();
        let translated = match self.translation() {
            ProtocolTranslation::None => None,
            ProtocolTranslation::ToStateful => text().and_then(|text| to_stateful(&text)),
            ProtocolTranslation::ToStateless => {
                text().zip(self.session()).and_then(|(text, session)| session.to_stateless_request(&text, None))
            }
        };
        if let Some(translated) = translated {
            outgoing.body = translated.into();
        }
    }

    /// A span of ours for one request to the upstream, if the caller's trace goes on, or one begins here.
    pub fn upstream_span(&self, method: &str, about: Option<&str>) -> Option<UpstreamSpanContext> {
        self.trace.as_ref()?.upstream_span(method, about)
    }

    /// Whether the client came over HTTP, and not over standard streams.
    pub fn is_over_http(&self) -> bool {
        &*self.client_address != STDIO_ADDRESS
    }
}
