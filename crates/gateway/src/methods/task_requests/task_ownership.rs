//! Whose a task is: noted when the answer to a call makes it, looked up whenever somebody speaks of it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gatelodge_json::{JsonValue, read};
use gatelodge_mcp::{
    ClientRequest, Method, ServerMessage as Said, ServerRequest, ServerResponsePayload, find_created_task,
    read_server_message,
};
use gatelodge_mutants::mutant;
use gatelodge_policy::{Decision, decide};
use gatelodge_store::{EnforcementMode, IdHash, StoreError, TaskOwner};
use memchr::memmem::Finder;
use tracing::warn;

use crate::Gateway;
use crate::http_server::responder::Responder;
use crate::message_body::MessageBody;
use crate::methods::tool_listing_refresh::listing_for_tool;
use crate::pipeline::{ProgressRelay, Refusal, RequestSubject};
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::upstream::UpstreamLink;

/// How long it is known whose a task is: as long as the server keeps it, but within these. Some servers keep theirs
/// longer than they say, and some for ever.
const MIN_OWNERSHIP_TTL: Duration = Duration::from_secs(24 * 3_600);
const MAX_OWNERSHIP_TTL: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The most bytes of an answer that makes a task; real ones have some hundreds.
const MAX_TASK_RESPONSE_BYTES: usize = 1 << 20;

/// Asks what the server offers, if that is not known. A server that does not say offers nothing.
pub(super) async fn ensure_tool_listing(gw: &Gateway, ctx: &RequestContext, tool: &str, responder: &mut Responder) {
    if ctx.server_access.mode == EnforcementMode::Enforce {
        let _ = listing_for_tool(gw, ctx, tool, responder).await;
    }
}

/// Whether the policy lets the grant hear of a task of a tool. What is not known of the tool's definition, because
/// nobody has asked since it changed, is no yes.
pub(super) fn is_task_visible(gw: &Gateway, ctx: &RequestContext, tool: &str) -> bool {
    if ctx.server_access.mode == EnforcementMode::Observe {
        return true;
    }
    let Some(policy) = &ctx.server_access.policy else { return false };
    let listing = ctx.tool_registry().current();
    let subject = RequestSubject::Task { id: "".into(), tool: tool.to_owned() };
    matches!(
        decide(&policy.policy, &subject.to_policy_call(ctx, listing.as_deref()), gw.clock.now()),
        Decision::Allow(_)
    )
}

/// By what a task is known. A process or a connection of a session's own has tasks of its own, and may use the ids of
/// another.
pub(super) fn task_id_hash(ctx: &RequestContext, id: &str) -> IdHash {
    let scope = match ctx.session() {
        Some(session) if matches!(session.upstream_link(), UpstreamLink::Process(_) | UpstreamLink::Sse(_)) => {
            session.id_hash().to_string()
        }
        _ => String::new(),
    };
    IdHash::of(&[ctx.upstream.name().as_str(), &scope, id])
}

/// Notes whose a task is that the answer to a call has made, before the caller gets to know it.
pub(crate) async fn record_task_owner(
    gw: &Gateway,
    ctx: &RequestContext,
    tool: &str,
    text: &MessageBody,
    progress: Option<(&str, Arc<ProgressRelay>)>,
) {
    static TASK_ID_FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"taskId\""));
    // Most answers do not have the word in them at all, and large ones are not worth looking through.
    if ctx.translation() != ProtocolTranslation::None
        || text.len() > MAX_TASK_RESPONSE_BYTES
        || !text.outline().any(|part| TASK_ID_FINDER.find(part).is_some())
    {
        return;
    }
    let text = text.clone().into_bytes();
    let Ok(Said::Response(reply)) = read_server_message(&text, &gw.settings.reply_limits) else { return };
    let ServerResponsePayload::Result(result) = reply.payload() else { return };
    let Some(task) = find_created_task(result, ctx.generation()) else { return };
    ctx.upstream.note_tasks();
    if let Some(session) = ctx.session() {
        session.tasks.note_server_task();
        if let Some((own, progress_relay)) = progress {
            session.tasks.note_progress(own, progress_relay);
        }
    }
    let now = gw.clock.now();
    let life = task.ttl.map_or(MAX_OWNERSHIP_TTL, Duration::from_millis).clamp(MIN_OWNERSHIP_TTL, MAX_OWNERSHIP_TTL);
    let row = TaskOwner {
        id: task_id_hash(ctx, &task.id),
        grant: ctx.grant.config.id.clone(),
        server: ctx.upstream.name().clone(),
        tool: tool.to_owned(),
        expires_at: now.checked_add(life).unwrap_or(now),
    };
    if let Err(error) = gw.task_owners.put(row, now).await {
        let server = ctx.upstream.name();
        warn!(server.name = %server, error = %error, "nobody can ask for a task that `{tool}` of `{server}` has made: {error}");
    }
}

