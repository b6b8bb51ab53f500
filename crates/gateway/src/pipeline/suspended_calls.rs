//! Calls that wait for their client: an upstream with a session asks in the middle of a call, and a client whose
//! requests stand alone is asked by the answer to its request, and comes again with what it says.
//!
//! What it brings back is no authority: it is bound to the grant, the server and the very request, is good once, and
//! not for long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use gatelodge_json::{JsonKind, JsonLimits, read};
use gatelodge_mcp::translate::{to_json_string, without_members};
use gatelodge_mcp::{ClientRequest, Method, RequestId, ServerRequest};
use gatelodge_store::{CallId, GrantId, ServerName};
use sha2::{Digest, Sha256};

use super::{CallRecorder, InFlightGuard, RequestSubject};
use crate::methods::session_pool::Turn;
use crate::request_context::RequestContext;
use crate::session::{Session, SessionUseGuard};
use crate::upstream::{SecretRedactor, Upstream, UpstreamResponse};

/// Calls that wait, of all and of one grant.
const MAX_SUSPENDED_CALLS: usize = 1_024;
const MAX_SUSPENDED_CALLS_PER_GRANT: usize = 32;
/// What a server is told that asks beyond that.
pub(crate) const TOO_MANY_SUSPENDED_CALLS_MESSAGE: &str = "32 calls of this grant wait for what their clients answer, or 1,024 of all grants, \
    and no more may; ask again when one of them has ended";
/// What part of its time a call that waits has to itself. Behind that it gives way to others: most likely nobody comes.
const OWN_SHARE: u32 = 10;
/// What a client's state begins with; one of an upstream never comes here.
const PREFIX: &str = "gl-";
/// Where a server with sessions may say in `_meta` how a question is called where requests stand alone.
const INPUT_KEY: &str = "gatelodge/inputKey";
/// The longest of such names.
const MAX_KEY: usize = 64;

/// A call that waits.
#[derive(Debug)]
pub(crate) struct Paused {
    pub exchange: UpstreamResponse,
    /// Our id of it at the upstream.
    pub call: CallId,
    /// What the client has not answered yet.
    pub questions: Vec<Question>,
    pub upstream: Arc<Upstream>,
    pub session: Arc<Session>,
    /// How often that had been opened anew when the call was sent: another opening may use the same ids for what it asks.
    pub links: u64,
    /// It is in use while the client thinks.
    pub _held: SessionUseGuard,
    /// Nobody else is asked something in that session meanwhile.
    pub turn: Option<Arc<Turn>>,
    /// Its place among the requests in flight, until its client comes again.
    pub room: Option<InFlightGuard>,
    pub bond: Bond,
    /// What is written of it if nobody goes on with it.
    pub trail: CallRecorder,
}

/// What an upstream asks in the middle of a call.
#[derive(Debug)]
pub(crate) struct Question {
    /// Under what it stands among the requests for input: in a session a question has no name, so it is one of ours,
    /// unless the server says one.
    key: String,
    /// The upstream's id of it.
    pub id: RequestId<'static>,
    /// By which method it asks.
    pub method: String,
    /// Method and parameters, as JSON.
    asked: String,
}

impl Question {
    /// One that is asked together with `others`.
    pub fn new(others: &[Self], asked: &ServerRequest<'_>, secrets: &SecretRedactor) -> Self {
        let is_free = |key: &String| others.iter().all(|other| other.key != *key) && secrets.redact_text(key) == *key;
        let key = said_key(asked).filter(is_free).unwrap_or_else(|| match others.len() {
            0 => "ask".to_owned(),
            before => format!("ask-{}", before + 1),
        });
        let method = asked.method().name().to_owned();
        Self { key, id: asked.id().clone().into_owned(), method, asked: secrets.redact_json(as_input(asked)) }
    }

    /// The client's answer among those that it brings, as JSON. What is no object is none.
    pub fn answer<'r>(&self, request: &'r ClientRequest<'_>) -> Option<&'r str> {
        let answer = request.params()?.get("inputResponses")?.get(&self.key)?;
        (answer.kind() == JsonKind::Object).then(|| answer.raw())
    }
}

/// Whose call it is, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bond {
    grant: GrantId,
    server: ServerName,
    request: [u8; 32],
}

impl Bond {
    /// The same for a request that is sent again, whatever its id and what it answers.
    pub fn of(visit: &RequestContext, request: &ClientRequest<'_>, facts: &RequestSubject<'_>) -> Self {
        let mut hash = Sha256::new();
        let arguments = facts.arguments().map(|arguments| arguments.raw()).unwrap_or_default();
        for part in [request.method().name(), facts.target().unwrap_or_default(), arguments] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let grant = visit.grant.config.id.clone();
        Self { grant, server: visit.upstream.name().clone(), request: hash.finalize().into() }
    }
}

