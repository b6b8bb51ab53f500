//! Questions of an upstream with a session, to a client that is asked by the answer to its request.

use std::sync::Arc;

use gatelodge_mcp::{Method, Request, Upstream as Said, read_upstream, result};

use super::server::tell;
use crate::Gateway;
use crate::call::{Bond, Errand, Paused, Permit, as_input, response};
use crate::upstream::{Exchange, Outgoing, SendError};
use crate::visit::Visit;

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
