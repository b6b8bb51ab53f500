//! Sends a call upstream, and repeats it with client input each time the upstream asks for input.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::ClientRequest;
use gatelodge_mutants::mutant;
use gatelodge_store::CallId;
use http::{HeaderMap, StatusCode};

use super::AllowedCallResult;
use crate::body::{MessageBody, ReceivedBody};
use crate::call_recorder::CallRecorder;
use crate::pipeline::{
    CallReservation, ForwardContext, ForwardOutcome, call_suspension, can_hold_task_or_input, client_capability_check,
    client_input, forward, input_policy, parsed_response_for_client, relay_until_response, rewrite_for_upstream,
    task_ownership,
};
use crate::request_context::{RequestContext, RequestSubject};
use crate::responder::Responder;
use crate::runtime::deadline_timer::{DeadlineTimer, timeout};
use crate::services::GatewayServices;
use crate::session::ProgressRelay;
use crate::suspended_calls::{SuspendedCall, SuspendedCallBinding};
use crate::upstream::{Permit, UpstreamRequest, UpstreamResponse, UpstreamSendError};
use crate::upstream_session::call_cancellation;

/// How many times an upstream may ask for client input before it responds.
const MAX_INPUT_ROUNDS: usize = 16;

/// A call that has been authorized and charged.
pub(super) struct CallRounds<'a> {
    pub gw: &'a GatewayServices,
    pub ctx: &'a RequestContext,
    pub request: &'a ClientRequest<'a>,
    pub subject: &'a RequestSubject<'a>,
    pub progress: Option<Arc<ProgressRelay>>,
    /// `Mcp-Param-*` headers for the upstream.
    pub param_headers: Option<Box<HeaderMap>>,
    pub reservation: &'a CallReservation,
    pub deadline_timer: Option<Arc<DeadlineTimer>>,
}

/// How a round of a call starts: with a new request to the upstream, or by resuming an earlier one.
enum CallRound {
    /// Sends the request with this id.
    Send(CallId, Permit),
    /// Continues a request that was sent before, with the client's input.
    Resume(Box<SuspendedCall>),
}

/// How a round of a call ended.
enum RoundOutcome {
    /// The call has ended.
    Done(AllowedCallResult),
    /// The call has ended, and its response may create a task, whose owner is not recorded yet.
    MayHaveTask(AllowedCallResult),
    /// The upstream asks for client input before it responds.
    InputRequired { result: String },
}

