//! What the client and the upstream agreed on in the handshake.

use std::sync::Mutex;

use bytes::Bytes;
use gatelodge_mcp::translate::ClientInputResponses;
use gatelodge_mcp::{ClientCapabilities, Revision};

use super::client_handshake_profile::{ClientHandshakeProfile, handshake_capabilities};
use super::list_changed::ListChangedSet;
use super::{ClientInfo, lock, protocol_version_header};

/// Result of a handshake.
#[derive(Debug)]
pub(crate) struct Negotiated {
    pub revision: Revision,
    pub client_info: ClientInfo,
    /// The client's handshake message, which is repeated if the upstream loses its session.
    pub handshake: Bytes,
    /// The capabilities that the client declared.
    pub client_capabilities: ClientCapabilities,
    /// The upstream's `initialize` or `server/discover` result.
    pub server_info: Bytes,
    pub accepts_log_messages: bool,
    /// The lists for which `listChanged` was advertised to the client; `None` for a restored session until the server
    /// has been asked again.
    list_changed: Mutex<Option<ListChangedSet>>,
    /// The minimum log level requested from the upstream.
    upstream_log_level: Mutex<Option<Box<str>>>,
    /// For a local session, the client's properties, which are sent with each request.
    pub(super) handshake_profile: Option<Box<ClientHandshakeProfile>>,
}

impl Negotiated {
    pub fn new(
        revision: Revision,
        client_info: ClientInfo,
        handshake: Bytes,
        server_info: Bytes,
        is_local: bool,
        accepts_log_messages: bool,
    ) -> Self {
        Self {
            revision,
            client_info,
            handshake_profile: is_local.then(|| Box::new(ClientHandshakeProfile::of(&handshake))),
            client_capabilities: handshake_capabilities(&handshake),
            handshake,
            list_changed: Mutex::new((!server_info.is_empty()).then(|| ListChangedSet::advertised(&server_info))),
            server_info,
            accepts_log_messages,
            upstream_log_level: Mutex::default(),
        }
    }

    pub fn protocol_version_header(&self) -> Option<Revision> {
        protocol_version_header(self.revision)
    }

    /// Records the lists that the server advertised, unless they are already known.
    pub fn note_list_changed(&self, server_info: &[u8]) {
        lock(&self.list_changed).get_or_insert_with(|| ListChangedSet::advertised(server_info));
    }

    pub fn list_changed(&self) -> Option<ListChangedSet> {
        *lock(&self.list_changed)
    }

    /// Records the log level requested from the upstream, so that a repeated handshake can set it again.
    pub fn note_upstream_log_level(&self, level: &str) {
        *lock(&self.upstream_log_level) = Some(level.into());
    }

    pub fn upstream_log_level(&self) -> Option<Box<str>> {
        lock(&self.upstream_log_level).clone()
    }

    /// Returns whether the session exists only in the gateway, because the server is stateless.
    pub fn is_local(&self) -> bool {
        self.handshake_profile.is_some()
    }

    /// Translates a client request to the stateless protocol.
    pub fn to_stateless_request(&self, text: &str, retry: Option<&ClientInputResponses<'_>>) -> Option<String> {
        self.handshake_profile.as_ref()?.to_stateless_request(text, retry)
    }

    /// Returns whether the session is local and the client has set a log level.
    pub fn wants_log_messages(&self) -> bool {
        self.handshake_profile.as_ref().is_some_and(|profile| lock(&profile.log_level).is_some())
    }
}
