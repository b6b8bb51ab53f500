//! Sends a request to all servers of a grant in parallel, with one deadline for all of them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::{ClientMessage, Method, ServerMessage, read_client_message, read_server_message};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{AggregateRequest, FAN_OUT_TIMEOUT};
use crate::call_recorder::CallRecorder;
use crate::methods::dispatch::dispatch;
use crate::request_context::RequestContext;
use crate::responder::{ClientSessionCell, Responder};
use crate::runtime::InFlightGuard;
use crate::services::GatewayServices;

/// How many messages from one server may be queued while the client receives messages from another.
const MAX_QUEUED_MESSAGES: usize = 16;

/// How long to wait for a response after the fan-out deadline has passed.
const LATE_RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs `work` for each server in parallel. Work that misses the deadline continues in the background. In that case a
/// `Weak` is returned instead of the result; it can be upgraded until the work is done.
pub(super) async fn fan_out<T, W>(
    gw: &Arc<GatewayServices>,
    aggregate: &AggregateRequest,
    work: impl Fn(Arc<GatewayServices>, RequestContext) -> W,
) -> Vec<(RequestContext, Result<T, Weak<()>>)>
where
    W: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let until = Instant::now() + if mutant!("slow-server-delays-all") { FAN_OUT_TIMEOUT * 10 } else { FAN_OUT_TIMEOUT };
    let start = |ctx: &RequestContext| {
        let (mut result_sender, result) = oneshot::channel();
        let (task, running) = (Arc::clone(gw), work(Arc::clone(gw), ctx.clone()));
        let running_mark = Arc::new(());
        let late = Arc::downgrade(&running_mark);
        gw.tasks.spawn(async move {
            let _running_mark = running_mark;
            tokio::select! {
                done = running => drop(result_sender.send(done)),
                // Shutdown does not wait for work that missed the deadline.
                () = async { result_sender.closed().await; task.shutdown.wait().await } => {}
            }
        });
        (result, late)
    };
    let started: Vec<_> = aggregate.contexts.iter().map(|ctx| (ctx.clone(), start(ctx))).collect();
    let mut done = Vec::with_capacity(started.len());
    for (ctx, (result, late)) in started {
        let result = tokio::time::timeout_at(until, result).await;
        done.push((ctx, result.ok().and_then(Result::ok).ok_or(late)));
    }
    done
}

/// Sends a request to one server through the normal request path. Returns the response as a client of that server would
/// receive it, but with aggregate names. Messages that the server sends before the response go to `notifications`.
///
/// # Errors
/// Returns a message that says why there is no response.
pub(super) async fn request_server(
    gw: &GatewayServices,
    aggregate: &AggregateRequest,
    ctx: &RequestContext,
    text: &str,
    notifications: mpsc::Sender<Bytes>,
) -> Result<Bytes, String> {
    let Ok(ClientMessage::Request(request)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
        return Err("the request cannot be read".to_owned());
    };
    let in_flight = InFlightGuard::for_fan_out_leg(ctx).map_err(|refusal| refusal.message())?;
    let ctx = match aggregate.open_server_session(gw, ctx, &request).await {
        Ok(session_ctx) => session_ctx,
        Err(refusal) => {
            let client_ctx = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..ctx.clone() };
            let mut recorder = CallRecorder::start(&client_ctx, &request, gw.new_call_id(), gw.clock.now());
            gw.metrics.count_refusal(refusal.code());
            gw.write_row(recorder.failure_row(&refusal, CallOutcome::NotSent)).await;
            return Err(refusal.message());
        }
    };
    let (texts, mut queue) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let mut responder = Responder::to_message_queue(texts, ClientSessionCell::default());
    responder.hold_in_flight_guard(in_flight);
    responder.prefix_names_of(ctx.upstream.name(), request.method(), gw.settings.reply_limits);
    let until = Instant::now() + LATE_RESPONSE_TIMEOUT;
    let collect_response = async move {
        let mut answer = None;
        // Dropping the queue ends the responder, which cancels the request upstream and records that.
        while let Ok(Some(text)) = tokio::time::timeout_at(until, queue.recv()).await {
            match read_server_message(&text, &gw.settings.reply_limits) {
                Ok(ServerMessage::Response(_)) => answer = Some(text),
                // Progress of several servers cannot be merged into one value.
                Ok(ServerMessage::Notification(notification)) if *notification.method() == Method::Progress => {}
                // Sending fails if the client no longer waits for the response; the message is dropped.
                _ => drop(notifications.send(text).await),
            }
        }
        answer
    };
    let ((), answer) = tokio::join!(dispatch(gw, &ctx, &request, responder), collect_response);
    answer.ok_or_else(|| "the server did not answer".to_owned())
}
