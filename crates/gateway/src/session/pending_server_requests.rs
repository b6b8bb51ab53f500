//! Requests from the upstream to the client that have not been answered yet.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_mcp::RequestId;
use gatelodge_mutants::mutant;
use tokio::sync::oneshot;

use super::lock;

/// Maximum number of upstream requests waiting for the client's answer. Beyond that, the oldest is dropped.
const MAX_PENDING_SERVER_REQUESTS: usize = 256;

/// The pending requests of one session, by the ids that the gateway gave them.
#[derive(Debug, Default)]
pub(crate) struct PendingServerRequests(Mutex<HashMap<String, PendingServerRequest>>);

/// One pending request.
#[derive(Debug)]
struct PendingServerRequest {
    origin: ClientResponseDestination,
    asked_at: Instant,
}

/// Receiver of the client's answer.
#[derive(Debug)]
pub(crate) enum ClientResponseDestination {
    /// The upstream, with the id that it gave the request and the request's method.
    Upstream(RequestId<'static>, String),
    /// A call in the gateway, which sends the answer with its next request.
    Call(oneshot::Sender<Bytes>),
}

impl PendingServerRequests {
    /// Registers a request and returns the id that it has in the message to the client.
    pub fn register(&self, origin: ClientResponseDestination) -> Option<String> {
        let mut random = [0; 12];
        getrandom::fill(&mut random).ok()?;
        let own = format!("gl-{}", HEXLOWER.encode(&random));
        let mut pending = lock(&self.0);
        if pending.len() >= MAX_PENDING_SERVER_REQUESTS {
            let oldest = pending.iter().min_by_key(|(_, request)| request.asked_at).map(|(own, _)| own.clone());
            oldest.and_then(|oldest| pending.remove(&oldest));
        }
        pending.insert(own.clone(), PendingServerRequest { origin, asked_at: Instant::now() });
        Some(own)
    }

    /// Removes the request that the client has answered, and returns the receiver of the answer.
    pub fn take(&self, id: &RequestId<'_>) -> Option<ClientResponseDestination> {
        lock(&self.0).remove(id.as_str()?).map(|request| request.origin)
    }

    /// Forgets all pending requests.
    pub fn clear(&self) {
        if !mutant!("client-question-never-forgotten") {
            lock(&self.0).clear();
        }
    }

    /// Returns whether a request with this id is pending.
    pub fn contains(&self, id: &RequestId<'_>) -> bool {
        id.as_str().is_some_and(|id| lock(&self.0).contains_key(id))
    }

    /// Removes the request with the upstream's `id` and returns the id that it had in the message to the client.
    pub fn withdraw(&self, id: &RequestId<'_>) -> Option<String> {
        let mut pending = lock(&self.0);
        let is_match = |request: &PendingServerRequest| matches!(&request.origin, ClientResponseDestination::Upstream(own, _) if own == id);
        let own = pending.iter().find(|(_, request)| is_match(request)).map(|(own, _)| own.clone())?;
        pending.remove(&own);
        Some(own)
    }
}
