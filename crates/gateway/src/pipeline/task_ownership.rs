//! Task ownership: recorded when a call creates a task, and checked for every request about that task.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gatelodge_json::{JsonValue, read};
use gatelodge_mcp::{ClientRequest, Method, ServerMessage, ServerRequest, ServerResponsePayload, read_server_message};
use gatelodge_mutants::mutant;
use gatelodge_policy::Decision;
use gatelodge_store::{EnforcementMode, IdDigest, StoreError, TaskOwner};
use tracing::warn;

use crate::body::MessageBody;
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::services::GatewayServices;
use crate::session::ProgressRelay;
use crate::upstream::UpstreamSessionLink;

/// Minimum and maximum time for which ownership is stored. Between these limits, it is stored for as long as the server
/// says that it keeps the task. Some servers keep tasks longer than announced, and some forever.
const MIN_OWNERSHIP_TTL: Duration = Duration::from_secs(24 * 3_600);
const MAX_OWNERSHIP_TTL: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Maximum size of a response that creates a task; real ones have a few hundred bytes.
const MAX_TASK_RESPONSE_BYTES: usize = 1 << 20;

/// Returns whether the policy allows access to a task that a tool created. If the tool's definition is unknown, for
/// example after a change, access is denied.
pub(crate) fn is_task_visible(gw: &GatewayServices, ctx: &RequestContext, tool: &str) -> bool {
    if ctx.server_access.mode == EnforcementMode::Observe {
        return true;
    }
    let listing = ctx.tool_registry().current();
    let subject = RequestSubject::Task { id: "".into(), tool: tool.to_owned() };
    matches!(subject.decide(ctx, listing.as_deref(), gw.clock.now()), Decision::Allow(_))
}

/// Returns the key of a task. A session with its own process or connection has its own tasks, whose ids may clash with
/// those of other sessions.
pub(crate) fn task_id_hash(ctx: &RequestContext, id: &str) -> IdDigest {
    let scope = match ctx.session() {
        Some(session)
            if matches!(
                session.upstream_link.current(),
                UpstreamSessionLink::Process(_) | UpstreamSessionLink::Sse(_)
            ) =>
        {
            session.id_hash().to_string()
        }
        _ => String::new(),
    };
    IdDigest::of(&[ctx.upstream.name().as_str(), &scope, id])
}

/// Records the owner of a task that a call has created, before the client learns its id.
pub(crate) async fn record_task_owner(
    gw: &GatewayServices,
    ctx: &RequestContext,
    tool: &str,
    text: &MessageBody,
    progress: Option<(&str, Arc<ProgressRelay>)>,
) {
    // Large responses do not create tasks.
    if !ctx.can_use_tasks() || text.len() > MAX_TASK_RESPONSE_BYTES {
        return;
    }
    let text = text.clone().into_bytes();
    let Ok(ServerMessage::Response(reply)) = read_server_message(&text, &gw.settings.reply_limits) else { return };
    let ServerResponsePayload::Result(result) = reply.payload() else { return };
    let Some(task) = ctx.created_task(result) else { return };
    ctx.upstream.note_tasks();
    if let Some(session) = ctx.session() {
        session.tasks.note_server_task();
        if let Some((own, progress_relay)) = progress {
            session.tasks.note_progress(own, progress_relay);
        }
    }
    let now = gw.clock.now();
    let ttl = task.ttl.map_or(MAX_OWNERSHIP_TTL, Duration::from_millis).clamp(MIN_OWNERSHIP_TTL, MAX_OWNERSHIP_TTL);
    let row = TaskOwner {
        id: task_id_hash(ctx, &task.id),
        grant: ctx.grant.config.id.clone(),
        server: ctx.upstream.name().clone(),
        tool: tool.to_owned(),
        expires_at: now.checked_add(ttl).unwrap_or(now),
    };
    if let Err(error) = gw.task_owners.put(row, now).await {
        let server = ctx.upstream.name();
        warn!(server.name = %server, error = %error, "cannot store the owner of a task that `{tool}` of `{server}` created, so no client can use it: {error}");
    }
}

