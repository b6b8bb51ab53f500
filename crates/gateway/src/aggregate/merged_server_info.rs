//! Merged server information (capabilities, instructions) for `initialize` and `server/discover` on the aggregate
//! endpoint.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{JsonDocument, JsonKind, JsonLimits, JsonValue, read};
use gatelodge_mcp::aggregate_names::merge_capabilities;
use gatelodge_mcp::translate::{shared_capabilities, to_json_string, with_members};
use gatelodge_mcp::{ClientMessage, ClientRequest, Revision, read_client_message};

use super::fan_out::fan_out;
use super::router::reply_locally;
use super::{AggregateRequest, aggregate_server_sessions};
use crate::call_recorder::CallRecorder;
use crate::refusal::Refusal;
use crate::reply;
use crate::request_context::RequestContext;
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::{ClientInfo, Session, SessionManager, SessionParams};
use crate::upstream::UpstreamSessionLink;
use crate::upstream_session::handshake::requested_revision;
use crate::upstream_session::protocol_probe::{DiscoverResult, request_discover};
use crate::upstream_session::session_slot::MAX_HANDSHAKE_BYTES;

const GATEWAY_SERVER_INFO: &str = concat!(r#"{"name":"gatelodge","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
/// The gateway's own capabilities. It announces list changes itself, because a change of a policy or of the set of
/// servers also changes the lists.
const GATEWAY_CAPABILITIES: &str =
    r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}"#;
/// Capabilities assumed for a server that has not responded yet.
const ASSUMED_CAPABILITIES: &str = r#"{"resources":{"subscribe":true}}"#;

/// Opens an aggregate session, and a session with each server. Does not wait for slow servers beyond the fan-out
/// deadline.
pub(super) async fn handle_initialize(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    mut responder: Responder,
) {
    let session = match open_session(&gw.sessions, aggregate, request).await {
        Ok(session) => session,
        Err(refusal) => {
            responder.finish(reply::internal_error_reply(request.id(), recorder.call_id(), &refusal)).await;
            return gw.record_refusal(&mut recorder, &refusal).await;
        }
    };
    if responder.set_session(&session) {
        gw.sessions.persist(&session).await;
    }
    let responses = fan_out(gw, aggregate, |gw, ctx| {
        let session = Arc::clone(&session);
        async move {
            aggregate_server_sessions::ensure_open(&gw, &session, &ctx)
                .await
                .ok()
                .map(|part| (part.negotiated.server_info.clone(), part.negotiated.is_local()))
        }
    });
    // Many servers take longer to start than the deadline; their last known information is most likely still right.
    let merged = MergedServerInfo::of(responses.await.into_iter().map(|(ctx, response)| {
        let responses = response.ok().flatten().or_else(|| ctx.grant.server_info_cache.find(&ctx.upstream));
        (ctx, responses)
    }));
    let result = format!(
        r#"{{"protocolVersion":"{}","capabilities":{},"serverInfo":{GATEWAY_SERVER_INFO}{}}}"#,
        session.revision(),
        merged.capabilities,
        merged.instructions
    );
    reply_locally(gw, request, &result, recorder, responder).await;
}

async fn open_session(
    sessions: &SessionManager,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
) -> Result<Arc<Session>, Refusal> {
    if request.text().len() > MAX_HANDSHAKE_BYTES {
        return Err(Refusal::TooLarge("the handshake", MAX_HANDSHAKE_BYTES));
    }
    let session_permit = sessions.acquire_permit(&aggregate.grant).await.ok_or(Refusal::Busy("sessions"))?;
    let params = request.params();
    let revision = requested_revision(request);
    aggregate
        .grant
        .check_revision(revision, || aggregate.grant.allowed_revisions(&Revision::ALL))
        .map_err(Refusal::Protocol)?;
    let opening = SessionParams {
        grant: aggregate.grant.config.id.clone(),
        server: None,
        revision,
        client_info: ClientInfo::of(params.and_then(|params| params.get("clientInfo"))),
        handshake: handshake_with_revision(request, revision).into(),
        server_info: Bytes::new(),
        upstream_link: UpstreamSessionLink::NoSession,
        session_permit,
        is_local: false,
        accepts_log_messages: true,
    };
    Session::new(opening).and_then(|session| sessions.registry.insert(session)).ok_or(Refusal::Busy("sessions"))
}

