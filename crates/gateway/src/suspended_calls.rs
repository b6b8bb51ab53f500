//! Calls that are suspended until their client provides input. A stateful upstream asks during the call; a stateless
//! client is asked in the response to its request and repeats the request with the input.
//!
//! The state that the client sends back grants nothing: it is bound to the grant, the server and the request, can be
//! used only once, and expires.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use gatelodge_json::{JsonKind, JsonLimits, read};
use gatelodge_mcp::translate::{to_json_string, without_members};
use gatelodge_mcp::{ClientRequest, Method, RequestId, ServerRequest};
use gatelodge_store::{CallId, GrantId, ServerName};
use sha2::{Digest, Sha256};

use crate::call_recorder::CallRecorder;
use crate::request_context::{RequestContext, RequestSubject};
use crate::runtime::InFlightGuard;
use crate::session::{ExclusiveSession, Session, SessionUseGuard};
use crate::upstream::{SecretRedactor, Upstream, UpstreamResponse};

/// Maximum number of suspended calls, in total and per grant.
const MAX_SUSPENDED_CALLS: usize = 1_024;
const MAX_SUSPENDED_CALLS_PER_GRANT: usize = 32;
/// Error message for a server that asks for input when the limit is reached.
pub(crate) const TOO_MANY_SUSPENDED_CALLS_MESSAGE: &str = "too many calls wait for client input (at most 32 of a \
    grant and 1,024 of all grants); ask again when one of them has ended";
/// A suspended call is protected from eviction for this fraction (1/10) of its lifetime. After that, its client is
/// unlikely to come back.
const PROTECTED_FRACTION: u32 = 10;
/// Prefix of the request states that the gateway issues. A stateless upstream's own state never passes through this
/// module.
const REQUEST_STATE_PREFIX: &str = "gl-";
/// `_meta` key with which a stateful server may choose the key that its request gets in `inputRequests`.
const INPUT_KEY_META_KEY: &str = "gatelodge/inputKey";
/// Maximum length of an input request key that the server chooses.
const MAX_INPUT_KEY_BYTES: usize = 64;

/// A call that is waiting for client input.
#[derive(Debug)]
pub(crate) struct SuspendedCall {
    pub exchange: UpstreamResponse,
    /// The gateway's id for the call, as sent upstream.
    pub call: CallId,
    /// Requests that the client has not responded to yet.
    pub input_requests: Vec<ClientInputRequest>,
    pub upstream: Arc<Upstream>,
    pub session: Arc<Session>,
    /// Link epoch of the session when the call was sent. After a reconnect the server may reuse the same request ids.
    pub link_epoch: u64,
    /// Keeps the session from expiring as idle.
    pub _held: SessionUseGuard,
    /// Keeps other calls out of the session, so that server requests can be attributed to this call.
    pub exclusive_session: Option<Arc<ExclusiveSession>>,
    /// The call's in-flight guard, held until its client comes back.
    pub in_flight: Option<InFlightGuard>,
    pub binding: SuspendedCallBinding,
    /// Used to write the outcome row if the call is never resumed.
    pub recorder: CallRecorder,
}

/// A server request that is passed to the client as an input request.
#[derive(Debug)]
pub(crate) struct ClientInputRequest {
    /// Key in `inputRequests`. The stateful protocol has no such keys, so the gateway generates one unless the server
    /// chooses it.
    key: String,
    /// Id that the upstream gave the request.
    pub id: RequestId<'static>,
    pub method: String,
    /// Method and parameters, as JSON.
    json: String,
}

impl ClientInputRequest {
    /// Creates an input request whose key differs from the keys of `others`.
    pub fn new(others: &[Self], server_request: &ServerRequest<'_>, secrets: &SecretRedactor) -> Self {
        let is_free = |key: &String| others.iter().all(|other| other.key != *key) && secrets.redact_text(key) == *key;
        let key = server_input_key(server_request).filter(is_free).unwrap_or_else(|| match others.len() {
            0 => "ask".to_owned(),
            before => format!("ask-{}", before + 1),
        });
        let method = server_request.method().name().to_owned();
        Self {
            key,
            id: server_request.id().clone().into_owned(),
            method,
            json: secrets.redact_json(input_request_json(server_request)),
        }
    }