impl CallRounds<'_> {
    /// Sends or resumes the call, and asks the client for input until the upstream responds.
    pub async fn run(
        &self,
        resumed: Option<Box<SuspendedCall>>,
        call: CallId,
        responder: &mut Responder,
    ) -> Result<AllowedCallResult, UpstreamSendError> {
        let about = self.subject.mcp_name_header(self.request.method());
        let mut step = match resumed {
            Some(suspended) => CallRound::Resume(suspended),
            None => self.build_send_round(call, rewrite_for_upstream(self.ctx, self.request, call, about)),
        };
        for round in 0..=MAX_INPUT_ROUNDS {
            let is_first = round == 0 && matches!(step, CallRound::Send(..));
            let sent = self.run_round(step, responder).await;
            let sent = if is_first { sent } else { sent.map_err(UpstreamSendError::after_call_sent) };
            let result = match sent? {
                RoundOutcome::Done(ended) | RoundOutcome::MayHaveTask(ended) => return Ok(ended),
                RoundOutcome::InputRequired { .. } if round == MAX_INPUT_ROUNDS => break,
                RoundOutcome::InputRequired { result } => result,
            };
            step = match Box::pin(self.ask_client(&result, responder)).await? {
                Some(next) => next,
                None => return Ok(AllowedCallResult::Cancelled),
            };
        }
        Err(UpstreamSendError::InvalidResponse("the server asked for client input too many times".to_owned()))
    }

    fn build_send_round(&self, call: CallId, mut outgoing: UpstreamRequest) -> CallRound {
        outgoing.param_headers.clone_from(&self.param_headers);
        CallRound::Send(call, Permit::with_proof(self.reservation, outgoing))
    }

    /// Asks the client for input and returns the next round, or `None` if the client cancelled.
    async fn ask_client(
        &self,
        result: &str,
        responder: &mut Responder,
    ) -> Result<Option<CallRound>, UpstreamSendError> {
        let Self { gw, ctx, .. } = self;
        let asking = client_input::ask_client(gw, ctx, result, responder);
        let unanswered = || {
            Err(UpstreamSendError::InvalidResponse(
                "the client did not respond to the server's request in time".to_owned(),
            ))
        };
        let answers =
            tokio::time::timeout(gw.settings.client_input_timeout, asking).await.unwrap_or_else(|_| unanswered());
        // The client may take minutes; the authorization holds only if the configuration has not changed.
        if !gw.config.is_policy_current(ctx) && !mutant!("configuration-change-while-asking-ignored") {
            let what = "the grant, its policy or the server changed while the client was asked";
            return Err(UpstreamSendError::InvalidResponse(what.to_owned()));
        }
        let (call, about) = (gw.new_call_id(), self.subject.mcp_name_header(self.request.method()));
        let outgoing =
            answers?.and_then(|answers| client_input::rebuild_with_responses(ctx, self.request, call, about, &answers));
        Ok(outgoing.map(|outgoing| self.build_send_round(call, outgoing)))
    }

    /// Runs one round within the time limit of a call.
    async fn run_round(&self, step: CallRound, responder: &mut Responder) -> Result<RoundOutcome, UpstreamSendError> {
        let call = match &step {
            CallRound::Send(call, _) => *call,
            CallRound::Resume(suspended) => suspended.call,
        };
        let link_epoch = match &step {
            CallRound::Send(..) => self.ctx.upstream_session().map_or(0, |session| session.upstream_link.epoch()),
            CallRound::Resume(suspended) => suspended.link_epoch,
        };
        let forward_ctx = ForwardContext {
            gw: self.gw,
            ctx: self.ctx,
            call,
            progress: self.progress.as_deref(),
            cancels_on_disconnect: false,
            is_client_request: true,
            can_suspend: self.request.method().can_request_input(),
            previous_response: None,
            deadline_timer: self.deadline_timer.as_deref(),
        };
        let taking = pin!(async {
            match self.exchange(&forward_ctx, link_epoch, step, responder).await? {
                Ok((ended, exchange)) => {
                    self.handle_forward_outcome(&forward_ctx, link_epoch, ended, exchange, responder).await
                }
                Err(text) => Ok(RoundOutcome::Done(AllowedCallResult::LocalReply { text })),
            }
        });
        let taken = timeout(forward_ctx.deadline_timer, self.gw.settings.call_timeout, taking)
            .await
            .unwrap_or(Err(UpstreamSendError::Timeout));
        let is_abandoned =
            matches!(&taken, Err(UpstreamSendError::Timeout)) || (taken.is_err() && self.gw.shutdown.is_forced());
        if is_abandoned {
            call_cancellation::cancel_in_background(self.gw, self.ctx, call);
        }
        // The time limit is for the upstream, not for the store.
        if let Ok(RoundOutcome::MayHaveTask(AllowedCallResult::Response { text, .. })) = &taken {
            Box::pin(self.record_task_owner(call, text)).await;
        }
        taken
    }

    /// Records the owner of the task that a response creates, before the client knows of the task.
    async fn record_task_owner(&self, call: CallId, text: &MessageBody) {
        let RequestSubject::Tool { name, .. } = self.subject else { return };
        let progress = self.progress.as_ref().map(|progress| (call.as_str(), Arc::clone(progress)));
        task_ownership::record_task_owner(self.gw, self.ctx, name, text, progress).await;
    }

    /// Returns the outcome of the exchange with the upstream, or a reply that asks the client for missing input.
    async fn exchange(
        &self,
        forward_ctx: &ForwardContext<'_>,
        link_epoch: u64,
        step: CallRound,
        responder: &mut Responder,
    ) -> Result<Result<(ForwardOutcome, Option<UpstreamResponse>), String>, UpstreamSendError> {
        let Self { gw, ctx, request, .. } = self;
        let has_responses = matches!(step, CallRound::Send(..)) && call_suspension::has_input_responses(request);
        let ended = match step {
            CallRound::Send(_, permit) => forward(forward_ctx, permit, responder).await?,
            CallRound::Resume(suspended) => {
                match Box::pin(call_suspension::deliver_responses(gw, ctx, request, *suspended, responder)).await? {
                    Ok(exchange) => Box::pin(relay_until_response(forward_ctx, exchange, responder)).await?,
                    Err(text) => return Ok(Err(text)),
                }
            }
        };
        // Input responses that the client sends unasked apply to the first batch of server requests only.
        match ended {
            (ForwardOutcome::ServerRequests(requests), Some(exchange)) if has_responses => {
                let suspended = self.suspend(forward_ctx, link_epoch, &requests, exchange)?;
                let delivered =
                    Box::pin(call_suspension::deliver_responses(gw, ctx, request, suspended, responder)).await;
                match delivered.map_err(UpstreamSendError::after_call_sent)? {
                    Ok(exchange) => Box::pin(relay_until_response(forward_ctx, exchange, responder)).await.map(Ok),
                    Err(text) => Ok(Err(text)),
                }
            }
            ended => Ok(Ok(ended)),
        }
    }

    fn suspend(
        &self,
        forward_ctx: &ForwardContext<'_>,
        link_epoch: u64,
        requests: &[Bytes],
        exchange: UpstreamResponse,
    ) -> Result<SuspendedCall, UpstreamSendError> {
        let Self { gw, ctx, request, subject, .. } = self;
        let mut recorder = CallRecorder::for_request(ctx, forward_ctx.call, gw.clock.now());
        recorder.set_request(request);
        recorder.set_subject(ctx, subject.target(), subject.arguments());
        let binding = SuspendedCallBinding::of(ctx, request, subject);
        call_suspension::build_suspended_call(forward_ctx, link_epoch, requests, exchange, (binding, recorder))
            .ok_or_else(cannot_ask_error)
    }

    /// Turns the outcome of forwarding into the outcome of the round.
    async fn handle_forward_outcome(
        &self,
        forward_ctx: &ForwardContext<'_>,
        link_epoch: u64,
        ended: ForwardOutcome,
        exchange: Option<UpstreamResponse>,
        responder: &mut Responder,
    ) -> Result<RoundOutcome, UpstreamSendError> {
        let Self { gw, ctx, request, .. } = self;
        let (message, spans, exchange) = match (ended, exchange) {
            (ForwardOutcome::Response(message, spans), Some(exchange)) => (message, spans, exchange),
            (ForwardOutcome::ServerRequests(requests), Some(exchange)) => {
                let mut suspended = self.suspend(forward_ctx, link_epoch, &requests, exchange)?;
                suspended.in_flight = responder.take_in_flight_guard();
                let text = call_suspension::suspend(gw, suspended)?;
                let text = gatelodge_mcp::result_response(request.id(), &text);
                return Ok(RoundOutcome::Done(AllowedCallResult::LocalReply { text }));
            }
            (_, exchange) => {
                if let Some(mut exchange) = exchange.filter(|_| ctx.forwards_cancellation()) {
                    exchange.abandon();
                }
                Box::pin(call_cancellation::cancel_after_hang_up(gw, ctx, forward_ctx.call)).await;
                return Ok(RoundOutcome::Done(AllowedCallResult::Cancelled));
            }
        };
        let may_hold_task = can_hold_task_or_input(&message, &spans);
        // An error of a stateful server may ask the user of a stateless client to open a URL.
        let needs_check = may_hold_task || (spans.result().is_none() && ctx.passes_server_requests_in_response());
        if needs_check && let Some(outcome) = Box::pin(self.check_tasks_and_input(&message)).await? {
            return Ok(outcome);
        }
        let (text, outcome) = parsed_response_for_client(ctx, &message, &spans, request.id())
            .ok_or_else(|| UpstreamSendError::InvalidResponse("the response cannot be read".to_owned()))?;
        let status = match spans.result() {
            Some(_) => StatusCode::OK,
            None => ctx.response_status(&message, forward_ctx.call, exchange.status, &gw.settings.reply_limits),
        };
        let ended = AllowedCallResult::Response { status, text, outcome, exchange: Box::new(exchange) };
        Ok(if may_hold_task { RoundOutcome::MayHaveTask(ended) } else { RoundOutcome::Done(ended) })
    }

    /// Checks a response that may create a task or ask for input. Returns the outcome of the round if the client is to be
    /// asked for input.
    async fn check_tasks_and_input(&self, message: &ReceivedBody) -> Result<Option<RoundOutcome>, UpstreamSendError> {
        let Self { gw, ctx, request, .. } = self;
        client_capability_check::check_response(gw, ctx, request, message)?;
        if let Some(result) = client_input::required_input(ctx, message, &gw.settings.reply_limits) {
            return Ok(Some(RoundOutcome::InputRequired { result }));
        }
        if !input_policy::are_all_server_requests_allowed(gw, ctx, message).await {
            return Err(UpstreamSendError::InvalidResponse(
                "the server asks for input that the policy or the client does not allow".to_owned(),
            ));
        }
        if request.method().can_request_input()
            && let Some(text) = input_policy::url_elicitation_result(gw, ctx, message).await?
        {
            let text = gatelodge_mcp::result_response(request.id(), &text);
            return Ok(Some(RoundOutcome::Done(AllowedCallResult::LocalReply { text })));
        }
        Ok(None)
    }
}

fn cannot_ask_error() -> UpstreamSendError {
    UpstreamSendError::InvalidResponse("the client cannot be asked for input".to_owned())
}
