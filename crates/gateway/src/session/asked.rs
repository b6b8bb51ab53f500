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
const MAX_ASKED: usize = 256;

/// The questions of one session, by the ids we gave them.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<HashMap<String, Asked>>);

/// A question of an upstream.
#[derive(Debug)]
struct Asked {
    to: AskedBy,
    at: Instant,
}

/// Who waits for the answer to a question.
#[derive(Debug)]
pub(crate) enum AskedBy {
    /// The upstream, under its own id of it; and which method it asked by.
    Upstream(RequestId<'static>, String),
    /// A call of ours, which sends it on with the next request.
    Call(oneshot::Sender<Bytes>),
}

impl Questions {
    /// Notes what is asked, and gives the id to ask the client under.
    pub fn ask(&self, to: AskedBy) -> Option<String> {
        let mut random = [0; 12];
        getrandom::fill(&mut random).ok()?;
        let own = format!("gl-{}", HEXLOWER.encode(&random));
        let mut asked = lock(&self.0);
        if asked.len() >= MAX_ASKED {
            let oldest = asked.iter().min_by_key(|(_, question)| question.at).map(|(own, _)| own.clone());
            oldest.and_then(|oldest| asked.remove(&oldest));
        }
        asked.insert(own.clone(), Asked { to, at: Instant::now() });
        Some(own)
    }

    /// Takes what the client answers: who waits for it.
    pub fn answered(&self, id: &RequestId<'_>) -> Option<AskedBy> {
        lock(&self.0).remove(id.as_str()?).map(|question| question.to)
    }

    /// Nobody will answer any more what the client was asked.
    pub fn forget(&self) {
        if !mutant!("client-question-never-forgotten") {
            lock(&self.0).clear();
        }
    }

    /// Whether the client was asked something under this id.
    pub fn has(&self, id: &RequestId<'_>) -> bool {
        id.as_str().is_some_and(|id| lock(&self.0).contains_key(id))
    }

    /// Forgets what the upstream asked under `id`, and gives the id under which the client was asked.
    pub fn taken_back(&self, id: &RequestId<'_>) -> Option<String> {
        let mut asked = lock(&self.0);
        let is_it = |question: &Asked| matches!(&question.to, AskedBy::Upstream(own, _) if own == id);
        let own = asked.iter().find(|(_, question)| is_it(question)).map(|(own, _)| own.clone())?;
        asked.remove(&own);
        Some(own)
    }
}
