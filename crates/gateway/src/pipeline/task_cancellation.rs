//! Cancels a task that the client does not accept, so that it does not run unseen.

use std::sync::Arc;

use gatelodge_mcp::Method;
use gatelodge_policy::AllowTerms;
use gatelodge_store::CallOutcome;

use super::reserve;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::upstream::{Permit, UpstreamSendError};
use crate::upstream_session::upstream_exchange::await_own_response;

/// Cancels a task upstream, in the background.
pub(super) fn cancel_task(gw: &GatewayServices, ctx: &RequestContext, task: &str) {
    let Some(gw) = gw.arc_self() else { return };
    let (own, ctx, task) = (Arc::clone(&gw), ctx.clone(), task.to_owned());
    gw.tasks.spawn(async move { send_cancellation(&own, &ctx, &task).await });
}

async fn send_cancellation(gw: &GatewayServices, ctx: &RequestContext, task: &str) {
    let mut recorder = gw.new_recorder(ctx);
    recorder.set_method(Method::TasksCancel.name());
    recorder.set_subject(ctx, Some(task), None);
    // Nothing is sent without an intent row, not even requests of our own.
    let reserved = match reserve(gw, ctx, &AllowTerms::default(), &mut recorder).await {
        Ok(reserved) => reserved,
        Err(refusal) => return gw.record_refusal(&mut recorder, &refusal).await,
    };
    let call = recorder.call_id();
    let permit = Permit::with_proof(&reserved, ctx.task_cancellation(task, call));
    let sending = async {
        let mut exchange = gw.upstream_client.send(&ctx.upstream, permit).await?;
        await_own_response(gw, &mut exchange, call).await
    };
    let sent = tokio::time::timeout(gw.settings.connect_timeout * 2, sending).await;
    match sent.unwrap_or(Err(UpstreamSendError::Timeout)) {
        Ok(_) => gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await,
        Err(error) => {
            let outcome = error.outcome();
            gw.write_row(recorder.failure_row(&Refusal::Upstream(error), outcome)).await;
        }
    }
}
