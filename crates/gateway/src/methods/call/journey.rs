//! A request on its way to the upstream, as often as that asks something back before it answers.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mcp::ClientRequest;
use gatelodge_mutants::mutant;
use gatelodge_store::CallId;
use http::{HeaderMap, StatusCode};

use super::Carried;
use crate::Gateway;
use crate::deadline_timer::{DeadlineTimer, timeout};
use crate::http_server::responder::Responder;
use crate::methods::{input, undeclared};
use crate::pipeline::{
    Bond, CallRecorder, CallReservation, ForwardContext, ForwardOutcome, Paused, Permit, ProgressRelay, RequestSubject,
    can_request_input, forward, parsed_response_for_client, relay_until_response, response_status,
    rewrite_for_upstream,
};
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::upstream::{SendError, UpstreamRequest, UpstreamResponse};

/// How often an upstream may ask the client before it answers.
const MAX_ROUNDS: usize = 16;

/// A request that was judged and paid for.
pub(super) struct Journey<'a> {
    pub gw: &'a Gateway,
    pub visit: &'a RequestContext,
    pub request: &'a ClientRequest<'a>,
    pub facts: &'a RequestSubject<'a>,
    pub progress: Option<Arc<ProgressRelay>>,
    /// What of its arguments stands in the head as well.
    pub params: Option<Box<HeaderMap>>,
    pub reserved: &'a CallReservation,
    pub alarm: Option<Arc<DeadlineTimer>>,
}

/// How a request gets to the upstream.
enum Step {
    /// It is sent, under this id.
    Send(CallId, Permit),
    /// It was sent, and goes on with what the client says.
    GoOn(Box<Paused>),
}

