//! `resources/subscribe` of a client with a session. What it listens for is kept with the session, and asked for anew
//! wherever the server has forgotten it.

use std::sync::Arc;

use gatelodge_mcp::bridge::quoted;
use gatelodge_mcp::{Method, Request, code};

use super::server::{MayHear, may_hear_of};
use crate::Gateway;
use crate::call::{Facts, Permit, Refusal, Trail, own_answer};
use crate::upstream::Outgoing;
use crate::visit::Visit;

/// Answers what an upstream without sessions cannot keep, and what would be more than a session keeps.
pub(super) async fn kept_here(gw: &Gateway, visit: &Visit, request: &Request<'_>, facts: &Facts<'_>) -> Option<String> {
    let session = visit.session()?;
    let is_new = *request.method() == Method::ResourcesSubscribe;
    if is_new && !session.watched.has_room_for(facts.target().unwrap_or_default()) {
        let what = "the session listens for too many resources";
        return Some(gatelodge_mcp::error(Some(request.id()), code::INVALID_PARAMS, what, None));
    }
    let is_ended = *request.method() == Method::ResourcesUnsubscribe;
    if !session.is_far_stateless() || !(is_new || is_ended) {
        return None;
    }
    note(gw, visit, request.method(), facts).await;
    Some(gatelodge_mcp::result(request.id(), "{}"))
}

/// Notes what a session listens for, now that the server has taken it.
pub(super) async fn note(gw: &Gateway, visit: &Visit, method: &Method<'_>, facts: &Facts<'_>) {
    let Some((session, uri)) = visit.session().zip(facts.target()) else { return };
    let has_changed = match method {
        Method::ResourcesSubscribe => session.watched.add(uri),
        Method::ResourcesUnsubscribe => session.watched.remove(uri),
        _ => return,
    };
    if has_changed {
        gw.keep_watched(&session.watched).await;
    }
}

/// Subscribes anew to what a session listens for, at a server that has just opened it. No call waits for that.
pub(crate) fn again(gw: &Gateway, visit: &Visit) {
    let Some(session) = visit.session().filter(|session| session.watched.is_any()) else { return };
    let Some(gw) = gw.own() else { return };
    let (own, visit, session) = (Arc::clone(&gw), visit.clone(), Arc::clone(session));
    gw.spawn(async move {
        for uri in session.watched.all() {
            match may_hear_of(&own, &visit, &uri) {
                // The client may have done with it meanwhile.
                Ok(_) if !session.watched.has(&uri) => {}
                Ok(heard) => {
                    if ask(&own, &visit, &Method::ResourcesSubscribe, &heard).await.is_none() {
                        return;
                    }
                }
                Err(reason) => {
                    let mut trail = Trail::of_visit(&visit, own.new_call(), own.clock.now());
                    trail.method(Method::ResourcesSubscribe.name());
                    trail.about(&visit, Some(&uri), None);
                    own.write(trail.refused(&Refusal::Denied(reason))).await;
                }
            }
        }
    });
}

/// Subscribes at the upstream, or ends that. One that will not have it never tells. None if it does not answer.
pub(super) async fn ask(gw: &Gateway, visit: &Visit, method: &Method<'_>, heard: &MayHear) -> Option<()> {
    let (call, uri) = (gw.new_call(), quoted(heard.uri()));
    let name = method.name();
    let text = format!(r#"{{"jsonrpc":"2.0","id":"{call}","method":"{name}","params":{{"uri":{uri}}}}}"#);
    let permit = Permit::of_heard(heard, visit.addressed(Outgoing::request(text, call)));
    let asking = async {
        let mut exchange = gw.client.send(&visit.upstream, permit).await.ok()?;
        own_answer(gw, &mut exchange, call).await.ok().map(drop)
    };
    tokio::time::timeout(gw.settings.connect_time * 2, asking).await.ok()?
}
