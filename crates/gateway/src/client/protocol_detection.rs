//! Finds out from the headers and the message which protocol an HTTP client speaks, and its session.

use std::sync::Arc;

use gatelodge_mcp::http_headers::{
    self, ProtocolError, check_stateless, has_stateless_header, param_headers, revision,
};
use gatelodge_mcp::{ClientCapabilities, ClientMessage, Method, ProtocolGeneration, Revision, code};
use gatelodge_store::ServerName;
use http::StatusCode;
use http::header::HeaderMap;

use crate::config_snapshot::ActiveGrant;
use crate::request_context::{ClientProtocol, StatelessClient};
use crate::session::{ClientInfo, Session, SessionManager};

/// Scope in which a session is looked up: a grant, and either one server or all servers.
#[derive(Clone, Copy)]
pub(crate) struct SessionLookupScope<'a> {
    pub grant: &'a ActiveGrant,
    pub server: Option<&'a ServerName>,
}

/// Determines the client's protocol from this request alone.
pub(crate) async fn detect_client_protocol(
    sessions: &SessionManager,
    scope: SessionLookupScope<'_>,
    headers: &HeaderMap,
    message: &ClientMessage<'_>,
    supported: impl Fn(ProtocolGeneration) -> Vec<Revision>,
) -> Result<ClientProtocol, ProtocolError> {
    let is_stateless = match message {
        ClientMessage::Request(request) => http_headers::is_stateless(headers, request),
        ClientMessage::Notification(_) | ClientMessage::Response(_) => has_stateless_header(headers),
    };
    if !is_stateless {
        return detect_stateful_client(sessions, scope, headers, message, || supported(ProtocolGeneration::Stateful))
            .await;
    }
    let supported = supported(ProtocolGeneration::Stateless);
    let client = detect_stateless_client(headers, message, &supported)?;
    scope.grant.check_revision(client.revision, || supported)?;
    Ok(ClientProtocol::Stateless(Box::new(client)))
}

async fn detect_stateful_client(
    sessions: &SessionManager,
    scope: SessionLookupScope<'_>,
    headers: &HeaderMap,
    message: &ClientMessage<'_>,
    supported: impl Fn() -> Vec<Revision>,
) -> Result<ClientProtocol, ProtocolError> {
    if let ClientMessage::Request(request) = message
        && *request.method() == Method::Initialize
    {
        revision(headers, &supported)?;
        // A session id in a handshake request refers to an old session and is ignored.
        return scope.grant.check_handshake_revision(request, supported).map(|()| ClientProtocol::Stateful(None));
    }
    let session = require_session(sessions, scope, headers, &supported).await?;
    scope.grant.check_session_revision(&session, supported)?;
    Ok(ClientProtocol::Stateful(Some(session)))
}

/// Returns the session named in the headers of a request with any HTTP method. If the headers also name a revision, it
/// must be the session's.
pub(crate) async fn require_session(
    sessions: &SessionManager,
    scope: SessionLookupScope<'_>,
    headers: &HeaderMap,
    supported: impl FnOnce() -> Vec<Revision>,
) -> Result<Arc<Session>, ProtocolError> {
    let version = revision(headers, supported)?;
    let session = session_from_headers(sessions, scope, headers).await?;
    // Gemini CLI sends no version header after the handshake; the negotiated revision applies.
    if version.is_some_and(|version| version != session.revision()) {
        let message = format!("the session uses revision {}", session.revision());
        return Err(ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, &message));
    }
    Ok(session)
}

async fn session_from_headers(
    sessions: &SessionManager,
    scope: SessionLookupScope<'_>,
    headers: &HeaderMap,
) -> Result<Arc<Session>, ProtocolError> {
    let mut values = headers.get_all(http_headers::SESSION_ID).iter();
    let (first, second) = (values.next(), values.next());
    let invalid = |what| ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, what);
    if second.is_some() {
        return Err(invalid("the request has more than one `Mcp-Session-Id` header"));
    }
    let id =
        first.ok_or_else(|| invalid("start with `initialize`, and send the `Mcp-Session-Id` from its response"))?;
    let id = id.to_str().map_err(|_| invalid("the `Mcp-Session-Id` header is not plain text"))?;
    sessions.find_or_restore(id, scope.grant, scope.server).await?.ok_or_else(|| {
        ProtocolError::new(
            StatusCode::NOT_FOUND,
            code::INVALID_REQUEST,
            "the session is unknown or has ended; start with `initialize`",
        )
    })
}

fn detect_stateless_client(
    headers: &HeaderMap,
    message: &ClientMessage<'_>,
    supported: &[Revision],
) -> Result<StatelessClient, ProtocolError> {
    let ClientMessage::Request(request) = message else {
        return Ok(StatelessClient {
            revision: Revision::R2026_07_28,
            client: ClientInfo::default(),
            client_capabilities: ClientCapabilities::default(),
            wants_log_messages: false,
            param_headers: None,
            upstream_session: None,
            exclusive_session: None,
        });
    };
    let revision = check_stateless(headers, request, supported)?;
    let params = match request.method() {
        Method::ToolsCall => Some(param_headers(headers)?),
        _ => None,
    };
    let (client, declared) =
        (ClientInfo::of(request.meta().client_info()), ClientCapabilities::of(request.meta().client_capabilities()));
    let wants_log = request.meta().log_level().is_some();
    Ok(StatelessClient {
        revision,
        client,
        client_capabilities: declared,
        wants_log_messages: wants_log,
        param_headers: params,
        upstream_session: None,
        exclusive_session: None,
    })
}
