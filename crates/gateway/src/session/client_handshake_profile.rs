//! Client properties from a stateful handshake, repeated with each request to a stateless upstream.

use std::sync::{Mutex, PoisonError};

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::ClientCapabilities;
use gatelodge_mcp::translate::{ClientInputResponses, ClientMeta, shared_capabilities, to_stateless};
use gatelodge_mutants::mutant;

/// Returns the capabilities that a client declared in its handshake.
pub(super) fn handshake_capabilities(handshake: &[u8]) -> ClientCapabilities {
    let document = read(handshake, &JsonLimits::REQUEST).ok();
    ClientCapabilities::of(document.as_ref().and_then(|own| own.root().get("params")?.get("capabilities")))
}

/// Capabilities and client information from a handshake, as JSON.
#[derive(Debug)]
pub(crate) struct ClientHandshakeProfile {
    capabilities: String,
    client_info: Option<String>,
    /// The log level that the client set with `logging/setLevel`.
    pub(super) log_level: Mutex<Option<String>>,
}

impl ClientHandshakeProfile {
    /// Reads the properties from a handshake message.
    pub fn of(handshake: &[u8]) -> Self {
        let document = read(handshake, &JsonLimits::REQUEST).ok();
        let member = |name: &str| document.as_ref()?.root().get("params")?.get(name);
        let capabilities = member("capabilities").filter(|own| own.kind() == JsonKind::Object);
        let shared = |own: JsonValue<'_>| {
            if mutant!("legacy-task-capability-forwarded") { own.raw().to_owned() } else { shared_capabilities(own) }
        };
        let capabilities = capabilities.map_or_else(|| "{}".to_owned(), shared);
        let client_info = member("clientInfo").map(|info: JsonValue<'_>| info.raw().to_owned());
        Self { capabilities, client_info, log_level: Mutex::default() }
    }

    pub fn to_stateless_request(&self, text: &str, retry: Option<&ClientInputResponses<'_>>) -> Option<String> {
        let level = self.log_level.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let client = ClientMeta {
            capabilities: &self.capabilities,
            info: self.client_info.as_deref(),
            log_level: level.as_deref(),
        };
        to_stateless(text, &client, retry)
    }
}