    /// Returns the client's response to this request, as JSON. Anything but an object is ignored.
    pub fn response<'r>(&self, request: &'r ClientRequest<'_>) -> Option<&'r str> {
        let answer = request.params()?.get("inputResponses")?.get(&self.key)?;
        (answer.kind() == JsonKind::Object).then(|| answer.raw())
    }
}

/// Identifies the request that may resume a suspended call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SuspendedCallBinding {
    grant: GrantId,
    server: ServerName,
    request: [u8; 32],
}

impl SuspendedCallBinding {
    /// Computes the binding from the grant, the server and the request. The request's id and input responses are left
    /// out, so that the repeated request has the same binding.
    pub fn of(ctx: &RequestContext, request: &ClientRequest<'_>, subject: &RequestSubject<'_>) -> Self {
        let mut hash = Sha256::new();
        let arguments = subject.arguments().map(|arguments| arguments.raw()).unwrap_or_default();
        for part in [request.method().name(), subject.target().unwrap_or_default(), arguments] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let grant = ctx.grant.config.id.clone();
        Self { grant, server: ctx.upstream.name().clone(), request: hash.finalize().into() }
    }
}

/// All suspended calls, by request state.
#[derive(Debug, Default)]
pub(crate) struct SuspendedCalls {
    calls: Mutex<HashMap<String, (SuspendedCall, Instant)>>,
}

impl SuspendedCall {
    pub fn is_of(&self, grant: &GrantId) -> bool {
        self.binding.grant == *grant
    }
}

/// Resources of a suspended call that the resuming request takes over.
#[derive(Debug)]
pub(crate) struct SuspendedCallContext {
    pub session: Arc<Session>,
    pub exclusive_session: Option<Arc<ExclusiveSession>>,
    pub in_flight: Option<InFlightGuard>,
}

impl SuspendedCalls {
    /// Returns the resources of the call with this request state, including its in-flight guard, which moves to the
    /// caller.
    pub fn resume_context(&self, state: &str, binding: &SuspendedCallBinding) -> Option<SuspendedCallContext> {
        let mut calls = self.lock();
        let (suspended, _) = calls.get_mut(state).filter(|(suspended, _)| suspended.binding == *binding)?;
        let (session, exclusive_session) = (Arc::clone(&suspended.session), suspended.exclusive_session.clone());
        Some(SuspendedCallContext { session, exclusive_session, in_flight: suspended.in_flight.take() })
    }

    /// Gives its in-flight guard back to a call that was not resumed after all.
    ///
    /// # Errors
    /// The call does not wait any more, or already has a guard. `in_flight` is returned.
    pub fn return_in_flight_guard(
        &self,
        state: &str,
        binding: &SuspendedCallBinding,
        in_flight: InFlightGuard,
    ) -> Result<(), InFlightGuard> {
        match self.lock().get_mut(state) {
            Some((suspended, _)) if suspended.binding == *binding && suspended.in_flight.is_none() => {
                suspended.in_flight = Some(in_flight);
                Ok(())
            }
            _ => Err(in_flight),
        }
    }

    /// Removes and returns the oldest call for which `is_one` returns true and whose protection from eviction has
    /// expired. `time` is the lifetime of suspended calls.
    pub fn take_evictable(&self, time: Duration, is_one: impl Fn(&SuspendedCall) -> bool) -> Option<SuspendedCall> {
        let mut calls = self.lock();
        let evict_before = Instant::now() + (time - time / PROTECTED_FRACTION);
        let candidates = calls.iter().filter(|(_, (suspended, until))| *until < evict_before && is_one(suspended));
        let oldest = candidates.min_by_key(|(_, (_, until))| *until).map(|(state, _)| state.clone())?;
        calls.remove(&oldest).map(|(suspended, _)| suspended)
    }