/// All calls that wait.
#[derive(Debug, Default)]
pub(crate) struct PausedCalls {
    calls: Mutex<HashMap<String, (Paused, Instant)>>,
}

impl Paused {
    pub fn is_of(&self, grant: &GrantId) -> bool {
        self.bond.grant == *grant
    }
}

/// What a request that comes again goes on with.
#[derive(Debug)]
pub(crate) struct Back {
    pub session: Arc<Session>,
    pub turn: Option<Arc<Turn>>,
    pub room: Option<InFlightGuard>,
}

impl PausedCalls {
    /// What the call that a state stands for has: its client has come again. Its place in flight is taken from it.
    pub fn back(&self, state: &str, bond: &Bond) -> Option<Back> {
        let mut calls = self.lock();
        let (paused, _) = calls.get_mut(state).filter(|(paused, _)| paused.bond == *bond)?;
        let (session, turn) = (Arc::clone(&paused.session), paused.turn.clone());
        Some(Back { session, turn, room: paused.room.take() })
    }

    /// Takes the call that waits for longest among some, if it has waited for so long that it gives way. `time` is what
    /// calls have in all.
    pub fn give_way(&self, time: Duration, is_one: impl Fn(&Paused) -> bool) -> Option<Paused> {
        let mut calls = self.lock();
        let ripe = Instant::now() + (time - time / OWN_SHARE);
        let among = calls.iter().filter(|(_, (paused, until))| *until < ripe && is_one(paused));
        let oldest = among.min_by_key(|(_, (_, until))| *until).map(|(state, _)| state.clone())?;
        calls.remove(&oldest).map(|(paused, _)| paused)
    }

    /// Whether one more of this grant may wait.
    pub fn has_room(&self, visit: &RequestContext) -> bool {
        has_room(&self.lock(), &visit.grant.config.id)
    }

    /// Keeps a call for so long, and gives the result that asks its client.
    ///
    /// # Errors
    /// There is no randomness, or others were quicker and there is no room; the call comes back.
    pub fn keep(&self, paused: Paused, time: Duration) -> Result<String, Box<Paused>> {
        let mut random = [0; 32];
        if getrandom::fill(&mut random).is_err() {
            return Err(Box::new(paused));
        }
        let state = format!("{PREFIX}{}", HEXLOWER.encode(&random));
        let asked = paused.questions.iter().map(|question| format!(r#""{}":{}"#, question.key, question.asked));
        let asked: Vec<String> = asked.collect();
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":"{state}"}}"#,
            asked.join(",")
        );
        let mut calls = self.lock();
        if !has_room(&calls, &paused.bond.grant) {
            return Err(Box::new(paused));
        }
        calls.insert(state, (paused, Instant::now() + time));
        Ok(result)
    }

    /// Takes the call that a state stands for; none if there is none, or it is not of this request.
    pub fn take(&self, state: &str, bond: &Bond) -> Option<Paused> {
        let mut calls = self.lock();
        let (paused, until) = calls.get(state)?;
        if paused.bond != *bond || *until < Instant::now() {
            return None;
        }
        calls.remove(state).map(|(paused, _)| paused)
    }

    /// Takes the calls whose time is over.
    pub fn overdue(&self) -> Vec<Paused> {
        let now = Instant::now();
        self.lock().extract_if(|_, (_, until)| *until < now).map(|(_, (paused, _))| paused).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Paused, Instant)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_room(calls: &HashMap<String, (Paused, Instant)>, grant: &GrantId) -> bool {
    let own = calls.values().filter(|(paused, _)| paused.is_of(grant)).count();
    calls.len() < MAX_SUSPENDED_CALLS && own < MAX_SUSPENDED_CALLS_PER_GRANT
}

/// How the server calls a question. What would have to be escaped is no name.
fn said_key(asked: &ServerRequest<'_>) -> Option<String> {
    let params = read(asked.params()?.as_bytes(), &JsonLimits::REPLY).ok()?;
    let key = params.root().get("_meta")?.get(INPUT_KEY)?.as_str()?.into_owned();
    let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    // Ours are told from theirs, so that no two are the same.
    ((1..=MAX_KEY).contains(&key.len()) && is_plain && !key.starts_with("ask")).then_some(key)
}

/// What a client is asked, as JSON.
fn as_input(asked: &ServerRequest<'_>) -> String {
    let method = to_json_string(asked.method().name());
    // A page has an id only in a session.
    let page = asked.params().filter(|_| *asked.method() == Method::Elicit);
    let page = page.and_then(|params| read(params.as_bytes(), &JsonLimits::REPLY).ok());
    let page = page.as_ref().filter(|page| page.root().get("elicitationId").is_some());
    let plain = page.map(|page| without_members(page.root(), &["elicitationId"]));
    match plain.as_deref().or(asked.params()) {
        Some(params) => format!(r#"{{"method":{method},"params":{params}}}"#),
        None => format!(r#"{{"method":{method}}}"#),
    }
}
