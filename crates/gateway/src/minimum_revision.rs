//! The oldest revision of the protocol that a grant lets its bearer speak.

use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::{ClientRequest, Method, ProtocolGeneration, Revision, code};
use gatelodge_mutants::mutant;
use http::StatusCode;

use crate::config_snapshot::ActiveGrant;
use crate::request_context::ClientProtocol;
use crate::session::Session;

impl ActiveGrant {
    /// Of some revisions, those that the grant lets its bearer speak.
    pub(crate) fn allowed_revisions(&self, revisions: &[Revision]) -> Vec<Revision> {
        let minimum = self.config.minimum_revision.unwrap_or(Revision::R2024_11_05);
        revisions.iter().copied().filter(|own| *own >= minimum).collect()
    }

    /// Holds that the grant lets its bearer speak in a revision. `spoken` are those that could be.
    ///
    /// # Errors
    /// It wants a newer one.
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
        let message = format!("this grant wants the revision {minimum} or a newer one, and {revision} is spoken");
        let data = format!(r#"{{"requested":"{revision}","supported":[{}]}}"#, supported.join(","));
        Err(ProtocolError { status: StatusCode::OK, code: code::INVALID_PARAMS, message, data: Some(data) })
    }

    /// The same for a handshake, by what the client asks for. What is not known here is agreed on later.
    ///
    /// # Errors
    /// It asks for what is too old.
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
            let what = "`protocolVersion` has to be text that names a revision, such as \"2025-11-25\"";
            return Err(ProtocolError::new(StatusCode::OK, code::INVALID_PARAMS, what));
        }
        let requested = requested.and_then(|requested| requested.as_str()?.parse().ok());
        requested.map_or(Ok(()), |requested| self.check_revision(requested, supported_revisions))
    }

    /// The same for a client that begins with a stream, and would shake hands later.
    ///
    /// # Errors
    /// Nothing that has a handshake is new enough.
    pub(crate) fn check_stream_allowed(&self) -> Result<(), ProtocolError> {
        let has_handshake =
            self.allowed_revisions(&Revision::ALL).iter().any(|own| own.generation() == ProtocolGeneration::Stateful);
        let Some(minimum) = self.config.minimum_revision.filter(|_| !has_handshake) else { return Ok(()) };
        let message = format!(
            "this grant wants the revision {minimum} or a newer one, which has no GET and no handshake; \
            send each request by POST, with `MCP-Protocol-Version: {minimum}`"
        );
        Err(ProtocolError::new(StatusCode::METHOD_NOT_ALLOWED, code::INVALID_REQUEST, &message))
    }

    /// The same for a session that was opened before. Its client begins anew then, and is told by the answer to that.
    ///
    /// # Errors
    /// The grant wants a newer revision by now.
    pub(crate) fn check_session_revision(
        &self,
        session: &Session,
        supported_revisions: impl FnOnce() -> Vec<Revision>,
    ) -> Result<(), ProtocolError> {
        let begin_anew = |misfit| ProtocolError { status: StatusCode::NOT_FOUND, ..misfit };
        self.check_revision(session.revision(), supported_revisions).map_err(begin_anew)
    }

    /// The same for a stream that is open.
    pub(crate) fn allows_protocol(&self, side: &ClientProtocol) -> bool {
        side.revision().is_none_or(|revision| self.check_revision(revision, Vec::new).is_ok())
    }
}
