//! Enforces the oldest protocol revision that a grant allows.

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, Method, ProtocolGeneration, Revision, code};
use gatelodge_mutants::mutant;
use http::StatusCode;

use super::ClientProtocol;
use crate::config_snapshot::ActiveGrant;
use crate::session::Session;

impl ActiveGrant {
    /// Filters `revisions` to those that the grant allows.
    pub(crate) fn allowed_revisions(&self, revisions: &[Revision]) -> Vec<Revision> {
        let minimum = self.config.minimum_revision.unwrap_or(Revision::R2024_11_05);
        revisions.iter().copied().filter(|own| *own >= minimum).collect()
    }

    /// Checks that the grant allows a revision. `supported_revisions` are offered as alternatives in the error.
    ///
    /// # Errors
    /// The grant requires a newer revision.
    pub(crate) fn check_revision(
        &self,
        revision: Revision,
        supported_revisions: impl FnOnce() -> Vec<Revision>,
    ) -> Result<(), ProtocolError> {
        let is_too_old = |minimum: &Revision| revision < *minimum && !mutant!("minimum-revision-not-enforced");
        let Some(minimum) = self.config.minimum_revision.filter(is_too_old) else {
            return Ok(());
        };
        let supported: Vec<String> = supported_revisions().iter().rev().map(|own| format!("\"{own}\"")).collect();
        let message = format!("this grant requires protocol revision {minimum} or newer, the client uses {revision}");
        let data = format!(r#"{{"requested":"{revision}","supported":[{}]}}"#, supported.join(","));
        Err(ProtocolError { status: StatusCode::OK, code: code::INVALID_PARAMS, message, data: Some(data) })
    }

    /// Checks the revision requested by `initialize`. An unknown revision passes: it is negotiated later.
    ///
    /// # Errors
    /// The requested revision is too old.
    pub(crate) fn check_handshake_revision(
        &self,
        handshake: &ClientRequest<'_>,
        supported_revisions: impl FnOnce() -> Vec<Revision>,
    ) -> Result<(), ProtocolError> {
        if *handshake.method() != Method::Initialize {
            return Ok(());
        }
        let requested = handshake.params().and_then(|params| params.get("protocolVersion"));
        if requested.is_some_and(|requested| requested.as_str().is_none()) {
            let what = "`protocolVersion` must be a string that names a revision, such as \"2025-11-25\"";
            return Err(ProtocolError::new(StatusCode::OK, code::INVALID_PARAMS, what));
        }
        let requested = requested.and_then(|requested| requested.as_str()?.parse().ok());
        requested.map_or(Ok(()), |requested| self.check_revision(requested, supported_revisions))
    }

    /// Checks whether a client may open a stream before its handshake (HTTP+SSE).
    ///
    /// # Errors
    /// No stateful revision is new enough for the grant.
    pub(crate) fn check_stream_allowed(&self) -> Result<(), ProtocolError> {
        let has_handshake =
            self.allowed_revisions(&Revision::ALL).iter().any(|own| own.generation() == ProtocolGeneration::Stateful);
        let Some(minimum) = self.config.minimum_revision.filter(|_| !has_handshake) else { return Ok(()) };
        let message = format!(
            "this grant requires protocol revision {minimum} or newer, which has no GET and no handshake; \
            send each request by POST, with `MCP-Protocol-Version: {minimum}`"
        );
        Err(ProtocolError::new(StatusCode::METHOD_NOT_ALLOWED, code::INVALID_REQUEST, &message))
    }

    /// Checks the revision of an open session. The error has the status "not found", which makes the client start a new
    /// session; the reply to its handshake then explains the reason.
    ///
    /// # Errors
    /// The grant now requires a newer revision.
    pub(crate) fn check_session_revision(
        &self,
        session: &Session,
        supported_revisions: impl FnOnce() -> Vec<Revision>,
    ) -> Result<(), ProtocolError> {
        let session_not_found = |error| ProtocolError { status: StatusCode::NOT_FOUND, ..error };
        self.check_revision(session.revision(), supported_revisions).map_err(session_not_found)
    }

    /// Returns whether the grant still allows the protocol used by an open stream.
    pub(crate) fn allows_protocol(&self, client_protocol: &ClientProtocol) -> bool {
        client_protocol.revision().is_none_or(|revision| self.check_revision(revision, Vec::new).is_ok())
    }
}
