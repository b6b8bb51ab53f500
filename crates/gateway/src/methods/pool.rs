//! Sessions of ours at upstreams that want one, for clients whose requests stand alone: one for each grant and for what
//! its clients can do, so that an upstream asks no client for more than it has declared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gatelodge_json::Value;
use gatelodge_mcp::bridge::{quoted, shared_capabilities};
use gatelodge_mcp::{Declared, Method, Request, Revision};
use gatelodge_store::{GrantId, ServerName};
use sha2::{Digest, Sha256};

use super::discover::speaks_modern;
use super::initialize::{Shaken, place, say_initialized, shaken, start_time};
use crate::Gateway;
use crate::call::{Permit, Refusal, own_answer};
use crate::session::{ClientInfo, Opening, Session};
use crate::upstream::{Outgoing, SendError};
use crate::visit::{Modern, Side, Visit};

/// Who shares a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    grant: GrantId,
    server: ServerName,
    /// Of what the clients can do, and of the log messages they want.
    declared: [u8; 32],
}

/// A place for one session: the id of the one that is open. Whoever holds it opens it.
type Slot = Arc<tokio::sync::Mutex<Option<Box<str>>>>;

/// The sessions that are shared.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    slots: Mutex<HashMap<Key, Slot>>,
}

impl Pool {
    fn slot(&self, key: Key) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(key).or_default())
    }

    /// Forgets places whose session is over.
    pub fn sweep(&self, is_open: impl Fn(&str, &GrantId, &ServerName) -> bool) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|key, slot| match slot.try_lock() {
            Ok(id) => id.as_ref().is_some_and(|id| is_open(id, &key.grant, &key.server)),
            // Somebody is opening it.
            Err(_) => true,
        });
    }
}

/// The client's side with a session of ours, where the upstream wants one.
///
/// # Errors
/// The upstream does not say how it speaks, or opens no session.
pub(crate) async fn joined(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    side: Modern,
) -> Result<Modern, Refusal> {
    let joining = async {
        if speaks_modern(gw, visit).await? {
            return Ok(side);
        }
        let far = session_for(gw, visit, request).await?;
        Ok(Modern { far: Some(far), ..side })
    };
    // Many may wait for one that asks a server which hangs; none of them for all that were before it.
    let patience = start_time(gw, visit) * 2;
    tokio::time::timeout(patience, joining).await.unwrap_or(Err(Refusal::Upstream(SendError::Timeout)))
}

async fn session_for(gw: &Gateway, visit: &Visit, request: &Request<'_>) -> Result<Arc<Session>, Refusal> {
    let (meta, grant, server) = (request.meta(), &visit.grant.config.id, visit.upstream.name());
    let capabilities = meta.client_capabilities().map_or_else(|| "{}".to_owned(), shared_capabilities);
    let level = meta.log_level();
    let mut hash = Sha256::new();
    hash.update(&capabilities);
    hash.update([0]);
    hash.update(level.as_deref().unwrap_or_default());
    let key = Key { grant: grant.clone(), server: server.clone(), declared: hash.finalize().into() };
    let slot = gw.pool.slot(key);
    let mut open = slot.lock().await;
    if let Some(session) = open.as_deref().and_then(|id| gw.sessions.find(id, grant, Some(server))) {
        return Ok(session);
    }
    let opening = opened(gw, visit, &capabilities, meta.client_info(), level.is_some());
    let session = tokio::time::timeout(start_time(gw, visit), opening)
        .await
        .unwrap_or(Err(Refusal::Upstream(SendError::Timeout)))
        .inspect_err(|_| visit.upstream.forget_era())?;
    // Found by the next from now on: what is said below may take its time, and must not leave a session behind.
    *open = Some(session.id().into());
    let words = introduced(gw, visit.through(Arc::clone(&session)), level.as_deref());
    let _ = tokio::time::timeout(gw.settings.connect_time, words).await;
    Ok(session)
}

async fn opened(
    gw: &Gateway,
    visit: &Visit,
    capabilities: &str,
    info: Option<Value<'_>>,
    takes_log: bool,
) -> Result<Arc<Session>, Refusal> {
    let handshake = handshake(capabilities, info);
    let room = place(gw, visit, handshake.len()).await?;
    let Shaken { link, revision, welcome } = shaken(gw, visit, &handshake).await?;
    let opening = Opening {
        grant: visit.grant.config.id.clone(),
        server: Some(visit.upstream.name().clone()),
        revision,
        client: ClientInfo::of(info),
        handshake,
        welcome,
        link,
        room,
        is_far_stateless: false,
        takes_log,
    };
    let session = Session::new(opening).and_then(|session| gw.sessions.insert(session));
    session.ok_or(Refusal::Busy("sessions"))
}

/// Says what is said first in a session.
async fn introduced(gw: &Gateway, inside: Visit, level: Option<&str>) {
    say_initialized(gw, &inside).await;
    let has_log = inside.far_session().is_some_and(|session| session.offers_member("logging"));
    if let Some(level) = level.filter(|_| has_log) {
        set_level(gw, &inside, level).await;
    }
}

fn handshake(capabilities: &str, info: Option<Value<'_>>) -> Bytes {
    const OURS: &str = concat!(r#"{"name":"gatelodge","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
    let info = info.map_or(OURS, |info| info.raw());
    format!(
        r#"{{"jsonrpc":"2.0","id":"0","method":"initialize","params":{{"protocolVersion":"{}","capabilities":{capabilities},"clientInfo":{info}}}}}"#,
        Revision::R2025_11_25
    )
    .into()
}

/// Asks for log messages. A server that will not have it says none.
pub(crate) async fn set_level(gw: &Gateway, visit: &Visit, level: &str) {
    if let Some(session) = visit.far_session() {
        session.note_level(level);
    }
    let (call, method) = (gw.new_call(), Method::SetLevel.name());
    let level = quoted(level);
    let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{method}","params":{{"level":{level}}}}}"#);
    let Some(permit) = Permit::of_always_allowed(method, visit.addressed(Outgoing::request(text, call))) else {
        return;
    };
    if let Ok(mut exchange) = gw.client.send(&visit.upstream, permit).await {
        let _ = own_answer(gw, &mut exchange, call).await;
    }
}

impl Visit {
    /// The same visit, to go through a session of ours.
    pub fn through(&self, session: Arc<Session>) -> Self {
        let side = Modern {
            revision: Revision::R2026_07_28,
            client: ClientInfo::default(),
            declared: Declared::default(),
            wants_log: false,
            params: None,
            far: Some(session),
            calls: None,
        };
        Self {
            grant: Arc::clone(&self.grant),
            door: self.door.clone(),
            upstream: Arc::clone(&self.upstream),
            acceptances: self.acceptances,
            address: Arc::clone(&self.address),
            side: Side::Modern(side),
            // What is sent so belongs to no request of the caller's.
            trace: None,
        }
    }
}
