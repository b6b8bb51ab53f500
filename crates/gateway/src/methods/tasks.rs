//! Tasks: work that goes on after the answer. Knowing an id is no authority: a task is there for the grant whose call
//! made it, under the rule of the tool that was called, as the policy stands now. Anybody else's is like one that is
//! not there.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_json::read;
use gatelodge_mcp::{
    Caching, Id, Method, Payload, REQUIRED_FOR_TASKS, Request, Upstream as Said, WireError, code, edit_list, error,
    made_task, read_upstream,
};
use gatelodge_policy::{Decision, decide};
use gatelodge_store::{IdHash, Mode, Outcome, StoreError, TaskRow};
use http::StatusCode;
use tracing::warn;

use super::list::{Pages, Wanted, fetch};
use super::offer::offer_for;
use super::pass::fail;
use super::{call, initialize};
use crate::Gateway;
use crate::call::{Facts, Refusal, Room, Trail, answer};
use crate::http::line::Line;
use crate::http::reply;
use crate::upstream::{Link, SendError};
use crate::visit::{Side, Visit};

/// How long it is known whose a task is: as long as the server keeps it, but within these. Some servers keep theirs
/// longer than they say, and some for ever.
const AT_LEAST: Duration = Duration::from_secs(24 * 3_600);
const AT_MOST: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The most bytes of an answer that makes a task; real ones have some hundreds.
const MAX_ANSWER: usize = 1 << 20;

/// Answers a request about tasks.
pub(crate) async fn request(gw: &Gateway, visit: &Visit, request: &Request<'_>, mut trail: Trail, mut line: Line) {
    match Room::for_request(visit, request.method()) {
        Ok(room) => line.hold(room),
        Err(refusal) => return refuse(gw, request, trail, line, &refusal).await,
    }
    initialize::reopen_if_over(gw, visit).await;
    let method = Facts::Method { name: request.method().name() };
    if !is_known(visit, request.method()) {
        return call::carry(gw, visit, request, &method, trail, line).await;
    }
    if matches!(visit.side, Side::Modern(_)) && !request.meta().declares_tasks() {
        let what = "the client has not declared the extension for tasks";
        let text = error(Some(request.id()), code::MISSING_CLIENT_CAPABILITY, what, Some(REQUIRED_FOR_TASKS));
        line.finish_with(StatusCode::BAD_REQUEST, text.into()).await;
        return gw.write(trail.rejected(code::MISSING_CLIENT_CAPABILITY, what)).await;
    }
    if *request.method() == Method::TasksList {
        return list(gw, visit, request, trail, line).await;
    }
    let id = match request.task_id() {
        Ok(id) => id,
        Err(fault) => return reject(gw, visit, trail, line, &fault).await,
    };
    match gw.own_task(visit, &id).await {
        Ok(Some(tool)) => call::carry(gw, visit, request, &Facts::Task { id, tool }, trail, line).await,
        Ok(None) if is_passed_over(gw, visit, &id).await => {
            call::carry(gw, visit, request, &method, trail, line).await;
        }
        Ok(None) => {
            trail.about(visit, Some(&id), None);
            gw.metrics.refused(Refusal::Unaddressed.code());
            line.finish(reply::unknown_task(request.id(), &id).into()).await;
            gw.write(trail.refused(&Refusal::Unaddressed)).await;
        }
        Err(fault) => refuse(gw, request, trail, line, &Refusal::Store(fault)).await,
    }
}

/// Whether there is such a method at all in the client's revision and at the server.
fn is_known(visit: &Visit, method: &Method<'_>) -> bool {
    match (&visit.side, method) {
        (Side::Modern(_), Method::TasksGet | Method::TasksUpdate | Method::TasksCancel) => visit.upstream.has_tasks(),
        (
            Side::Legacy(Some(session)),
            Method::TasksGet | Method::TasksResult | Method::TasksList | Method::TasksCancel,
        ) => session.has_tasks(),
        _ => false,
    }
}

async fn refuse(gw: &Gateway, request: &Request<'_>, mut trail: Trail, line: Line, refusal: &Refusal) {
    gw.metrics.refused(refusal.code());
    line.finish(reply::fault(request.id(), trail.call(), refusal)).await;
    gw.write(trail.refused(refusal)).await;
}

