//! Which era an upstream speaks: asked once, by us, when a stateless client first comes.

use bytes::Bytes;
use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::{
    Method, ProtocolGeneration, RequestId, Revision, ServerMessage, code, has_task_capability, read_server_message,
};

use crate::Gateway;
use crate::pipeline::{Permit, await_own_response, result_text};
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::upstream::{SendError, StatelessHeaders, UpstreamRequest};

/// What we say of ourselves in requests of our own.
pub(crate) const GATEWAY_META: &str = concat!(
    r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"gatelodge","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#
);

/// The same where it is about a task.
pub(crate) const GATEWAY_META_WITH_TASKS: &str = concat!(
    r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":"#,
    r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}},"#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"gatelodge","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#
);

/// Whether the upstream takes stateless requests.
pub(crate) async fn probe_is_stateless(gw: &Gateway, ctx: &RequestContext) -> Result<bool, SendError> {
    if let Some(known) = ctx.upstream.supports_stateless() {
        return Ok(known);
    }
    let _one_at_a_time = ctx.upstream.probe_lock.lock().await;
    if let Some(known) = ctx.upstream.supports_stateless() {
        return Ok(known);
    }
    Ok(!matches!(probe(gw, ctx).await?, DiscoverResult::NotStateless))
}

/// What the upstream says of itself, if it takes stateless requests. One of which that is not known is asked once for
/// both.
pub(crate) async fn fetch_server_info(gw: &Gateway, ctx: &RequestContext) -> Result<Option<Bytes>, SendError> {
    let known = |said: DiscoverResult| match said {
        DiscoverResult::ServerInfo(server_info) => Some(server_info),
        DiscoverResult::Rejected | DiscoverResult::NotStateless => None,
    };
    if ctx.upstream.supports_stateless().is_none() {
        let _one_at_a_time = ctx.upstream.probe_lock.lock().await;
        if ctx.upstream.supports_stateless().is_none() {
            return probe(gw, ctx).await.map(known);
        }
    }
    match ctx.upstream.supports_stateless() {
        Some(false) => Ok(None),
        _ => request_discover(gw, ctx).await.map(known),
    }
}

/// Asks how the upstream speaks, and notes that.
async fn probe(gw: &Gateway, ctx: &RequestContext) -> Result<DiscoverResult, SendError> {
    let said = match request_discover(gw, ctx).await {
        // What a server says that does not know such requests.
        Err(SendError::Status(400 | 404 | 405)) => DiscoverResult::NotStateless,
        // A bad moment is no verdict; the next client asks again.
        Err(SendError::Status(_) | SendError::ConnectionLost(_)) => return Ok(DiscoverResult::NotStateless),
        // One that leaves what it does not know unanswered, or is slow to start: asking again would cost every client as
        // much. Where it opens no session either, that is forgotten.
        Err(SendError::HandshakeTimeout(_)) => DiscoverResult::NotStateless,
        Err(error) => return Err(error),
        Ok(said) => said,
    };
    let speaks_modern = !matches!(said, DiscoverResult::NotStateless);
    ctx.upstream.set_supports_stateless(speaks_modern);
    if !speaks_modern {
        ctx.upstream.stop_shared_process();
    }
    Ok(said)
}

/// The upstream answers like one that does not know how it is spoken to. So it is asked anew, and a session that rests on
/// what does not hold any more is over.
pub(crate) async fn reprobe_if_stateless(gw: &Gateway, ctx: &RequestContext) {
    if ctx.generation() == ProtocolGeneration::Stateless || ctx.translation() != ProtocolTranslation::None {
        reprobe(gw, ctx).await;
    }
}

/// The same where it says itself that it speaks other revisions.
pub(crate) async fn reprobe(gw: &Gateway, ctx: &RequestContext) {
    ctx.upstream.forget_stateless_support();
    let session = match (ctx.translation(), probe_is_stateless(gw, ctx).await) {
        (ProtocolTranslation::ToStateful | ProtocolTranslation::None, Ok(true)) => ctx.upstream_session(),
        (ProtocolTranslation::ToStateless, Ok(false)) => ctx.session(),
        _ => None,
    };
    if let Some(session) = session {
        gw.delete_session(session).await;
    }
}

/// What the upstream says of itself to a client whose requests stand alone.
#[derive(Debug)]
pub(crate) enum DiscoverResult {
    /// Who it is, and what it has.
    ServerInfo(Bytes),
    /// That it will not have this request, as only a server says it that takes such requests.
    Rejected,
    /// Nothing that such a server says.
    NotStateless,
}

