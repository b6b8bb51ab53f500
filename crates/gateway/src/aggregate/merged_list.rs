//! Merges the lists of all servers. Pinned tools of a server that does not respond stay in the list, marked as
//! unavailable.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use gatelodge_json::{JsonKind, JsonLimits, read};
use gatelodge_mcp::aggregate_names::{prefix_response, with_meta_member};
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{ClientRequest, Method, ProtocolGeneration, code};
use gatelodge_store::CallOutcome;
use tokio::sync::mpsc;

use super::fan_out::{fan_out, request_server};
use super::late_list_cache::LateListKey;
use super::{AggregateRequest, UNAVAILABLE_META_KEY};
use crate::call_recorder::CallRecorder;
use crate::methods::list_requests::{list_member_names, pinned_tools, reject_cursor};
use crate::reply;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::runtime::InFlightGuard;
use crate::services::GatewayServices;

/// One server's contribution to a list: its entries, or the reason why they are missing.
struct ServerListPart {
    ctx: RequestContext,
    entries: Vec<String>,
    unavailable_reason: Option<String>,
}

/// Handles a list request on the aggregate endpoint.
pub(super) async fn handle_aggregate_list(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    let Some(mut responder) = reject_cursor(gw, request, aggregate.client(), &mut recorder, responder).await else {
        return;
    };
    match InFlightGuard::for_aggregate(&aggregate.grant) {
        Ok(in_flight) => responder.hold_in_flight_guard(in_flight),
        Err(refusal) => {
            responder.finish(reply::internal_error_reply(request.id(), recorder.call_id(), &refusal)).await;
            return gw.record_refusal(&mut recorder, &refusal).await;
        }
    }
    let parts = collect_parts(gw, aggregate, request, &mut responder).await;
    let result = merge_lists(aggregate, request.method(), &parts);
    responder.finish(gatelodge_mcp::result_response(request.id(), &result).into()).await;
    gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
}

async fn collect_parts(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    responder: &mut Responder,
) -> Vec<ServerListPart> {
    let (notifications, mut relayed) = mpsc::channel::<Bytes>(1);
    let text: Arc<str> = request.text().into();
    let fetching = async {
        let responses = fan_out(gw, aggregate, |gw, ctx| {
            let key = LateListKey::new(aggregate, &ctx, request.method());
            request_or_cached(gw, aggregate.clone(), ctx, key, Arc::clone(&text), notifications.clone())
        });
        let mut parts = Vec::new();
        for (ctx, responses) in responses.await {
            let late = |fetching: Weak<()>| {
                let key = LateListKey::new(aggregate, &ctx, request.method());
                aggregate
                    .caches
                    .late_lists
                    .mark_late(&key, &fetching, &gw.config.snapshot())
                    .ok_or_else(|| "the server did not answer in time".to_owned())
            };
            let responses = responses.unwrap_or_else(late);
            parts.push(build_part(gw, aggregate, request.method(), ctx, responses).await);
        }
        parts
    };
    let mut fetching = std::pin::pin!(fetching);
    loop {
        tokio::select! {
            biased;
            Some(text) = relayed.recv() => responder.send(str::from_utf8(&text).unwrap_or_default()).await,
            parts = &mut fetching => return parts,
        }
    }
}

/// Sends the list request to one server. Uses the cached response if an earlier request is still running.
async fn request_or_cached(
    gw: Arc<GatewayServices>,
    aggregate: AggregateRequest,
    ctx: RequestContext,
    key: LateListKey,
    text: Arc<str>,
    notifications: mpsc::Sender<Bytes>,
) -> Result<Bytes, String> {
    let snapshot = gw.config.snapshot().clone();
    if aggregate.caches.late_lists.is_in_progress(&key) {
        return aggregate
            .caches
            .late_lists
            .find_response(&key, &snapshot)
            .ok_or_else(|| "the server has not answered yet".to_owned());
    }
    let answer = request_server(&gw, &aggregate, &ctx, &text, notifications).await?;
    aggregate.caches.late_lists.store_response(&key, &answer, &snapshot);
    Ok(answer)
}