async fn reject(gw: &Gateway, visit: &Visit, mut trail: Trail, line: Line, fault: &WireError) {
    let (status, text) = reply::wire_error(fault, visit.era());
    line.finish_with(status, text.into()).await;
    gw.write(trail.rejected(fault.code, &fault.message)).await;
}

/// Answers `tasks/list`: the server's, without what is not the grant's own.
async fn list(gw: &Gateway, visit: &Visit, request: &Request<'_>, mut trail: Trail, mut line: Line) {
    match request.cursor() {
        Ok(None) => {}
        Ok(Some(_)) => {
            let what = "the cursor is not one of this gateway";
            line.finish(error(Some(request.id()), code::INVALID_PARAMS, what, None).into()).await;
            return gw.write(trail.rejected(code::INVALID_PARAMS, what)).await;
        }
        Err(fault) => return reject(gw, visit, trail, line, &fault).await,
    }
    match listed(gw, visit, request, &mut line).await {
        Ok((text, outcome)) => {
            line.finish(visit.upstream.secrets().cut(text)).await;
            gw.write(trail.outcome(outcome, None)).await;
        }
        Err(Refusal::Upstream(fault)) => fail(gw, request.id(), &mut trail, fault, line).await,
        Err(refusal) => refuse(gw, request, trail, line, &refusal).await,
    }
}

async fn listed(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    line: &mut Line,
) -> Result<(Bytes, Outcome), Refusal> {
    let unreadable = || Refusal::Upstream(SendError::Unusable("the list cannot be read".to_owned()));
    let progress = request.meta().progress_token();
    let wanted = Wanted { method: request.method(), member: "tasks", progress: progress.as_ref() };
    let pages = match fetch(gw, visit, &wanted, line, |id, cursor| request.paged(id, cursor)).await? {
        Pages::Whole(pages) => pages,
        Pages::Error(message) => {
            return answer(visit, &message, request.id(), &gw.settings.reply).ok_or_else(unreadable);
        }
    };
    let (grant, now) = (&visit.grant.config.id, gw.clock.now());
    let own = gw.task_rows.of_grant(grant, visit.upstream.name()).await.map_err(Refusal::Store)?;
    let own: HashMap<IdHash, TaskRow> =
        own.into_iter().filter(|task| task.expires_at > now).map(|task| (task.id, task)).collect();
    if let Some(task) = own.values().next() {
        know_offer(gw, visit, &task.tool, line).await;
    }
    let documents: Option<Vec<_>> = pages.iter().map(|page| read(page, &gw.settings.reply).ok()).collect();
    let documents = documents.ok_or_else(unreadable)?;
    let mut entries = Vec::new();
    for entry in documents.iter().filter_map(|page| page.root().get("tasks")).flat_map(|tasks| tasks.elements()) {
        let Some(id) = entry.get("taskId").and_then(|id| id.as_str()) else { continue };
        let is_shown = match own.get(&hash(visit, &id)) {
            Some(task) => may_hear(gw, visit, &task.tool),
            None => is_passed_over(gw, visit, &id).await,
        };
        if is_shown {
            entries.push(entry.raw());
        }
    }
    let first = documents.first().ok_or_else(unreadable)?;
    let result = edit_list(first.root(), "tasks", &entries, Caching::Unsaid).ok_or_else(unreadable)?;
    Ok((gatelodge_mcp::result(request.id(), &result).into(), Outcome::Ok))
}

/// Asks what the server offers, if that is not known. A server that does not say offers nothing.
async fn know_offer(gw: &Gateway, visit: &Visit, tool: &str, line: &mut Line) {
    if visit.door.mode == Mode::Enforce {
        let _ = offer_for(gw, visit, tool, line).await;
    }
}

/// Whether the policy lets the grant hear of a task of a tool. What is not known of the tool's definition, because
/// nobody has asked since it changed, is no yes.
fn may_hear(gw: &Gateway, visit: &Visit, tool: &str) -> bool {
    if visit.door.mode == Mode::Observe {
        return true;
    }
    let Some(policy) = &visit.door.policy else { return false };
    let offer = visit.offers().current();
    let facts = Facts::Task { id: "".into(), tool: tool.to_owned() };
    matches!(decide(&policy.policy, &facts.call(visit, offer.as_deref()), gw.clock.now()), Decision::Allow(_))
}

