//! The context of one request: grant, server, policy, client protocol, session and trace.

mod client_leg;
mod client_protocol;
mod in_flight_guard;
mod minimum_revision;
mod request_subject;
mod stream_revalidation;
mod task_protocol;
mod translation;
mod upstream_leg;

use std::sync::Arc;

use bytes::Bytes;

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ProtocolGeneration, Revision};
use gatelodge_store::{CallId, Clock};

use crate::active_policy::GrantServerAccess;
use crate::body::arguments_digest::StreamingDigest;
use crate::config_snapshot::ActiveGrant;
use crate::session::{ClientInfo, Session};
use crate::telemetry::{RequestTrace, UpstreamRequestSpan, UpstreamSpanContext, UpstreamSpanTarget};
use crate::upstream::{ToolListCacheKey, ToolListing, ToolRegistry, Upstream, UpstreamTransport};

pub(crate) use self::client_protocol::{ClientContext, ClientProtocol, StatelessClient};
pub(crate) use self::request_subject::{RequestSubject, parse_subject};
pub(crate) use self::stream_revalidation::StreamRevalidation;
pub(crate) use self::translation::{ProtocolTranslation, input_params_for_client};
pub(crate) use self::upstream_leg::GATEWAY_META;

/// Client address recorded for a stdio client.
pub(crate) const STDIO_ADDRESS: &str = "stdio";

/// Context of a request whose grant is known.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub grant: Arc<ActiveGrant>,
    pub server_access: GrantServerAccess,
    pub upstream: Arc<Upstream>,
    /// Value of [`Upstream::pins_epoch`] when the request arrived.
    pub pins_epoch: u64,
    pub client_address: Arc<str>,
    pub client_protocol: ClientProtocol,
    /// The trace that the request belongs to, if any.
    pub trace: Option<Box<RequestTrace>>,
    /// The received message, kept so that part of it can be forwarded without copying. Empty if it was not kept.
    pub request_body: Bytes,
    /// Digest of the arguments, if hashing started while they were arriving.
    pub streaming_digest: Option<Arc<StreamingDigest>>,
}

impl RequestContext {
    pub fn client(&self) -> ClientContext<'_> {
        ClientContext {
            grant: &self.grant,
            address: &self.client_address,
            protocol: &self.client_protocol,
            trace: self.trace.as_deref(),
        }
    }

    /// Returns a copy that uses `session`.
    pub fn with_session(&self, session: Arc<Session>) -> Self {
        Self { client_protocol: ClientProtocol::Stateful(Some(session)), ..self.clone() }
    }

    pub fn generation(&self) -> ProtocolGeneration {
        self.client_protocol.generation()
    }

    pub fn session(&self) -> Option<&Arc<Session>> {
        self.client_protocol.session()
    }

    pub fn revision(&self) -> Option<Revision> {
        self.client_protocol.revision()
    }

    pub fn client_info(&self) -> Option<&ClientInfo> {
        self.client_protocol.client_info()
    }

    /// Returns the tool registry that applies: the process's if the session has a process of its own, otherwise the
    /// server's.
    pub fn tool_registry(&self) -> Arc<ToolRegistry> {
        match self.upstream_session().and_then(|session| session.upstream_link.server_process()) {
            Some(process) => Arc::clone(process.tool_registry()),
            None => Arc::clone(&self.upstream.tool_registry),
        }
    }

    /// Returns the tool listing in [`Self::tool_registry`], if it is loaded.
    pub fn current_tool_listing(&self) -> Option<Arc<ToolListing>> {
        match self.upstream_session().and_then(|session| session.upstream_link.server_process()) {
            Some(process) => process.tool_registry().current(),
            None => self.upstream.tool_registry.current(),
        }
    }

    /// Returns whether a stdio or HTTP+SSE server has an unanswered call.
    pub fn has_pending_call(&self) -> bool {
        match self.upstream_session() {
            Some(session) => session.upstream_link.current().has_pending_call(),
            None => self.upstream.has_pending_call(),
        }
    }

    /// Returns the revisions of a generation that the client may use: those that the upstream supports and the grant
    /// allows.
    pub fn supported_revisions(&self, generation: ProtocolGeneration) -> Vec<Revision> {
        self.grant.allowed_revisions(&self.upstream.supported_revisions(generation))
    }

    /// Checks that the grant allows a revision.
    ///
    /// # Errors
    /// The grant requires a newer revision.
    pub fn check_revision(&self, revision: Revision) -> Result<(), ProtocolError> {
        self.grant.check_revision(revision, || self.supported_revisions(revision.generation()))
    }

    /// Returns what a list depends on, apart from the tool listing.
    pub fn tool_list_cache_key(&self) -> ToolListCacheKey {
        let upstream_generation = match self.translation() {
            ProtocolTranslation::None => self.generation(),
            ProtocolTranslation::ToStateful => ProtocolGeneration::Stateful,
            ProtocolTranslation::ToStateless => ProtocolGeneration::Stateless,
        };
        ToolListCacheKey {
            server_access: self.server_access.clone(),
            client_generation: self.generation(),
            upstream_generation,
            redactor: Arc::clone(self.upstream.secret_redactor()),
        }
    }

    /// Returns a span for one request to the upstream, if the request belongs to a trace.
    pub fn upstream_span(&self, method: &str, about: Option<&str>) -> Option<UpstreamSpanContext> {
        self.trace.as_ref()?.upstream_span(method, about)
    }

    /// Starts the span of a request to the upstream; returns `None` if the trace is not exported.
    pub fn begin_upstream_span(
        &self,
        span_context: Option<&UpstreamSpanContext>,
        call: CallId,
        clock: &dyn Clock,
    ) -> Option<UpstreamRequestSpan> {
        let trace = self.trace.as_deref()?;
        let url = match &self.upstream.config().transport {
            UpstreamTransport::Http(http) => Some(&http.url),
            UpstreamTransport::Process(_) => None,
        };
        let target = UpstreamSpanTarget { revision: self.revision(), server: self.upstream.name(), url };
        UpstreamRequestSpan::begin(trace, &target, span_context?, call, clock)
    }

    /// Returns whether the client is connected over HTTP rather than stdio.
    pub fn is_over_http(&self) -> bool {
        &*self.client_address != STDIO_ADDRESS
    }
}
