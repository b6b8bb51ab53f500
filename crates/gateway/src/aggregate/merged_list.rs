//! The lists of all servers as one. A server that does not answer keeps its accepted tools in it, marked.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use gatelodge_json::{JsonKind, read};
use gatelodge_mcp::aggregate_names::{prefix_response, with_meta_member};
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mcp::{ClientRequest, Method, ProtocolGeneration, code};
use gatelodge_store::CallOutcome;
use tokio::sync::mpsc;

use super::fan_out::{fan_out, request_server};
use super::late_list_cache::LateListKey;
use super::{AggregateRequest, UNAVAILABLE_META_KEY};
use crate::Gateway;
use crate::http_server::reply;
use crate::http_server::responder::Responder;
use crate::methods::list_requests::{list_member_names, pinned_tools, reject_cursor};
use crate::pipeline::{CallRecorder, InFlightGuard};
use crate::request_context::RequestContext;

/// What one server has for a list: its entries, or why there are none.
struct ServerListPart {
    ctx: RequestContext,
    entries: Vec<String>,
    unavailable_reason: Option<String>,
}

/// Answers a list.
pub(super) async fn handle_aggregate_list(
    gw: &Arc<Gateway>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
) {
    let generation = aggregate.client_protocol.generation();
    let Some(mut responder) = reject_cursor(gw, request, generation, &mut recorder, responder).await else { return };
    match InFlightGuard::for_aggregate(&aggregate.grant) {
        Ok(in_flight) => responder.hold_in_flight_guard(in_flight),
        Err(refusal) => {
            responder.finish(reply::internal_error_reply(request.id(), recorder.call_id(), &refusal)).await;
            return gw.record_refusal(&mut recorder, &refusal).await;
        }
    }
    let shares = collect_parts(gw, aggregate, request, &mut responder).await;
    let result = merge_lists(aggregate, request.method(), &shares);
    responder.finish(gatelodge_mcp::result_response(request.id(), &result).into()).await;
    gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
}

async fn collect_parts(
    gw: &Arc<Gateway>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    responder: &mut Responder,
) -> Vec<ServerListPart> {
    let (notifications, mut said) = mpsc::channel::<Bytes>(1);
    let text: Arc<str> = request.text().into();
    let asking = async {
        let responses = fan_out(gw, aggregate, |gw, visit| {
            let key = LateListKey::new(aggregate, &visit, request.method());
            request_or_cached(gw, aggregate.clone(), visit, key, Arc::clone(&text), notifications.clone())
        });
        let mut shares = Vec::new();
        for (ctx, responses) in responses.await {
            let late = |asking: Weak<()>| {
                let key = LateListKey::new(aggregate, &ctx, request.method());
                gw.late_lists
                    .mark_late(&key, &asking, &gw.config_snapshot())
                    .ok_or_else(|| "the server did not answer in time".to_owned())
            };
            let responses = responses.unwrap_or_else(late);
            shares.push(build_part(gw, aggregate, request.method(), ctx, responses).await);
        }
        shares
    };
    let mut asking = std::pin::pin!(asking);
    loop {
        tokio::select! {
            biased;
            Some(text) = said.recv() => responder.send(str::from_utf8(&text).unwrap_or_default()).await,
            shares = &mut asking => return shares,
        }
    }
}

/// Asks one server. Of one that is late already it is taken what it said last.
async fn request_or_cached(
    gw: Arc<Gateway>,
    aggregate: AggregateRequest,
    ctx: RequestContext,
    key: LateListKey,
    text: Arc<str>,
    notifications: mpsc::Sender<Bytes>,
) -> Result<Bytes, String> {
    let snapshot = gw.config_snapshot().clone();
    if gw.late_lists.is_in_progress(&key) {
        return gw
            .late_lists
            .find_response(&key, &snapshot)
            .ok_or_else(|| "the server has not answered yet".to_owned());
    }
    let answer = request_server(&gw, &aggregate, &ctx, &text, notifications).await?;
    gw.late_lists.store_response(&key, &answer, &snapshot);
    Ok(answer)
}

/// What a server adds to the list.
async fn build_part(
    gw: &Gateway,
    aggregate: &AggregateRequest,
    method: &Method<'_>,
    visit: RequestContext,
    response: Result<Bytes, String>,
) -> ServerListPart {
    match response.and_then(|answer| parse_entries(gw, method, &answer)) {
        Ok(mut entries) => {
            if *method == Method::ToolsList {
                // The same order as that of a server that does not answer.
                entries.sort_by(|(one, _), (other, _)| one.cmp(other));
                gw.warn_of_long_names(&visit, entries.iter().map(|(name, _)| name.as_str()));
            }
            ServerListPart {
                ctx: visit,
                entries: entries.into_iter().map(|(_, entry)| entry).collect(),
                unavailable_reason: None,
            }
        }
        Err(why) if *method == Method::ToolsList => {
            let as_asked = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..visit.clone() };
            let entries = pinned_tools(gw, &as_asked).await;
            let entries = entries.iter().filter_map(|entry| mark_unavailable(gw, &visit, entry, &why)).collect();
            ServerListPart { ctx: visit, entries, unavailable_reason: Some(why) }
        }
        Err(why) => ServerListPart { ctx: visit, entries: Vec::new(), unavailable_reason: Some(why) },
    }
}

/// The entries of an answer, each with what it is called. A server that does not know the method has none.
///
/// # Errors
/// It is none; the words say why.
fn parse_entries(gw: &Gateway, method: &Method<'_>, answer: &Bytes) -> Result<Vec<(String, String)>, String> {
    let unreadable = || "the server's list cannot be read".to_owned();
    let document = read(answer, &gw.settings.reply_limits).map_err(|_| unreadable())?;
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

/// A tool that was accepted, as it is listed while its server does not answer.
fn mark_unavailable(gw: &Gateway, ctx: &RequestContext, entry: &str, why: &str) -> Option<String> {
    let text = format!(r#"{{"result":{{"tools":[{entry}]}}}}"#);
    let text = prefix_response(ctx.upstream.name().as_str(), &Method::ToolsList, &text, &gw.settings.reply_limits);
    let document = read(text.as_bytes(), &gw.settings.reply_limits).ok()?;
    let tool = document.root().get("result")?.get("tools")?.elements().next()?;
    Some(ctx.upstream.secret_redactor().redact_json(with_meta_member(tool, UNAVAILABLE_META_KEY, &to_json_string(why))))
}

/// The list, and which servers it is not complete for.
fn merge_lists(aggregate: &AggregateRequest, method: &Method<'_>, shares: &[ServerListPart]) -> String {
    let (member, _) = list_member_names(method);
    let entries: Vec<&str> = shares.iter().flat_map(|share| &share.entries).map(String::as_str).collect();
    let mut out = match aggregate.client_protocol.generation() {
        ProtocolGeneration::Stateful => "{".to_owned(),
        ProtocolGeneration::Stateless => r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","#.to_owned(),
    };
    out.push_str(&format!("\"{member}\":[{}]", entries.join(",")));
    let missing =
        shares.iter().filter_map(|share| Some((share.ctx.upstream.name(), share.unavailable_reason.as_ref()?)));
    let missing: Vec<String> = missing.map(|(server, why)| format!("\"{server}\":{}", to_json_string(why))).collect();
    if !missing.is_empty() {
        out.push_str(&format!(r#","_meta":{{"{UNAVAILABLE_META_KEY}":{{{}}}}}"#, missing.join(",")));
    }
    out.push('}');
    out
}