impl Journey<'_> {
    /// Sends it, or goes on with what was sent, and asks the client what the upstream wants to know, until there is an
    /// answer.
    pub async fn go(
        &self,
        resumed: Option<Box<Paused>>,
        call: CallId,
        line: &mut Responder,
    ) -> Result<Carried, SendError> {
        let about = self.facts.mcp_name_header(self.request.method());
        let mut step = match resumed {
            Some(paused) => Step::GoOn(paused),
            None => self.send_under(call, rewrite_for_upstream(self.visit, self.request, call, about)),
        };
        for round in 0..=MAX_ROUNDS {
            let is_first = round == 0 && matches!(step, Step::Send(..));
            let sent = self.take(step, line).await;
            let sent = if is_first { sent } else { sent.map_err(SendError::after_call_sent) };
            let Ok(Carried::InputRequired { result }) = sent else { return sent };
            if round == MAX_ROUNDS {
                break;
            }
            step = match Box::pin(self.asked(&result, line)).await? {
                Some(next) => next,
                None => return Ok(Carried::Cancelled),
            };
        }
        Err(SendError::InvalidResponse("the server asks the client again and again".to_owned()))
    }

    fn send_under(&self, call: CallId, mut outgoing: UpstreamRequest) -> Step {
        outgoing.param_headers.clone_from(&self.params);
        Step::Send(call, Permit::for_reserved_call(self.reserved, outgoing))
    }

    /// Asks the client what the upstream wants to know, and gives the request to be sent with its answers; none if the
    /// client wants no answer any more.
    async fn asked(&self, result: &str, line: &mut Responder) -> Result<Option<Step>, SendError> {
        let Self { gw, visit, .. } = self;
        let asking = input::ask_client(gw, visit, result, line);
        let unanswered =
            || Err(SendError::InvalidResponse("the client did not answer what the server asked".to_owned()));
        let answers =
            tokio::time::timeout(gw.settings.client_answer_time, asking).await.unwrap_or_else(|_| unanswered());
        // The client may think for minutes. What was judged before holds only if nothing has changed.
        if !gw.is_policy_current(visit) && !mutant!("configuration-change-while-asking-ignored") {
            let what = "the grant, its policy or the server changed while the client was asked";
            return Err(SendError::InvalidResponse(what.to_owned()));
        }
        let (call, about) = (gw.new_call_id(), self.facts.mcp_name_header(self.request.method()));
        let outgoing = answers?.and_then(|answers| input::again(visit, self.request, call, about, &answers));
        Ok(outgoing.map(|outgoing| self.send_under(call, outgoing)))
    }

    /// Takes one step, within the time that a call may take.
    async fn take(&self, step: Step, line: &mut Responder) -> Result<Carried, SendError> {
        let call = match &step {
            Step::Send(call, _) => *call,
            Step::GoOn(paused) => paused.call,
        };
        let links = match &step {
            Step::Send(..) => self.visit.upstream_session().map_or(0, |session| session.link_epoch()),
            Step::GoOn(paused) => paused.links,
        };
        let errand = ForwardContext {
            gw: self.gw,
            ctx: self.visit,
            call,
            progress: self.progress.as_deref(),
            cancels_on_disconnect: false,
            is_client_request: true,
            can_suspend: can_request_input(self.request.method()),
            previous_response: None,
            deadline_timer: self.alarm.as_deref(),
        };
        let taking = pin!(async {
            match self.sent(&errand, links, step, line).await? {
                Ok((ended, exchange)) => self.carried(&errand, links, ended, exchange, line).await,
                Err(text) => Ok(Carried::Told { text }),
            }
        });
        let taken =
            timeout(errand.deadline_timer, self.gw.settings.call_time, taking).await.unwrap_or(Err(SendError::Timeout));
        let is_given_up = matches!(&taken, Err(SendError::Timeout)) || (taken.is_err() && self.gw.is_forced_shutdown());
        if is_given_up {
            input::given_up(self.gw, self.visit, call);
        }
        taken
    }

    /// How it ended at the upstream; or the text by which the client is asked what it has left out.
    async fn sent(
        &self,
        errand: &ForwardContext<'_>,
        links: u64,
        step: Step,
        line: &mut Responder,
    ) -> Result<Result<(ForwardOutcome, Option<UpstreamResponse>), String>, SendError> {
        let Self { gw, visit, request, .. } = self;
        let brings_answers = matches!(step, Step::Send(..)) && input::brings_answers(request);
        let ended = match step {
            Step::Send(_, permit) => forward(errand, permit, line).await?,
            Step::GoOn(paused) => match Box::pin(input::answered(gw, visit, request, *paused, line)).await? {
                Ok(exchange) => Box::pin(relay_until_response(errand, exchange, line)).await?,
                Err(text) => return Ok(Err(text)),
            },
        };
        // What the client says before it is asked holds for the first questions, and not for those behind them.
        match ended {
            (ForwardOutcome::ServerRequests(asked), Some(exchange)) if brings_answers => {
                let paused = self.paused(errand, links, &asked, exchange)?;
                let told = Box::pin(input::answered(gw, visit, request, paused, line)).await;
                match told.map_err(SendError::after_call_sent)? {
                    Ok(exchange) => Box::pin(relay_until_response(errand, exchange, line)).await.map(Ok),
                    Err(text) => Ok(Err(text)),
                }
            }
            ended => Ok(Ok(ended)),
        }
    }

    fn paused(
        &self,
        errand: &ForwardContext<'_>,
        links: u64,
        asked: &[Bytes],
        exchange: UpstreamResponse,
    ) -> Result<Paused, SendError> {
        let Self { gw, visit, request, facts, .. } = self;
        let mut trail = CallRecorder::for_request(visit, errand.call, gw.clock.now());
        trail.set_request(request);
        trail.set_subject(visit, facts.target(), facts.arguments());
        let bond = Bond::of(visit, request, facts);
        input::paused(errand, links, asked, exchange, (bond, trail)).ok_or_else(unasked)
    }

    /// What is left to do when it has ended so.
    async fn carried(
        &self,
        errand: &ForwardContext<'_>,
        links: u64,
        ended: ForwardOutcome,
        exchange: Option<UpstreamResponse>,
        line: &mut Responder,
    ) -> Result<Carried, SendError> {
        let Self { gw, visit, request, .. } = self;
        let (message, places, exchange) = match (ended, exchange) {
            (ForwardOutcome::Response(message, places), Some(exchange)) => (message, places, exchange),
            (ForwardOutcome::ServerRequests(asked), Some(exchange)) => {
                let mut paused = self.paused(errand, links, &asked, exchange)?;
                paused.room = line.take_in_flight_guard();
                let text = input::kept(gw, paused)?;
                return Ok(Carried::Told { text: gatelodge_mcp::result_response(request.id(), &text) });
            }
            (_, exchange) => {
                // A client with a session tells a server that has one in its own words.
                let tells = visit.session().is_some() && visit.translation() == ProtocolTranslation::None;
                if let Some(mut exchange) = exchange.filter(|_| tells) {
                    exchange.abandon();
                }
                Box::pin(input::hung_up(gw, visit, errand.call)).await;
                return Ok(Carried::Cancelled);
            }
        };
        undeclared::check(gw, visit, request, &message, &places)?;
        if let Some(result) = input::wanted(visit, &message, &gw.settings.reply_limits)? {
            return Ok(Carried::InputRequired { result });
        }
        if !input::may_all_be_asked(gw, visit, &message).await {
            return Err(SendError::InvalidResponse("the server asks what the client is not asked".to_owned()));
        }
        if can_request_input(request.method())
            && let Some(text) = input::pages(gw, visit, &message).await?
        {
            return Ok(Carried::Told { text: gatelodge_mcp::result_response(request.id(), &text) });
        }
        let (text, outcome) = parsed_response_for_client(visit, &message, &places, request.id())
            .ok_or_else(|| SendError::InvalidResponse("the answer cannot be read".to_owned()))?;
        let status = match places.result() {
            Some(_) => StatusCode::OK,
            None => {
                response_status(visit.generation(), &message, errand.call, exchange.status, &gw.settings.reply_limits)
            }
        };
        Ok(Carried::Answered { status, text, outcome, exchange: Box::new(exchange) })
    }
}

fn unasked() -> SendError {
    SendError::InvalidResponse("the client cannot be asked".to_owned())
}
