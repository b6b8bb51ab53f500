//! Asks all servers at once, and waits for none of them longer than for the others.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::{ClientMessage, Method, ServerMessage as Said, read_client_message, read_server_message};
use gatelodge_mutants::mutant;
use gatelodge_store::CallOutcome;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::{AggregateRequest, FAN_OUT_TIMEOUT};
use crate::Gateway;
use crate::http_server::mcp_endpoint::dispatch;
use crate::http_server::responder::{Responder, SessionSlot};
use crate::pipeline::{CallRecorder, InFlightGuard};
use crate::request_context::RequestContext;

/// Messages of one server that wait while the client is told those of another.
const MAX_QUEUED_MESSAGES: usize = 16;

/// How long a server is asked that nobody waits for any more.
const LATE_RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Does the same for each server, beside one another. What is not done in time goes on without being waited for, and
/// is there for as long as what is given in its place.
pub(super) async fn fan_out<T, W>(
    gw: &Arc<Gateway>,
    aggregate: &AggregateRequest,
    work: impl Fn(Arc<Gateway>, RequestContext) -> W,
) -> Vec<(RequestContext, Result<T, Weak<()>>)>
where
    W: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let until = Instant::now() + if mutant!("slow-server-delays-all") { FAN_OUT_TIMEOUT * 10 } else { FAN_OUT_TIMEOUT };
    let begin = |ctx: &RequestContext| {
        let (mut tell, result) = oneshot::channel();
        let (task, working) = (Arc::clone(gw), work(Arc::clone(gw), ctx.clone()));
        let under_way = Arc::new(());
        let late = Arc::downgrade(&under_way);
        gw.spawn(async move {
            let _under_way = under_way;
            tokio::select! {
                done = working => drop(tell.send(done)),
                // Whoever nobody waits for need not be done when the gateway stops.
                () = async { tell.closed().await; task.wait_for_shutdown().await } => {}
            }
        });
        (result, late)
    };
    let begun: Vec<_> = aggregate.contexts.iter().map(|ctx| (ctx.clone(), begin(ctx))).collect();
    let mut done = Vec::with_capacity(begun.len());
    for (ctx, (result, late)) in begun {
        let result = tokio::time::timeout_at(until, result).await;
        done.push((ctx, result.ok().and_then(Result::ok).ok_or(late)));
    }
    done
}

/// Sends a request to one server on the ordinary road, and gives the answer as it would go to a client of that server
/// alone, but with the names that clients of all know. What the server says before it goes to `beside`.
///
/// # Errors
/// There is no answer; the words say why.
pub(super) async fn request_server(
    gw: &Gateway,
    aggregate: &AggregateRequest,
    visit: &RequestContext,
    text: &str,
    notifications: mpsc::Sender<Bytes>,
) -> Result<Bytes, String> {
    let Ok(ClientMessage::Request(request)) = read_client_message(text.as_bytes(), &gw.settings.request_limits) else {
        return Err("the request cannot be read".to_owned());
    };
    let in_flight = InFlightGuard::for_fan_out_leg(visit).map_err(|refusal| refusal.message())?;
    let ctx = match aggregate.with_upstream_session(gw, visit, &request).await {
        Ok(session_ctx) => session_ctx,
        Err(refusal) => {
            let as_asked = RequestContext { client_protocol: aggregate.client_protocol.clone(), ..visit.clone() };
            let mut recorder = CallRecorder::start(&as_asked, &request, gw.new_call_id(), gw.clock.now());
            gw.metrics.count_refusal(refusal.code());
            gw.write_row(recorder.failure_row(&refusal, CallOutcome::NotSent)).await;
            return Err(refusal.message());
        }
    };
    let (texts, mut queue) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let mut responder = Responder::to_message_queue(texts, SessionSlot::default());
    responder.hold_in_flight_guard(in_flight);
    responder.prefix_names_of(ctx.upstream.name(), request.method(), gw.settings.reply_limits);
    let until = Instant::now() + LATE_RESPONSE_TIMEOUT;
    let hearing = async move {
        let mut answer = None;
        // With the queue goes the line: the server is told, and it is written down.
        while let Ok(Some(text)) = tokio::time::timeout_at(until, queue.recv()).await {
            match read_server_message(&text, &gw.settings.reply_limits) {
                Ok(Said::Response(_)) => answer = Some(text),
                // Of the progress of many, nobody could make one.
                Ok(Said::Notification(said)) if *said.method() == Method::Progress => {}
                // Whoever does not wait for the answer any more does not hear it.
                _ => drop(notifications.send(text).await),
            }
        }
        answer
    };
    let ((), answer) = tokio::join!(dispatch(gw, &ctx, &request, responder), hearing);
    answer.ok_or_else(|| "the server did not answer".to_owned())
}