/// By what a task is known. A process of a session's own has tasks of its own, and may use the ids of another.
fn hash(visit: &Visit, id: &str) -> IdHash {
    let scope = match visit.session() {
        Some(session) if matches!(session.link(), Link::Child(_)) => session.hash().to_string(),
        _ => String::new(),
    };
    IdHash::of(&[visit.upstream.name().as_str(), &scope, id])
}

/// Notes whose a task is that the answer to a call has made, before the caller gets to know it.
pub(crate) async fn note(gw: &Gateway, visit: &Visit, tool: &str, text: &Bytes, token: Option<(&str, Id<'_>)>) {
    // Most answers do not have the word in them at all, and large ones are not worth looking through.
    if text.len() > MAX_ANSWER || !str::from_utf8(text).is_ok_and(|text| text.contains("\"taskId\"")) {
        return;
    }
    let Ok(Said::Reply(reply)) = read_upstream(text, &gw.settings.reply) else { return };
    let Payload::Result(result) = reply.payload() else { return };
    let Some(task) = made_task(result, visit.era()) else { return };
    visit.upstream.note_tasks();
    if let Some(session) = visit.session() {
        session.note_tasks();
        if let Some((own, token)) = token {
            session.note_progress(own, token.into_owned());
        }
    }
    let now = gw.clock.now();
    let life = task.ttl.map_or(AT_MOST, Duration::from_millis).clamp(AT_LEAST, AT_MOST);
    let row = TaskRow {
        id: hash(visit, &task.id),
        grant: visit.grant.config.id.clone(),
        server: visit.upstream.name().clone(),
        tool: tool.to_owned(),
        expires_at: now.checked_add(life).unwrap_or(now),
    };
    if let Err(fault) = gw.task_rows.keep(row, now).await {
        let server = visit.upstream.name();
        warn!(server.name = %server, error = %fault, "nobody can ask for a task that `{tool}` of `{server}` has made: {fault}");
    }
}

/// Whether what a server says of a task may go to the caller.
pub(crate) async fn is_for(gw: &Gateway, visit: &Visit, params: &str) -> bool {
    let Ok(document) = read(params.as_bytes(), &gw.settings.reply) else { return false };
    let Some(id) = document.root().get("taskId").and_then(|id| id.as_str()) else { return false };
    match gw.own_task(visit, &id).await {
        Ok(Some(tool)) => may_hear(gw, visit, &tool),
        Ok(None) => is_passed_over(gw, visit, &id).await,
        Err(_) => false,
    }
}

/// Whether a task that is not the grant's own is shown to it all the same: one that nobody has may have been made past
/// us, and who only observes is not kept from it.
async fn is_passed_over(gw: &Gateway, visit: &Visit, id: &str) -> bool {
    visit.door.mode == Mode::Observe && matches!(gw.task_rows.find(hash(visit, id)).await, Ok(None))
}

/// The first task that a request wants to listen to and that the grant may not hear of.
pub(crate) async fn not_to_hear(gw: &Gateway, visit: &Visit, request: &Request<'_>, line: &mut Line) -> Option<String> {
    let named = request.params()?.get("notifications")?.get("taskIds")?;
    for value in named.elements() {
        let id = value.as_str().unwrap_or(value.raw().into());
        let may_hear = match gw.own_task(visit, &id).await {
            Ok(Some(tool)) => {
                know_offer(gw, visit, &tool, line).await;
                may_hear(gw, visit, &tool)
            }
            Ok(None) => is_passed_over(gw, visit, &id).await,
            Err(_) => false,
        };
        if !may_hear {
            return Some(id.into_owned());
        }
    }
    None
}

impl Gateway {
    /// The tool whose call made a task; none unless the grant made it.
    async fn own_task(&self, visit: &Visit, id: &str) -> Result<Option<String>, StoreError> {
        let found = self.task_rows.find(hash(visit, id)).await?;
        let own = found.filter(|task| task.grant == visit.grant.config.id && task.expires_at > self.clock.now());
        Ok(own.map(|task| task.tool))
    }

    /// Forgets tasks that nobody asks for any more.
    pub(crate) async fn sweep_tasks(&self) {
        if let Err(fault) = self.task_rows.sweep(self.clock.now()).await {
            warn!(error = %fault, "tasks that have expired cannot be forgotten: {fault}");
        }
    }
}
