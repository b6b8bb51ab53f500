//! What the upstream asked of the client, and who waits for the answer.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use gatelodge_mcp::RequestId;
use gatelodge_mutants::mutant;
use tokio::sync::oneshot;

use super::lock;

/// Questions of an upstream that wait for the client's answer; beyond that the oldest is forgotten.
const MAX_PENDING_SERVER_REQUESTS: usize = 256;

/// The questions of one session, by the ids we gave them.
#[derive(Debug, Default)]
pub(crate) struct PendingServerRequests(Mutex<HashMap<String, PendingServerRequest>>);

/// A question of an upstream.
#[derive(Debug)]
struct PendingServerRequest {
    origin: ServerRequestOrigin,
    asked_at: Instant,
}

/// Who waits for the answer to a question.
#[derive(Debug)]
pub(crate) enum ServerRequestOrigin {
    /// The upstream, under its own id of it; and which method it asked by.
    Upstream(RequestId<'static>, String),
    /// A call of ours, which sends it on with the next request.
    Call(oneshot::Sender<Bytes>),
}

impl PendingServerRequests {
    /// Notes what is asked, and gives the id to ask the client under.
    pub fn register(&self, to: ServerRequestOrigin) -> Option<String> {
        let mut random = [0; 12];
        getrandom::fill(&mut random).ok()?;
        let own = format!("gl-{}", HEXLOWER.encode(&random));
        let mut pending = lock(&self.0);
        if pending.len() >= MAX_PENDING_SERVER_REQUESTS {
            let oldest = pending.iter().min_by_key(|(_, question)| question.asked_at).map(|(own, _)| own.clone());
            oldest.and_then(|oldest| pending.remove(&oldest));
        }
        pending.insert(own.clone(), PendingServerRequest { origin: to, asked_at: Instant::now() });
        Some(own)
    }

    /// Takes what the client answers: who waits for it.
    pub fn take(&self, id: &RequestId<'_>) -> Option<ServerRequestOrigin> {
        lock(&self.0).remove(id.as_str()?).map(|question| question.origin)
    }

    /// Nobody will answer any more what the client was asked.
    pub fn clear(&self) {
        if !mutant!("client-question-never-forgotten") {
            lock(&self.0).clear();
        }
    }

    /// Whether the client was asked something under this id.
    pub fn contains(&self, id: &RequestId<'_>) -> bool {
        id.as_str().is_some_and(|id| lock(&self.0).contains_key(id))
    }

    /// Forgets what the upstream asked under `id`, and gives the id under which the client was asked.
    pub fn withdraw(&self, id: &RequestId<'_>) -> Option<String> {
        let mut pending = lock(&self.0);
        let is_it = |question: &PendingServerRequest| matches!(&question.origin, ServerRequestOrigin::Upstream(own, _) if own == id);
        let own = pending.iter().find(|(_, question)| is_it(question)).map(|(own, _)| own.clone())?;
        pending.remove(&own);
        Some(own)
    }
}