    /// Returns whether one more call of this grant may be suspended.
    pub fn has_capacity(&self, ctx: &RequestContext) -> bool {
        has_capacity(&self.lock(), &ctx.grant.config.id)
    }

    /// Stores a call for `time`, and returns the result that asks its client for input.
    ///
    /// # Errors
    /// No random bytes are available, or concurrent calls reached the limit first. The call is returned.
    pub fn suspend(&self, suspended: SuspendedCall, time: Duration) -> Result<String, Box<SuspendedCall>> {
        let mut random = [0; 32];
        if getrandom::fill(&mut random).is_err() {
            return Err(Box::new(suspended));
        }
        let state = format!("{REQUEST_STATE_PREFIX}{}", HEXLOWER.encode(&random));
        let input_requests = suspended
            .input_requests
            .iter()
            .map(|input_request| format!(r#""{}":{}"#, input_request.key, input_request.json));
        let input_requests: Vec<String> = input_requests.collect();
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":"{state}"}}"#,
            input_requests.join(",")
        );
        let mut calls = self.lock();
        if !has_capacity(&calls, &suspended.binding.grant) {
            return Err(Box::new(suspended));
        }
        calls.insert(state, (suspended, Instant::now() + time));
        Ok(result)
    }

    /// Removes and returns the call with this request state; `None` if there is no such call, it has expired, or the
    /// binding differs.
    pub fn take(&self, state: &str, binding: &SuspendedCallBinding) -> Option<SuspendedCall> {
        let mut calls = self.lock();
        let (suspended, until) = calls.get(state)?;
        if suspended.binding != *binding || *until < Instant::now() {
            return None;
        }
        calls.remove(state).map(|(suspended, _)| suspended)
    }

    /// Removes and returns the calls that have expired.
    pub fn take_expired(&self) -> Vec<SuspendedCall> {
        let now = Instant::now();
        self.lock().extract_if(|_, (_, until)| *until < now).map(|(_, (suspended, _))| suspended).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (SuspendedCall, Instant)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_capacity(calls: &HashMap<String, (SuspendedCall, Instant)>, grant: &GrantId) -> bool {
    let own = calls.values().filter(|(suspended, _)| suspended.is_of(grant)).count();
    calls.len() < MAX_SUSPENDED_CALLS && own < MAX_SUSPENDED_CALLS_PER_GRANT
}

/// Returns the key that the server chooses, if it needs no escaping in JSON.
fn server_input_key(server_request: &ServerRequest<'_>) -> Option<String> {
    let params = read(server_request.params()?.as_bytes(), &JsonLimits::REPLY).ok()?;
    let key = params.root().get("_meta")?.get(INPUT_KEY_META_KEY)?.as_str()?.into_owned();
    let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    // Generated keys start with "ask", so a server's key must not.
    ((1..=MAX_INPUT_KEY_BYTES).contains(&key.len()) && is_plain && !key.starts_with("ask")).then_some(key)
}

/// Returns a server request as an element of `inputRequests`.
fn input_request_json(server_request: &ServerRequest<'_>) -> String {
    let method = to_json_string(server_request.method().name());
    // Only the stateful protocol gives a URL elicitation an id.
    let page = server_request.params().filter(|_| *server_request.method() == Method::Elicit);
    let page = page.and_then(|params| read(params.as_bytes(), &JsonLimits::REPLY).ok());
    let page = page.as_ref().filter(|page| page.root().get("elicitationId").is_some());
    let plain = page.map(|page| without_members(page.root(), &["elicitationId"]));
    match plain.as_deref().or(server_request.params()) {
        Some(params) => format!(r#"{{"method":{method},"params":{params}}}"#),
        None => format!(r#"{{"method":{method}}}"#),
    }
}