/// Builds the handshake to send to the servers: the client's handshake, but with the revision that the gateway
/// negotiated.
fn handshake_with_revision(request: &ClientRequest<'_>, revision: Revision) -> String {
    let (text, quoted) = (request.text(), format!("\"{revision}\""));
    let replace = |(start, end): (usize, usize), replacement: &str| {
        Some(format!("{}{replacement}{}", text.get(..start)?, text.get(end..)?))
    };
    let params = request.params().filter(|params| params.kind() == JsonKind::Object);
    let written = match (params, params.and_then(|params| params.get("protocolVersion"))) {
        (_, Some(requested)) => replace(requested.span(), &quoted),
        (Some(params), None) => replace(params.span(), &with_members(params.raw(), &[("protocolVersion", &quoted)])),
        (None, None) => None,
    };
    written.unwrap_or_else(|| text.to_owned())
}

/// Handles `server/discover` from a stateless client.
pub(super) async fn handle_discover(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    request: &ClientRequest<'_>,
    recorder: CallRecorder,
    responder: Responder,
) {
    let text: Arc<str> = request.text().into();
    let responses = fan_out(gw, aggregate, |gw, ctx| {
        let (aggregate, text) = (aggregate.clone(), Arc::clone(&text));
        async move { discover_server(&gw, &aggregate, &ctx, &text).await }
    });
    let merged =
        MergedServerInfo::of(responses.await.into_iter().map(|(ctx, response)| (ctx, response.ok().flatten())));
    let versions = aggregate.grant.allowed_revisions(&Revision::ALL);
    let versions: Vec<String> = versions.iter().rev().map(|revision| format!("\"{revision}\"")).collect();
    let result = format!(
        r#"{{"resultType":"complete","supportedVersions":[{}],"capabilities":{}{},"ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{GATEWAY_SERVER_INFO}}}}}"#,
        versions.join(","),
        merged.capabilities,
        merged.instructions
    );
    reply_locally(gw, request, &result, recorder, responder).await;
}

/// Returns a server's information, and whether its protocol generation differs from the client's; `None` if the server
/// does not respond.
async fn discover_server(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    ctx: &RequestContext,
    text: &str,
) -> Option<(Bytes, bool)> {
    let Ok(ClientMessage::Request(request)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
        return None;
    };
    let session_ctx = aggregate.open_server_session(gw, ctx, &request).await.ok()?;
    match session_ctx.upstream_session() {
        Some(session) => Some((session.negotiated.server_info.clone(), true)),
        None => match request_discover(gw, &session_ctx).await.ok()? {
            DiscoverResult::ServerInfo(server_info) => Some((server_info, false)),
            DiscoverResult::Rejected | DiscoverResult::NotStateless => None,
        },
    }
}

/// Merged server information as JSON. `instructions` contains a comma followed by the `instructions` member, or is
/// empty if no server has instructions.
struct MergedServerInfo {
    capabilities: String,
    instructions: String,
}

impl MergedServerInfo {
    /// Merges the information of all servers. The flag in each response says whether the server's protocol generation
    /// differs from the client's.
    fn of(responses: impl Iterator<Item = (RequestContext, Option<(Bytes, bool)>)>) -> Self {
        let (mut capabilities, mut instructions) = (vec![GATEWAY_CAPABILITIES.to_owned()], Vec::new());
        for (ctx, responses) in responses {
            let (server_info, is_translated) = responses.unzip();
            let server_info = server_info.and_then(|server_info| String::from_utf8(server_info.into()).ok());
            let server_info = server_info.map(|server_info| ctx.upstream.secret_redactor().redact_json(server_info));
            let document =
                server_info.as_ref().and_then(|server_info| read(server_info.as_bytes(), &JsonLimits::REPLY).ok());
            let member = |name: &str| document.as_ref().and_then(|document| document.root().get(name));
            let own = member("capabilities").filter(|own| own.kind() == JsonKind::Object);
            // A server that has not responded may have any of these.
            capabilities.push(match own {
                Some(own) if is_translated == Some(true) => shared_capabilities(own),
                Some(own) => own.raw().to_owned(),
                None => ASSUMED_CAPABILITIES.to_owned(),
            });
            if let Some(own) = member("instructions").and_then(|own| own.as_str()) {
                instructions.push(format!("# {}\n\n{own}", ctx.upstream.name()));
            }
        }
        let capabilities: Vec<JsonDocument<'_>> =
            capabilities.iter().filter_map(|own| read(own.as_bytes(), &JsonLimits::REPLY).ok()).collect();
        let capabilities: Vec<JsonValue<'_>> = capabilities.iter().map(|own| own.root()).collect();
        let instructions = match instructions.as_slice() {
            [] => String::new(),
            all => format!(r#","instructions":{}"#, to_json_string(&all.join("\n\n"))),
        };
        Self { capabilities: merge_capabilities(&capabilities), instructions }
    }
}
