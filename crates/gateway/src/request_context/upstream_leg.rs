//! What the upstream's protocol decides: the session and headers of its requests, and requests that the gateway writes
//! itself.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::http_headers::ParamHeaderMapping;
use gatelodge_mcp::translate::{ClientInputResponses, to_json_string, to_stateful};
use gatelodge_mcp::{ClientCapabilities, Method, ProtocolGeneration, RequestId, Revision};
use gatelodge_store::CallId;
use http::HeaderMap;

use super::{ClientProtocol, ProtocolTranslation, RequestContext, RequestSubject, StatelessClient};
use crate::refusal::Refusal;
use crate::session::{ClientInfo, ExclusiveSession, Session};
use crate::upstream::{StatelessHeaders, ToolListing, UpstreamRequest, UpstreamSessionLink, UpstreamTool};

/// Metadata of the gateway's own requests.
pub(crate) const GATEWAY_META: &str = concat!(
    r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"gatelodge","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#
);

/// Like [`GATEWAY_META`], for requests about tasks.
const GATEWAY_META_WITH_TASKS: &str = concat!(
    r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":"#,
    r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}},"#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"gatelodge","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#
);

impl RequestContext {
    /// Returns the session with the upstream.
    pub fn upstream_session(&self) -> Option<&Arc<Session>> {
        match &self.client_protocol {
            ClientProtocol::Stateful(session) => session.as_ref().filter(|session| !session.negotiated.is_local()),
            ClientProtocol::Stateless(stateless) => stateless.upstream_session.as_ref(),
        }
    }

    /// Returns the client's session if it exists only in the gateway, because the server is stateless. What other
    /// servers store with a session, such as subscriptions and the log level, the gateway stores for this one.
    pub fn local_session(&self) -> Option<&Arc<Session>> {
        self.session().filter(|session| session.negotiated.is_local())
    }

    /// Returns a copy of a stateless client's context that uses `upstream_session`.
    pub fn with_upstream_session(
        &self,
        upstream_session: Arc<Session>,
        exclusive_session: Option<Arc<ExclusiveSession>>,
    ) -> Self {
        let mut ctx = self.clone();
        if let ClientProtocol::Stateless(client) = &mut ctx.client_protocol {
            (client.upstream_session, client.exclusive_session) = (Some(upstream_session), exclusive_session);
        }
        ctx
    }

    /// Returns a context for work on behalf of a pooled session, independent of any client request.
    pub fn on_behalf_of_session(&self, session: Arc<Session>) -> Self {
        let client = StatelessClient {
            revision: Revision::R2026_07_28,
            client: ClientInfo::default(),
            client_capabilities: ClientCapabilities::default(),
            wants_log_messages: false,
            param_headers: None,
            upstream_session: Some(session),
            exclusive_session: None,
        };
        // Messages of the session belong to no client request.
        Self {
            client_protocol: ClientProtocol::Stateless(Box::new(client)),
            trace: None,
            request_body: Bytes::new(),
            streaming_digest: None,
            ..self.clone()
        }
    }

    /// Returns whether the gateway stores the resource subscriptions of the session, because its server cannot.
    pub fn has_local_subscriptions(&self) -> bool {
        self.local_session().is_some()
    }

    /// Returns the guard held by a call that uses the upstream session exclusively.
    pub fn exclusive_session(&self) -> Option<&Arc<ExclusiveSession>> {
        match &self.client_protocol {
            ClientProtocol::Stateful(_) => None,
            ClientProtocol::Stateless(stateless) => stateless.exclusive_session.as_ref(),
        }
    }

    /// Returns the link of the upstream session, and the revision for the header of its requests.
    pub fn upstream_session_address(&self) -> (UpstreamSessionLink, Option<Revision>) {
        match self.upstream_session() {
            Some(session) => (session.upstream_link.current(), session.negotiated.protocol_version_header()),
            None => (UpstreamSessionLink::NoSession, None),
        }
    }

    /// Adds the upstream session to a message.
    pub fn message_for_upstream(&self, mut outgoing: UpstreamRequest) -> UpstreamRequest {
        if let Some(session) = self.upstream_session() {
            outgoing.session_link = session.upstream_link.current();
            outgoing.revision = session.negotiated.protocol_version_header();
        }
        outgoing
    }

    /// Adds the upstream session to a request and translates it. A stateless upstream receives the method and subject
    /// as headers.
    pub fn request_for_upstream(
        &self,
        outgoing: UpstreamRequest,
        method: &str,
        about: Option<&str>,
    ) -> UpstreamRequest {
        let mut outgoing = self.message_for_upstream(outgoing);
        let revision = match &self.client_protocol {
            ClientProtocol::Stateless(stateless) if stateless.upstream_session.is_none() => Some(stateless.revision),
            ClientProtocol::Stateful(Some(session)) if session.negotiated.is_local() => Some(Revision::R2026_07_28),
            ClientProtocol::Stateless(_) | ClientProtocol::Stateful(_) => None,
        };
        if revision.is_some() {
            outgoing.revision = revision;
            outgoing.stateless_headers =
                Some(StatelessHeaders { method: method.to_owned(), name: about.map(str::to_owned) });
        }
        self.translate_request(&mut outgoing);
        outgoing
    }

