//! Subscribes to resources at a stateful upstream, as far as the policy allows.

use std::sync::Arc;

use gatelodge_mcp::Method;
use gatelodge_mcp::translate::to_json_string;
use gatelodge_mutants::mutant;
use gatelodge_policy::{Decision, Reason};
use gatelodge_store::EnforcementMode;

use super::upstream_exchange::{await_own_response, result_text};
use crate::refusal::Refusal;
use crate::request_context::{RequestContext, RequestSubject};
use crate::services::GatewayServices;
use crate::session::Session;
use crate::upstream::permit::PermitProof;
use crate::upstream::{Permit, UpstreamRequest};

/// Checks that the grant may be notified of changes to a resource, which requires permission to read it.
pub(crate) fn authorize_resource(
    gw: &GatewayServices,
    ctx: &RequestContext,
    uri: &str,
) -> Result<AllowedResource, Reason> {
    let resource = RequestSubject::Resource { uri: uri.into() };
    if ctx.server_access.mode == EnforcementMode::Enforce
        && !mutant!("resource-update-skips-policy")
        && let Decision::Deny(reason) = resource.decide(ctx, None, gw.clock.now())
    {
        return Err(reason);
    }
    Ok(AllowedResource { uri: uri.to_owned() })
}

/// A resource that the policy lets the grant watch. Created only by [`authorize_resource`].
#[derive(Debug)]
pub(crate) struct AllowedResource {
    uri: String,
}

impl PermitProof for AllowedResource {}

impl AllowedResource {
    pub fn uri(&self) -> &str {
        &self.uri
    }
}

/// Restores the session's subscriptions in the background after the server has reopened the session. Does nothing if
/// they have already been restored or are being restored.
pub(crate) fn resubscribe(gw: &GatewayServices, ctx: &RequestContext) {
    let Some(session) = ctx.session().filter(|_| ctx.local_session().is_none()) else { return };
    if session.upstream_link.current().is_ended() {
        return;
    }
    let attempt = session.upstream_link.handshake_attempts();
    if !session.subscriptions.try_begin_subscribing(attempt) || !session.subscriptions.has_any() {
        return;
    }
    let Some(gw) = gw.arc_self() else { return };
    let (own, ctx, session) = (Arc::clone(&gw), ctx.clone(), Arc::clone(session));
    gw.tasks.spawn(async move {
        let mut all_answered = true;
        for uri in session.subscriptions.uris() {
            if session.upstream_link.handshake_attempts() != attempt || session.upstream_link.current().is_ended() {
                all_answered = false;
                break;
            }
            // The client may have unsubscribed meanwhile.
            let allowed = authorize_subscription(&own, &ctx, &session, &uri)
                .await
                .filter(|_| session.subscriptions.contains(&uri));
            if let Some(allowed) = allowed {
                all_answered &= send_subscription(&own, &ctx, &Method::ResourcesSubscribe, &allowed).await.is_some();
            }
        }
        if !all_answered && !mutant!("failed-subscription-not-retried") {
            session.subscriptions.request_resubscribe(attempt);
        }
    });
}

/// Returns the resource if the policy still allows the subscription. A denial is recorded only once, until the
/// subscription is allowed again.
pub(crate) async fn authorize_subscription(
    gw: &GatewayServices,
    ctx: &RequestContext,
    session: &Session,
    uri: &str,
) -> Option<AllowedResource> {
    let reason = match authorize_resource(gw, ctx, uri) {
        Ok(allowed) => {
            session.subscriptions.clear_denied(uri);
            return Some(allowed);
        }
        Err(reason) => reason,
    };
    if session.subscriptions.mark_denied(uri) {
        let mut recorder = gw.new_recorder(ctx);
        recorder.set_method(Method::ResourcesSubscribe.name());
        recorder.set_subject(ctx, Some(uri), None);
        gw.record_refusal(&mut recorder, &Refusal::Denied(reason)).await;
    }
    None
}

/// Subscribes or unsubscribes upstream. Returns whether the server accepted the request, or `None` if it did not
/// respond.
pub(crate) async fn send_subscription(
    gw: &GatewayServices,
    ctx: &RequestContext,
    method: &Method<'_>,
    allowed: &AllowedResource,
) -> Option<bool> {
    let (call, uri) = (gw.new_call_id(), to_json_string(allowed.uri()));
    let name = method.name();
    let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{name}","params":{{"uri":{uri}}}}}"#);
    let permit = Permit::with_proof(allowed, ctx.message_for_upstream(UpstreamRequest::request(text, call)));
    let asking = async {
        let mut exchange = gw.upstream_client.send(&ctx.upstream, permit).await.ok()?;
        let answer = await_own_response(gw, &mut exchange, call).await.ok()?;
        Some(answer.is_some_and(|answer| matches!(result_text(&answer, &gw.settings.reply_limits), Ok(Some(_)))))
    };
    tokio::time::timeout(gw.settings.connect_timeout * 2, asking).await.ok()?
}
