//! The handshake of a legacy client: the upstream's own handshake, and a session of ours around it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::read;
use gatelodge_mcp::{Era, Id, Message, Method, Request, Revision, read_message};
use gatelodge_store::Outcome;
use tokio::sync::OwnedSemaphorePermit;

use super::pass::{exchanged, fail};
use super::server::tell;
use crate::Gateway;
use crate::call::{Permit, Refusal, Trail, answer, own_answer, result_text};
use crate::http::line::Line;
use crate::http::reply;
use crate::live::LiveGrant;
use crate::session::{Agreed, ClientInfo, Session};
use crate::upstream::{Link, Outgoing, SendError, Upstream};
use crate::visit::Visit;

/// The most bytes of a handshake; real ones have some hundreds.
const MAX_HANDSHAKE: usize = 64 << 10;
/// How long a process may take to start and to answer the handshake; clients give up after 30 s.
const START_TIME: Duration = Duration::from_secs(25);
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Opens a session.
pub(crate) async fn initialize(gw: &Gateway, visit: &Visit, request: &Request<'_>, mut trail: Trail, mut line: Line) {
    let room = match place(gw, visit, request).await {
        Ok(room) => room,
        Err(refusal) => {
            gw.metrics.refused(refusal.code());
            line.finish(reply::fault(request.id(), trail.call(), &refusal)).await;
            return gw.write(trail.refused(&refusal)).await;
        }
    };
    match opened(gw, visit, request, &trail, room, &mut line).await {
        Ok((text, outcome)) => {
            line.finish(text).await;
            gw.write(trail.outcome(outcome, None)).await;
        }
        Err(fault) => fail(gw, request.id(), &mut trail, fault, line).await,
    }
}

/// A place for one more session of the grant, and for its process.
async fn place(gw: &Gateway, visit: &Visit, request: &Request<'_>) -> Result<OwnedSemaphorePermit, Refusal> {
    // It is kept for as long as the session lives.
    if request.text().len() > MAX_HANDSHAKE {
        return Err(Refusal::TooLarge("the handshake", MAX_HANDSHAKE));
    }
    make_room_for_child(gw, visit).await;
    gw.place_for_session(&visit.grant).await.ok_or(Refusal::Busy("sessions"))
}

async fn opened(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    trail: &Trail,
    room: OwnedSemaphorePermit,
    line: &mut Line,
) -> Result<(Bytes, Outcome), SendError> {
    let patience = if visit.upstream.is_child() { START_TIME } else { gw.settings.call_time };
    let exchanging = tokio::time::timeout(patience, exchanged(gw, visit, request, trail, line));
    let (message, exchange) = exchanging.await.unwrap_or(Err(SendError::Timeout))?;
    let gone = |what: &str| SendError::Unusable(what.to_owned());
    let (text, outcome) =
        answer(visit, &message, request.id(), &gw.settings.reply).ok_or_else(|| gone("the answer cannot be read"))?;
    let Some(result) = result_text(&message, &gw.settings.reply)? else { return Ok((text, outcome)) };
    let revision = revision_of(&result).ok_or_else(|| gone("the server speaks a revision that is not known here"))?;
    let client = ClientInfo::of(request.params().and_then(|params| params.get("clientInfo")));
    let handshake = Bytes::copy_from_slice(request.text().as_bytes());
    let (grant, server) = (visit.grant.config.id.clone(), visit.upstream.name().clone());
    let agreed = Agreed { grant, server, revision, client, handshake };
    let session = Session::new(agreed, exchange.link.clone(), room);
    let Some(session) = session.and_then(|session| gw.sessions.insert(session)) else {
        end_upstream(gw, &visit.upstream, exchange.link.clone()).await;
        return Err(gone("there is no room for another session"));
    };
    if has_tasks(&result) {
        session.note_tasks();
    }
    if line.open(&session) {
        gw.keep_session(&session).await;
    }
    Ok((text, outcome))
}

fn revision_of(result: &[u8]) -> Option<Revision> {
    let document = read(result, &gatelodge_json::Limits::REPLY).ok()?;
    document.root().get("protocolVersion")?.as_str()?.parse().ok()
}

fn has_tasks(result: &[u8]) -> bool {
    str::from_utf8(result).is_ok_and(|result| gatelodge_mcp::has_tasks(result, Era::Legacy))
}

/// Does the handshake again with an upstream that has forgotten the session, if it was opened just `openings` times
/// when the message was sent that shows it: of many calls one does it. Nothing of a call is repeated. Where the
/// upstream will not have the session as it was, the client has to begin anew.
pub(crate) async fn again(gw: &Gateway, visit: &Visit, openings: Option<u64>) {
    let Some(session) = visit.session() else { return };
    let patience = if visit.upstream.is_child() { START_TIME } else { gw.settings.connect_time * 2 };
    let opening = async {
        let _one_at_a_time = session.reopening.lock().await;
        // Those who waited share what came of it, be it nothing.
        if Some(session.openings()) == openings {
            open_again(gw, visit, session).await;
        }
    };
    if tokio::time::timeout(patience, opening).await.is_err() {
        session.note_opening();
    }
}

