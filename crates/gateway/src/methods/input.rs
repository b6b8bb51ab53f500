//! Questions of an upstream to a client of the other era: asked by the answer to its request, or in the middle of it.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{Limits, read};
use gatelodge_mcp::bridge::Retry;
use gatelodge_mcp::{Message, Method, Outcome, Request, Upstream as Said, read_message, read_upstream, result};
use gatelodge_store::CallId;
use tokio::sync::oneshot;

use super::server::{may_be_asked, tell};
use crate::Gateway;
use crate::call::{Bond, Errand, Paused, Permit, as_input, attend, response, result_text, under_our_id};
use crate::http::line::Line;
use crate::session::{AskedBy, UnderWay};
use crate::upstream::{Exchange, Outgoing, SendError};
use crate::visit::{Crossing, Visit};

/// Keeps the call until the client comes again, and gives the result that asks it.
pub(crate) fn paused(errand: &Errand<'_>, message: &[u8], exchange: Exchange, bond: Bond) -> Option<String> {
    let Errand { gw, visit, call, .. } = errand;
    let Ok(Said::Request(question)) = read_upstream(message, &gw.settings.reply) else { return None };
    let paused = Paused {
        exchange,
        call: *call,
        question: question.id().clone().into_owned(),
        asked: visit.upstream.secrets().cut_json(as_input(&question)),
        upstream: Arc::clone(&visit.upstream),
        session: Arc::clone(visit.far_session()?),
        bond,
    };
    gw.paused.keep(paused).ok()
}

/// Tells the upstream what the client says, and gives the exchange to go on with. Where the client brings no answer, it
/// is asked again, by the text that is given then.
pub(crate) async fn answered(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    paused: Paused,
) -> Result<Result<Exchange, String>, SendError> {
    let unusable = || SendError::Unusable("the client cannot be asked".to_owned());
    let Some(said) = response(request) else {
        let text = gw.paused.keep(paused).map_err(|_| unusable())?;
        return Ok(Err(result(request.id(), &text)));
    };
    let mut outgoing = Outgoing::note(result(&paused.question, said));
    outgoing.link = paused.session.link();
    outgoing.revision = visit.addressed(Outgoing::note("")).revision;
    tell(gw, visit, Permit::of_answer(&paused.question, outgoing)).await?;
    Ok(Ok(paused.exchange))
}

/// What an upstream wants to know before it answers, where the client is asked by us; none for an answer.
pub(crate) fn wanted(visit: &Visit, message: &Bytes, limits: &Limits) -> Option<String> {
    if visit.crossing() != Crossing::ToStateless {
        return None;
    }
    let result = result_text(message, limits).ok()??;
    let document = read(&result, limits).ok()?;
    let is_wanted = document.root().get("resultType").is_some_and(|kind| kind.is_str("input_required"));
    is_wanted.then(|| visit.upstream.secrets().cut_json(document.text().to_owned()))
}

/// What a client answers, as the upstream wants it.
pub(crate) struct Answers {
    responses: String,
    state: Option<String>,
}

/// Asks the client everything that the upstream wants to know, one after the other.
///
/// # Errors
/// The policy or the client will not have it, or the client is gone.
pub(crate) async fn ask_client(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    under_way: Option<&UnderWay>,
    result: &str,
    line: &mut Line,
) -> Result<Answers, SendError> {
    let unusable = |what: &str| SendError::Unusable(what.to_owned());
    let document = read(result.as_bytes(), &gw.settings.reply).map_err(|_| unusable("the answer cannot be read"))?;
    let state = document.root().get("requestState").map(|state| state.raw().to_owned());
    let progress = request.meta().progress_token();
    let errand = Errand {
        gw,
        visit,
        call: gw.new_call(),
        progress: progress.as_ref(),
        under_way,
        is_only_asking: false,
        is_callers: true,
        may_pause: false,
    };
    let mut responses = Vec::new();
    for (key, wanted) in document.root().get("inputRequests").iter().flat_map(|wanted| wanted.members()) {
        let method = wanted.get("method").and_then(|method| method.as_str()).unwrap_or_default();
        let is_input = matches!(method.as_ref(), "elicitation/create" | "sampling/createMessage" | "roots/list");
        if !is_input || !may_be_asked(gw, visit, &method).await {
            return Err(unusable("the server asks what the client is not asked"));
        }
        let params = wanted.get("params").map(|params| params.raw());
        let said = ask(&errand, &method, params, line).await?;
        responses.push(format!("{}:{said}", key.raw()));
    }
    Ok(Answers { responses: format!("{{{}}}", responses.join(",")), state })
}

/// Asks one thing in the middle of a call, and gives the result as JSON.
async fn ask(errand: &Errand<'_>, method: &str, params: Option<&str>, line: &mut Line) -> Result<String, SendError> {
    let unusable = |what: &str| SendError::Unusable(what.to_owned());
    let session = errand.visit.session().ok_or_else(|| unusable("the client has no session"))?;
    let (waiting, answer) = oneshot::channel();
    let id = session.ask(AskedBy::Call(waiting)).ok_or_else(|| unusable("the client cannot be asked"))?;
    let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
    line.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}"{params}}}"#)).await;
    let answer = attend(errand, line, answer).await.ok_or_else(|| unusable("the caller hung up"))?;
    let answer = answer.map_err(|_| unusable("the client did not answer"))?;
    let read = read_message(&answer, &errand.gw.settings.request);
    match read {
        Ok(Message::Response(said)) => match said.outcome() {
            Outcome::Result(result) => Ok(result.raw().to_owned()),
            // What a client says that will not be asked.
            Outcome::Error(_) if method == "elicitation/create" => Ok(r#"{"action":"cancel"}"#.to_owned()),
            Outcome::Error(_) => Err(unusable("the client will not be asked")),
        },
        _ => Err(unusable("the client's answer cannot be read")),
    }
}

/// The request once more, with what the client answers.
pub(crate) fn again(
    visit: &Visit,
    request: &Request<'_>,
    call: CallId,
    about: Option<&str>,
    answers: &Answers,
) -> Option<Outgoing> {
    let retry = Retry { responses: &answers.responses, state: answers.state.as_deref() };
    let mut outgoing = under_our_id(visit, request, call, about);
    let text = visit.session()?.stateless(str::from_utf8(&outgoing.body).ok()?, Some(&retry))?;
    outgoing.body = text.into();
    Some(outgoing)
}

impl Gateway {
    /// Ends the calls whose clients did not come again.
    pub(crate) async fn end_paused_calls(&self) {
        for paused in self.paused.overdue() {
            self.cancel(paused).await;
        }
    }

    /// Tells an upstream that nobody waits for a call any more. A process hears it when the exchange is dropped.
    async fn cancel(&self, paused: Paused) {
        let Paused { call, upstream, session, exchange, .. } = paused;
        drop(exchange);
        if upstream.is_child() {
            return;
        }
        let mut outgoing = Outgoing::note(cancelled(call.as_str()));
        outgoing.link = session.link();
        if let Some(permit) = Permit::of_always_allowed(Method::Cancelled.name(), outgoing) {
            let sending = self.client.send(&upstream, permit);
            let _ = tokio::time::timeout(self.settings.connect_time, sending).await;
        }
    }
}

/// What is said to an upstream that need not go on with a call.
pub(crate) fn cancelled(call: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{call}"}}}}"#)
}