/// Asks the upstream what it says of itself. One that names other revisions than ours is asked once more, if it names
/// one that we speak, too.
pub(crate) async fn request_discover(gw: &Gateway, ctx: &RequestContext) -> Result<DiscoverResult, SendError> {
    let timeout = gw.settings.connect_time * 2;
    let asking = tokio::time::timeout(timeout, request_discover_untimed(gw, ctx));
    asking.await.unwrap_or(Err(SendError::HandshakeTimeout(timeout)))
}

async fn request_discover_untimed(gw: &Gateway, ctx: &RequestContext) -> Result<DiscoverResult, SendError> {
    let message = send_discover(gw, ctx).await?;
    match message.as_ref().and_then(|message| stateless_rejection(message, &gw.settings.reply_limits)) {
        Some(Some(supported)) if !supported.contains(&Revision::R2026_07_28) => {
            ctx.upstream.set_supported_revisions(supported);
            Ok(DiscoverResult::NotStateless)
        }
        Some(Some(_)) => Ok(parse_discover_result(gw, ctx, send_discover(gw, ctx).await?)),
        Some(None) => Ok(DiscoverResult::Rejected),
        None => Ok(parse_discover_result(gw, ctx, message)),
    }
}

async fn send_discover(gw: &Gateway, ctx: &RequestContext) -> Result<Option<Bytes>, SendError> {
    let call = gw.new_call_id();
    let id = RequestId::string(call.as_str());
    let method = Method::Discover.name();
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{GATEWAY_META}}}}}"#);
    let mut outgoing = UpstreamRequest::request(text, call);
    outgoing.revision = Some(Revision::R2026_07_28);
    outgoing.stateless_headers = Some(StatelessHeaders { method: method.to_owned(), name: None });
    let permit = Permit::for_always_allowed(method, outgoing)
        .ok_or_else(|| SendError::NotSent("the method has to be judged".to_owned()))?;
    let mut exchange = gw.upstream_client.send(&ctx.upstream, permit).await?;
    if exchange.status.is_server_error() {
        return Err(SendError::Status(exchange.status.as_u16()));
    }
    await_own_response(gw, &mut exchange, call).await
}

/// Whether an answer is an error that only the stateless revision has; then the revisions that it names, if it is
/// about those.
fn stateless_rejection(message: &Bytes, limits: &JsonLimits) -> Option<Option<Vec<Revision>>> {
    let Ok(ServerMessage::Response(reply)) = read_server_message(message, limits) else { return None };
    let error = reply.error()?;
    match error.code.parse() {
        Ok(code::UNSUPPORTED_REVISION) => {
            let data = error.data.and_then(|data| read(data.as_bytes(), limits).ok());
            Some(data.and_then(|data| data.root().get("supported").map(|list| parse_revisions(Some(list)))))
        }
        Ok(code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY) => Some(None),
        _ => None,
    }
}

fn parse_discover_result(gw: &Gateway, ctx: &RequestContext, message: Option<Bytes>) -> DiscoverResult {
    let limits = &gw.settings.reply_limits;
    let Some(message) = message else { return DiscoverResult::NotStateless };
    let Ok(Some(result)) = result_text(&message, limits) else {
        return if stateless_rejection(&message, limits).is_some() {
            DiscoverResult::Rejected
        } else {
            DiscoverResult::NotStateless
        };
    };
    let Ok(document) = read(&result, limits) else { return DiscoverResult::NotStateless };
    if str::from_utf8(&result).is_ok_and(|result| has_task_capability(result, ProtocolGeneration::Stateless)) {
        ctx.upstream.note_tasks();
    }
    let supported = parse_revisions(document.root().get("supportedVersions"));
    let speaks_modern = supported.contains(&Revision::R2026_07_28);
    ctx.upstream.set_supported_revisions(supported);
    if speaks_modern {
        DiscoverResult::ServerInfo(Bytes::copy_from_slice(&result))
    } else {
        DiscoverResult::NotStateless
    }
}

/// Those of a list that are known here.
fn parse_revisions(list: Option<JsonValue<'_>>) -> Vec<Revision> {
    let list = list.filter(|list| list.kind() == JsonKind::Array);
    list.iter().flat_map(|list| list.elements()).filter_map(|own| own.as_str()?.parse().ok()).collect()
}
