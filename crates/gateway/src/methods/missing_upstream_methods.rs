//! Requests that the gateway handles itself because the upstream's protocol generation has no such method.

use gatelodge_json::{JsonKind, JsonLimits, read};
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mcp::translate::{shared_capabilities, to_json_string};
use gatelodge_mcp::{ClientRequest, Method, ProtocolGeneration, code, error_response, result_response};
use gatelodge_store::CallOutcome;
use http::StatusCode;

use crate::call_recorder::CallRecorder;
use crate::refusal::Refusal;
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::responder::Responder;
use crate::services::GatewayServices;
use crate::session::Session;

/// Replies to a request whose method the upstream's protocol generation lacks. For any other method, returns the
/// recorder and the responder, so that the caller can handle the request.
pub(crate) async fn reply_if_untranslatable(
    gw: &GatewayServices,
    ctx: &RequestContext,
    request: &ClientRequest<'_>,
    mut recorder: CallRecorder,
    responder: Responder,
) -> Option<(CallRecorder, Responder)> {
    let text = match (ctx.translation(), request.method()) {
        (ProtocolTranslation::ToStateful, Method::Discover) => {
            ctx.upstream_session().map(|session| result_response(request.id(), &discover_result(ctx, session)))
        }
        (ProtocolTranslation::ToStateless, Method::Ping) => Some(result_response(request.id(), "{}")),
        (ProtocolTranslation::ToStateless, Method::SetLevel) => Some(set_log_level(gw, ctx, request).await),
        _ => None,
    };
    let Some(text) = text else { return Some((recorder, responder)) };
    responder.finish(text.into()).await;
    gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
    None
}

/// Rejects requests that cannot be translated: tasks differ between the protocol generations.
///
/// # Errors
/// The request is about tasks.
pub(crate) fn check_translatable(ctx: &RequestContext, request: &ClientRequest<'_>) -> Result<(), Refusal> {
    let is_task_request = matches!(
        request.method(),
        Method::TasksGet | Method::TasksResult | Method::TasksList | Method::TasksCancel | Method::TasksUpdate
    );
    if !is_task_request || ctx.translation() == ProtocolTranslation::None {
        return Ok(());
    }
    let what = "tasks are not translated between the stateful and the stateless protocol; the server has no such task";
    let status = if ctx.generation() == ProtocolGeneration::Stateless { StatusCode::NOT_FOUND } else { StatusCode::OK };
    Err(Refusal::Protocol(ProtocolError::new(status, code::METHOD_NOT_FOUND, what)))
}

/// Translates the result of `initialize` into a result of `server/discover`.
fn discover_result(ctx: &RequestContext, session: &Session) -> String {
    let server_info = read(&session.negotiated.server_info, &JsonLimits::REPLY).ok();
    let member = |name: &str| server_info.as_ref().and_then(|server_info| server_info.root().get(name));
    let capabilities = member("capabilities").filter(|own| own.kind() == JsonKind::Object);
    let capabilities = capabilities.map_or_else(|| "{}".to_owned(), shared_capabilities);
    let supported = ctx.supported_revisions(ProtocolGeneration::Stateless);
    let versions: Vec<String> = supported.iter().rev().map(|revision| format!("\"{revision}\"")).collect();
    let mut out = format!(
        r#"{{"resultType":"complete","supportedVersions":[{}],"capabilities":{capabilities}"#,
        versions.join(",")
    );
    if let Some(instructions) = member("instructions").and_then(|own| own.as_str()) {
        out.push_str(&format!(r#","instructions":{}"#, to_json_string(&instructions)));
    }
    out.push_str(r#","ttlMs":0,"cacheScope":"private""#);
    if let Some(info) = member("serverInfo").filter(|info| info.kind() == JsonKind::Object) {
        out.push_str(&format!(r#","_meta":{{"io.modelcontextprotocol/serverInfo":{}}}"#, info.raw()));
    }
    out.push('}');
    ctx.upstream.secret_redactor().redact_json(out)
}

async fn set_log_level(gw: &GatewayServices, ctx: &RequestContext, request: &ClientRequest<'_>) -> String {
    let level = request.params().and_then(|params| params.get("level")?.as_str());
    match (level, ctx.session()) {
        (Some(level), Some(session)) => {
            gw.sessions.persist_log_level(session, &level).await;
            result_response(request.id(), "{}")
        }
        _ => error_response(Some(request.id()), code::INVALID_PARAMS, "`params.level` must be a string", None),
    }
}
