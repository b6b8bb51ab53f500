//! What upstreams say beside answers: notifications, and questions to the client.

use gatelodge_json::{Limits, read};
use gatelodge_mcp::{Id, Method, ServerNotification, ServerRequest, code, error};
use gatelodge_policy::{Call, Caller, Decision, Reason, Subject, decide};
use gatelodge_store::Mode;

use crate::Gateway;
use crate::call::{Errand, Permit, Refusal, Trail};
use crate::http::mcp::outgoing;
use crate::upstream::Outgoing;
use crate::visit::Visit;

/// What of a notification goes to the caller; none if it is not for them.
pub(crate) fn notification(errand: &Errand<'_>, said: &ServerNotification<'_>) -> Option<String> {
    let visit = errand.visit;
    match said.method() {
        Method::Progress => {
            let is_own = said.reference().is_some_and(|token| token == Id::string(errand.call.as_str()));
            errand.progress.filter(|_| is_own).and_then(|token| said.referring_to(token))
        }
        _ => unaddressed(visit, said),
    }
}

/// The same for what comes outside of a call.
pub(crate) fn unaddressed(visit: &Visit, said: &ServerNotification<'_>) -> Option<String> {
    match said.method() {
        Method::Progress => None,
        Method::Cancelled => {
            // The upstream takes back what it asked.
            let asked = visit.session()?.asked_as(&said.reference()?)?;
            said.referring_to(&Id::string(&asked))
        }
        Method::ToolsListChanged => {
            visit.upstream.set_offer(None);
            Some(said.text().to_owned())
        }
        Method::ResourceUpdated => {
            let document = read(said.params()?.as_bytes(), &Limits::REPLY).ok()?;
            let uri = document.root().get("uri")?.as_str()?;
            lists_resource(visit, &uri).then(|| said.text().to_owned())
        }
        _ => Some(said.text().to_owned()),
    }
}

fn lists_resource(visit: &Visit, uri: &str) -> bool {
    let lists = visit.door.policy.as_ref().is_some_and(|policy| policy.policy.lists_resource(uri));
    lists || visit.door.mode == Mode::Observe
}

/// Judges what an upstream asks of the client. What may pass comes back as the text for the client; anything else is
/// answered here.
pub(crate) async fn question(gw: &Gateway, visit: &Visit, asked: &ServerRequest<'_>) -> Option<String> {
    let mut trail = Trail::of_visit(visit, gw.new_call(), gw.clock.now());
    let name = asked.method().name();
    trail.method(name);
    let judged = judge(gw, visit, name);
    let asked_as = match (&judged, visit.session()) {
        (Ok(rule), Some(session)) => {
            trail.allowed(rule.as_ref());
            session.ask(asked.id().clone().into_owned())
        }
        _ => None,
    };
    if let Some(id) = asked_as {
        gw.write(trail.outcome(gatelodge_store::Outcome::Ok, None)).await;
        return Some(asked.with_id(&Id::string(&id)));
    }
    let reason = judged.err().unwrap_or_else(Reason::no_policy);
    gw.write(trail.refused(&Refusal::Denied(reason))).await;
    let answer = error(Some(asked.id()), code::METHOD_NOT_FOUND, "the client does not take this request", None);
    tell(gw, visit, Permit::of_housekeeping(outgoing(visit, Outgoing::post(answer)))).await;
    None
}

/// Whether the policy lets an upstream ask this; the rule that says so.
fn judge(gw: &Gateway, visit: &Visit, name: &str) -> Result<Option<std::sync::Arc<str>>, Reason> {
    let Some(policy) = &visit.door.policy else { return Err(Reason::no_policy()) };
    let call = Call {
        subject: Subject::Method { name },
        arguments: None,
        server: Some(visit.upstream.name().as_str()),
        caller: Caller::default(),
        session: None,
    };
    match decide(&policy.policy, &call, gw.clock.now()) {
        Decision::Allow(terms) => Ok(terms.rule),
        Decision::Deny(_) if visit.door.mode == Mode::Observe => Ok(None),
        Decision::Deny(reason) => Err(reason),
    }
}

/// Sends a message that wants no answer.
pub(crate) async fn tell(gw: &Gateway, visit: &Visit, permit: Permit) {
    let sending = gw.client.send(&visit.upstream, permit);
    if let Ok(Ok(mut exchange)) = tokio::time::timeout(gw.settings.connect_time * 2, sending).await {
        // The end of the answer makes the connection free for the next.
        let _ = tokio::time::timeout(gw.settings.connect_time, exchange.next()).await;
    }
}