/// Whether what a server says of a task may go to the caller.
pub(crate) async fn is_notification_visible(gw: &Gateway, ctx: &RequestContext, params: &str) -> bool {
    let Ok(document) = read(params.as_bytes(), &gw.settings.reply_limits) else { return false };
    let Some(id) = document.root().get("taskId").and_then(|id| id.as_str()) else { return false };
    match gw.owned_task_tool(ctx, &id).await {
        Ok(Some(tool)) => is_task_visible(gw, ctx, &tool) || mutant!("task-update-skips-policy"),
        Ok(None) => is_unowned_and_observed(gw, ctx, &id).await.unwrap_or_default(),
        Err(_) => false,
    }
}

/// Whether a task that is not the grant's own is shown to it all the same: one that nobody has may have been made past
/// us, and who only observes is not kept from it.
///
/// # Errors
/// The store cannot say.
pub(super) async fn is_unowned_and_observed(gw: &Gateway, ctx: &RequestContext, id: &str) -> Result<bool, StoreError> {
    Ok(ctx.server_access.mode == EnforcementMode::Observe && gw.find_task_row(ctx, id).await?.is_none())
}

/// For what an upstream asks about a task of the client's own: the method by which it asked for what the task does,
/// whose rule it is under. None for any other request.
pub(crate) fn client_task_method(
    gw: &Gateway,
    ctx: &RequestContext,
    asked: &ServerRequest<'_>,
) -> Option<Result<String, Refusal>> {
    if !matches!(asked.method(), Method::TasksGet | Method::TasksResult | Method::TasksCancel) {
        return None;
    }
    let document = asked.params().and_then(|params| read(params.as_bytes(), &gw.settings.reply_limits).ok());
    let id = document.as_ref().and_then(|params| params.root().get("taskId")?.as_str());
    let method = id.zip(ctx.session()).and_then(|(id, session)| session.tasks.find_task_method(&id));
    Some(method.ok_or(Refusal::UnknownReference))
}

/// Whether a request wants to listen to tasks.
pub(crate) fn has_task_ids(request: &ClientRequest<'_>) -> bool {
    task_ids(request).is_some_and(|named| named.elements().next().is_some())
}

fn task_ids<'r>(request: &'r ClientRequest<'_>) -> Option<JsonValue<'r>> {
    request.params()?.get("notifications")?.get("taskIds")
}

/// The first task that a request wants to listen to and that the grant may not hear of.
///
/// # Errors
/// The store cannot say whose they are.
pub(crate) async fn find_hidden_task(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    responder: &mut Responder,
) -> Result<Option<String>, StoreError> {
    for value in task_ids(request).iter().flat_map(|named| named.elements()) {
        let id = value.as_str().unwrap_or(value.raw().into());
        let may_hear = match gw.owned_task_tool(ctx, &id).await? {
            Some(tool) => {
                ensure_tool_listing(gw, ctx, &tool, responder).await;
                is_task_visible(gw, ctx, &tool)
            }
            None => is_unowned_and_observed(gw, ctx, &id).await?,
        };
        if !may_hear {
            return Ok(Some(id.into_owned()));
        }
    }
    Ok(None)
}

/// The first task that a request wants to listen to and that is not there for the grant.
///
/// # Errors
/// The store cannot say whose they are.
pub(crate) async fn find_unknown_task(
    gw: &Gateway,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
) -> Result<Option<String>, StoreError> {
    for id in task_ids(request).iter().flat_map(|named| named.elements()).filter_map(|id| id.as_str()) {
        if gw.owned_task_tool(ctx, &id).await?.is_none() && !is_unowned_and_observed(gw, ctx, &id).await? {
            return Ok(Some(id.into_owned()));
        }
    }
    Ok(None)
}

/// The tools whose calls made the grant's tasks at the server, by what the tasks are known by.
pub(super) async fn owned_tasks(gw: &Gateway, ctx: &RequestContext) -> Result<HashMap<IdHash, String>, StoreError> {
    let now = gw.clock.now();
    let rows = gw.task_owners.list_for_grant(&ctx.grant.config.id, ctx.upstream.name()).await?;
    Ok(rows.into_iter().filter(|task| task.expires_at > now).map(|task| (task.id, task.tool)).collect())
}

impl Gateway {
    /// The tool whose call made a task; none unless the grant made it.
    pub(super) async fn owned_task_tool(&self, ctx: &RequestContext, id: &str) -> Result<Option<String>, StoreError> {
        let own = self
            .find_task_row(ctx, id)
            .await?
            .filter(|task| task.grant == ctx.grant.config.id && task.expires_at > self.clock.now());
        Ok(own.map(|task| task.tool))
    }

    async fn find_task_row(&self, ctx: &RequestContext, id: &str) -> Result<Option<TaskOwner>, StoreError> {
        let found = self.task_owners.find(task_id_hash(ctx, id)).await;
        found.inspect_err(|error| {
            let server = ctx.upstream.name();
            warn!(server.name = %server, error = %error, "it cannot be said whose a task of `{server}` is: {error}");
        })
    }

    /// Forgets tasks that nobody asks for any more.
    pub(crate) async fn delete_expired_tasks(&self) {
        if let Err(error) = self.task_owners.sweep(self.clock.now()).await {
            warn!(error = %error, "tasks that have expired cannot be forgotten: {error}");
        }
    }
}