async fn open_again(gw: &Gateway, visit: &Visit, session: &Session) {
    match shaken(gw, visit, session).await {
        Some((opened, result)) if revision_of(&result) == Some(session.revision()) => {
            session.set_link(opened);
            if has_tasks(&result) {
                session.note_tasks();
            }
            let said = visit.addressed(Outgoing::note(INITIALIZED));
            if let Some(permit) = Permit::of_always_allowed("notifications/initialized", said) {
                // A server that does not hear it says so at the next call.
                let _ = tell(gw, visit, permit).await;
            }
        }
        // It speaks otherwise now; what was agreed with the client does not hold any more.
        Some(_) => gw.forget_session(session).await,
        // A bad moment; the next call tries again.
        None => session.note_opening(),
    }
}

/// Opens a session anew that comes from another life of the gateway, or whose process has ended or runs by another
/// configuration than the one in force.
pub(crate) async fn reopen_if_over(gw: &Gateway, visit: &Visit) {
    let Some(session) = visit.session() else { return };
    let openings = session.openings();
    let is_over = match session.link() {
        Link::Unopened => true,
        Link::Child(child) => child.is_over() || !child.is_of(&visit.upstream),
        Link::None | Link::Http(_) => false,
    };
    if is_over {
        make_room_for_child(gw, visit).await;
        again(gw, visit, Some(openings)).await;
    }
}

/// Opens a session anew that comes from another life of the gateway. A process that has ended is let rest until a
/// request needs it.
pub(crate) async fn open_if_restored(gw: &Gateway, visit: &Visit) {
    if visit.session().is_some_and(|session| matches!(session.link(), Link::Unopened)) {
        reopen_if_over(gw, visit).await;
    }
}

/// Where as many processes run as may, ends the one that was not used for longest.
async fn make_room_for_child(gw: &Gateway, visit: &Visit) {
    let is_full = visit.upstream.is_child() && !visit.upstream.has_room_for_child();
    if is_full && gw.sessions.end_least_used_child(visit.upstream.name()) {
        let _ = tokio::time::timeout(START_TIME, visit.upstream.room_for_child()).await;
    }
}

async fn shaken(gw: &Gateway, visit: &Visit, session: &Session) -> Option<(Link, Bytes)> {
    let Ok(Message::Request(request)) = read_message(session.handshake(), &gw.settings.request) else { return None };
    let call = gw.new_call();
    let text = request.paged(&Id::string(call.as_str()), None);
    let permit = Permit::of_always_allowed(Method::Initialize.name(), Outgoing::request(text, call))?;
    let mut exchange = gw.client.send(&visit.upstream, permit).await.ok()?;
    let answer = own_answer(gw, &mut exchange, call).await.ok()??;
    let result = result_text(&answer, &gw.settings.reply).ok()??;
    revision_of(&result)?;
    Some((exchange.link.clone(), result))
}

/// Ends a session at both sides.
pub(crate) async fn end(gw: &Gateway, visit: &Visit) {
    let Some(session) = visit.session() else { return };
    gw.forget_session(session).await;
    session.end_stream();
    end_upstream(gw, &visit.upstream, session.link()).await;
    let mut trail = Trail::of_visit(visit, gw.new_call(), gw.clock.now());
    trail.method("DELETE");
    gw.write(trail.outcome(Outcome::Ok, None)).await;
}

/// Ends the upstream's own session. One that does not hear of it forgets by itself.
async fn end_upstream(gw: &Gateway, upstream: &Upstream, link: Link) {
    if matches!(link, Link::None | Link::Unopened) {
        return;
    }
    let _ = tokio::time::timeout(gw.settings.connect_time, gw.client.send(upstream, Permit::to_end(link))).await;
}

impl Gateway {
    /// A place for one more session of a grant. Where there is none, sessions that nobody uses go first.
    pub(crate) async fn place_for_session(&self, grant: &LiveGrant) -> Option<OwnedSemaphorePermit> {
        let take = || Arc::clone(&grant.sessions).try_acquire_owned().ok().filter(|_| self.sessions.has_room());
        if let Some(room) = take() {
            return Some(room);
        }
        self.end_idle_sessions().await;
        take()
    }

    /// Forgets sessions that nobody uses, at both sides.
    pub(crate) async fn end_idle_sessions(&self) {
        let (live, now) = (self.live(), self.clock.now());
        let grants: HashSet<_> =
            live.grants().filter(|grant| !grant.is_expired(now)).map(|grant| grant.config.id.clone()).collect();
        drop(live);
        for session in self.sessions.sweep(|grant| grants.contains(grant)) {
            let upstream = self.live().server(session.server()).cloned();
            if let Some(upstream) = upstream {
                end_upstream(self, &upstream, session.link()).await;
            }
        }
    }
}