/// Builds one server's contribution from its response.
async fn build_part(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    method: &Method<'_>,
    ctx: RequestContext,
    response: Result<Bytes, String>,
) -> ServerListPart {
    match response.and_then(|answer| parse_entries(method, &answer, &gw.settings.reply_limits)) {
        Ok(mut entries) => {
            if *method == Method::ToolsList {
                // Pinned tools of an unavailable server are sorted as well, so the order does not depend on
                // availability.
                entries.sort_by(|(one, _), (other, _)| one.cmp(other));
                aggregate.caches.warned_names.warn_of_long_names(&ctx, entries.iter().map(|(name, _)| name.as_str()));
            }
            ServerListPart {
                ctx,
                entries: entries.into_iter().map(|(_, entry)| entry).collect(),
                unavailable_reason: None,
            }
        }
        Err(why) if *method == Method::ToolsList => {
            let client_ctx = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..ctx.clone() };
            let entries = pinned_tools(gw, &client_ctx).await;
            let entries = entries.iter().filter_map(|entry| mark_unavailable(gw, &ctx, entry, &why)).collect();
            ServerListPart { ctx, entries, unavailable_reason: Some(why) }
        }
        Err(why) => ServerListPart { ctx, entries: Vec::new(), unavailable_reason: Some(why) },
    }
}

/// Returns the entries of a response and their names. A server that does not support the method has no entries.
///
/// # Errors
/// The response is an error or is not a list. The returned message says why.
fn parse_entries(method: &Method<'_>, answer: &Bytes, limits: &JsonLimits) -> Result<Vec<(String, String)>, String> {
    let unreadable = || "the server's list cannot be read".to_owned();
    let document = read(answer, limits).map_err(|_| unreadable())?;
    if let Some(error) = document.root().get("error") {
        let is_unknown = error.get("code").is_some_and(|code| code.raw() == code::METHOD_NOT_FOUND.to_string());
        let why = error.get("message").and_then(|message| message.as_str()).unwrap_or_default();
        return if is_unknown { Ok(Vec::new()) } else { Err(why.into_owned()) };
    }
    let (member, key) = list_member_names(method);
    let list = document.root().get("result").and_then(|result| result.get(member));
    let list = list.filter(|list| list.kind() == JsonKind::Array).ok_or_else(unreadable)?;
    let named = list.elements().map(|entry| (entry.get(key).and_then(|name| name.as_str()), entry.raw()));
    Ok(named.map(|(name, entry)| (name.unwrap_or_default().into_owned(), entry.to_owned())).collect())
}

/// Returns a pinned tool as it is listed while its server is unavailable.
fn mark_unavailable(gw: &GatewayServices, ctx: &RequestContext, entry: &str, why: &str) -> Option<String> {
    let text = format!(r#"{{"result":{{"tools":[{entry}]}}}}"#);
    let text = prefix_response(ctx.upstream.name().as_str(), &Method::ToolsList, &text, &gw.settings.reply_limits);
    let document = read(text.as_bytes(), &gw.settings.reply_limits).ok()?;
    let tool = document.root().get("result")?.get("tools")?.elements().next()?;
    Some(ctx.upstream.secret_redactor().redact_json(with_meta_member(tool, UNAVAILABLE_META_KEY, &to_json_string(why))))
}

/// Builds the merged result, which names the unavailable servers in `_meta`.
fn merge_lists(aggregate: &AggregateRequest, method: &Method<'_>, parts: &[ServerListPart]) -> String {
    let (member, _) = list_member_names(method);
    let entries: Vec<&str> = parts.iter().flat_map(|part| &part.entries).map(String::as_str).collect();
    let mut out = match aggregate.client_protocol.generation() {
        ProtocolGeneration::Stateful => "{".to_owned(),
        ProtocolGeneration::Stateless => r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","#.to_owned(),
    };
    out.push_str(&format!("\"{member}\":[{}]", entries.join(",")));
    let missing = parts.iter().filter_map(|part| Some((part.ctx.upstream.name(), part.unavailable_reason.as_ref()?)));
    let missing: Vec<String> = missing.map(|(server, why)| format!("\"{server}\":{}", to_json_string(why))).collect();
    if !missing.is_empty() {
        out.push_str(&format!(r#","_meta":{{"{UNAVAILABLE_META_KEY}":{{{}}}}}"#, missing.join(",")));
    }
    out.push('}');
    out
}