    /// Rewrites a request for the upstream's generation. The request has been parsed before, so parsing it again
    /// succeeds.
    fn translate_request(&self, outgoing: &mut UpstreamRequest) {
        let text = || String::from_utf8(outgoing.body.clone().into_bytes().into()).ok();
        let translated = match self.translation() {
            ProtocolTranslation::None => None,
            ProtocolTranslation::ToStateful => text().and_then(|text| to_stateful(&text)),
            ProtocolTranslation::ToStateless => text()
                .zip(self.session())
                .and_then(|(text, session)| session.negotiated.to_stateless_request(&text, None)),
        };
        if let Some(translated) = translated {
            outgoing.body = translated.into();
        }
    }

    /// Adds the client's input to a request that is repeated at a stateless upstream. Returns `None` if the client has no
    /// session with such an upstream.
    pub fn with_client_input(
        &self,
        mut outgoing: UpstreamRequest,
        input: &ClientInputResponses<'_>,
    ) -> Option<UpstreamRequest> {
        let text = std::mem::take(&mut outgoing.body).into_bytes();
        let text = self.session()?.negotiated.to_stateless_request(str::from_utf8(&text).ok()?, Some(input))?;
        outgoing.body = text.into();
        Some(outgoing)
    }

    /// Builds the gateway's own `tools/list`.
    pub fn tools_list_request(&self, id: &RequestId<'_>, cursor: Option<&str>) -> String {
        let cursor = cursor.map(|cursor| format!("\"cursor\":{cursor}"));
        let meta = match self.generation() {
            ProtocolGeneration::Stateful => None,
            ProtocolGeneration::Stateless => Some(format!("\"_meta\":{GATEWAY_META}")),
        };
        let params: Vec<String> = cursor.into_iter().chain(meta).collect();
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{{}}}}}"#, params.join(","))
    }

    /// Builds the gateway's own `tasks/cancel`.
    pub fn task_cancellation(&self, task: &str, call: CallId) -> UpstreamRequest {
        let (method, id) = (Method::TasksCancel.name(), to_json_string(task));
        let is_in_session = self.upstream_session().is_some();
        let meta = if is_in_session { String::new() } else { format!(",\"_meta\":{GATEWAY_META_WITH_TASKS}") };
        let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{method}","params":{{"taskId":{id}{meta}}}}}"#);
        let outgoing = UpstreamRequest::request(text, call);
        if is_in_session {
            return self.message_for_upstream(outgoing);
        }
        UpstreamRequest {
            revision: Some(Revision::R2026_07_28),
            stateless_headers: Some(StatelessHeaders { method: method.to_owned(), name: Some(task.to_owned()) }),
            ..outgoing
        }
    }

    /// Finds a tool in a listing. If the gateway must send `Mcp-Param-*` headers, returns `None` for a tool whose
    /// header definitions are invalid.
    pub fn find_tool<'o>(&self, listing: Option<&'o ToolListing>, name: &str) -> Option<&'o UpstreamTool> {
        let is_stateless = self.generation() == ProtocolGeneration::Stateless || self.local_session().is_some();
        let must_send_headers = is_stateless && !self.upstream.is_process();
        listing?.find_tool(name).filter(|tool| !must_send_headers || tool.param_headers.is_ok())
    }

    /// Returns the `Mcp-Param-*` headers for the upstream request, which repeat the arguments of a call. The client's
    /// headers are compared with the evaluated body. Those that correspond to no argument are passed on, because the
    /// server may recognize them.
    ///
    /// # Errors
    /// A header of the client differs from its argument.
    pub fn param_headers(
        &self,
        subject: &RequestSubject<'_>,
        listing: Option<&ToolListing>,
    ) -> Result<Option<Box<HeaderMap>>, Refusal> {
        let RequestSubject::Tool { name, arguments } = subject else { return Ok(None) };
        let client_headers = match &self.client_protocol {
            ClientProtocol::Stateless(stateless) => stateless.param_headers.as_ref(),
            ClientProtocol::Stateful(_) if self.local_session().is_some() => None,
            ClientProtocol::Stateful(_) => return Ok(None),
        };
        let nothing = ParamHeaderMapping::default();
        let tool = self.find_tool(listing, name);
        let mapping = tool.and_then(|tool| tool.param_headers.as_ref().ok()).unwrap_or(&nothing);
        if let Some(client_headers) = client_headers {
            mapping.check(client_headers, *arguments).map_err(Refusal::Protocol)?;
        }
        // The stateful protocol has no such headers.
        let is_stateful = self.upstream_session().is_some();
        let headers = || mapping.apply_to(client_headers.cloned().unwrap_or_default(), *arguments);
        Ok((!is_stateful).then(|| Box::new(headers())))
    }
}