/// Returns whether a server's notification about a task may be passed to the client.
pub(crate) async fn is_notification_visible(gw: &GatewayServices, ctx: &RequestContext, params: &str) -> bool {
    let Ok(document) = read(params.as_bytes(), &gw.settings.reply_limits) else { return false };
    let Some(id) = document.root().get("taskId").and_then(|id| id.as_str()) else { return false };
    match gw.owned_task_tool(ctx, &id).await {
        Ok(Some(tool)) => is_task_visible(gw, ctx, &tool) || mutant!("task-update-skips-policy"),
        Ok(None) => is_unowned_and_observed(gw, ctx, &id).await.unwrap_or_default(),
        Err(_) => false,
    }
}

/// Returns whether a task without a known owner is shown because the grant is in observe mode. The task may have been
/// created without going through the gateway.
///
/// # Errors
/// The store fails.
pub(crate) async fn is_unowned_and_observed(
    gw: &GatewayServices,
    ctx: &RequestContext,
    id: &str,
) -> Result<bool, StoreError> {
    Ok(ctx.server_access.mode == EnforcementMode::Observe && gw.find_task_row(ctx, id).await?.is_none())
}

/// If a server request is about a task that the client runs, returns the method with which the server requested the
/// task: the policy's rule for that method also applies to this request. Returns `None` for any other request.
pub(crate) fn client_task_method(
    gw: &GatewayServices,
    ctx: &RequestContext,
    server_request: &ServerRequest<'_>,
) -> Option<Result<String, Refusal>> {
    if !matches!(server_request.method(), Method::TasksGet | Method::TasksResult | Method::TasksCancel) {
        return None;
    }
    let document = server_request.params().and_then(|params| read(params.as_bytes(), &gw.settings.reply_limits).ok());
    let id = document.as_ref().and_then(|params| params.root().get("taskId")?.as_str());
    let method = id.zip(ctx.session()).and_then(|(id, session)| session.tasks.find_task_method(&id));
    Some(method.ok_or(Refusal::UnknownReference))
}

/// Returns whether a listen request names tasks.
pub(crate) fn has_task_ids(request: &ClientRequest<'_>) -> bool {
    task_ids(request).is_some_and(|named| named.elements().next().is_some())
}

pub(crate) fn task_ids<'r>(request: &'r ClientRequest<'_>) -> Option<JsonValue<'r>> {
    request.params()?.get("notifications")?.get("taskIds")
}

/// Returns the first task in a listen request that does not belong to the grant.
///
/// # Errors
/// The store fails.
pub(crate) async fn find_unknown_task(
    gw: &GatewayServices,
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

/// Returns the tools that created the grant's tasks on the server, by task key.
pub(crate) async fn owned_tasks(
    gw: &GatewayServices,
    ctx: &RequestContext,
) -> Result<HashMap<IdDigest, String>, StoreError> {
    let now = gw.clock.now();
    let rows = gw.task_owners.list_for_grant(&ctx.grant.config.id, ctx.upstream.name()).await?;
    Ok(rows.into_iter().filter(|task| task.expires_at > now).map(|task| (task.id, task.tool)).collect())
}

impl GatewayServices {
    /// Returns the tool that created a task, if the task belongs to the grant.
    pub(crate) async fn owned_task_tool(&self, ctx: &RequestContext, id: &str) -> Result<Option<String>, StoreError> {
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
            warn!(server.name = %server, error = %error, "cannot look up the owner of a task of `{server}`: {error}");
        })
    }

    /// Deletes expired ownership records.
    pub(crate) async fn delete_expired_tasks(&self) {
        if let Err(error) = self.task_owners.sweep(self.clock.now()).await {
            warn!(error = %error, "cannot delete expired tasks: {error}");
        }
    }
}
