//! The handshake of a legacy client: the upstream's own handshake, and a session of ours around it.

use bytes::Bytes;
use gatelodge_json::read;
use gatelodge_mcp::{Id, Request, Revision, code, error};
use gatelodge_store::Outcome;
use http::header::HeaderValue;

use super::pass::exchanged;
use super::server::tell;
use crate::Gateway;
use crate::call::{Permit, Refusal, Trail, answer, result_text};
use crate::http::line::Line;
use crate::http::mcp::outgoing;
use crate::http::names;
use crate::session::{ClientInfo, Session};
use crate::upstream::{Outgoing, SendError};
use crate::visit::Visit;

/// The most bytes of a handshake; real ones have some hundreds.
const MAX_HANDSHAKE: usize = 64 << 10;

/// Opens a session.
pub(crate) async fn initialize(gw: &Gateway, visit: &Visit, request: &Request<'_>, mut trail: Trail, mut line: Line) {
    let id = request.id();
    match opened(gw, visit, request, &trail, &mut line).await {
        Ok((text, outcome)) => {
            line.finish(text).await;
            gw.write(trail.outcome(outcome, None)).await;
        }
        Err(fault) => {
            let refusal = Refusal::Upstream(fault);
            let words = refusal.text(trail.call().as_str());
            line.finish(error(Some(id), code::INTERNAL_ERROR, &words, None).into()).await;
            gw.write(trail.refused(&refusal)).await;
        }
    }
}

async fn opened(
    gw: &Gateway,
    visit: &Visit,
    request: &Request<'_>,
    trail: &Trail,
    line: &mut Line,
) -> Result<(Bytes, Outcome), SendError> {
    // It is kept for as long as the session lives.
    if request.text().len() > MAX_HANDSHAKE {
        return Err(SendError::NotSent("the handshake is too large".to_owned()));
    }
    let (message, exchange) = exchanged(gw, visit, request, trail, line).await?;
    let gone = |what: &str| SendError::Gone(what.to_owned());
    let (text, outcome) =
        answer(visit, &message, request.id(), &gw.settings.reply).ok_or_else(|| gone("the answer cannot be read"))?;
    let Some(result) = result_text(&message, &gw.settings.reply) else { return Ok((text, outcome)) };
    let revision = revision_of(&result).ok_or_else(|| gone("the server speaks a revision that is not known here"))?;
    let client = ClientInfo::of(request.params().and_then(|params| params.get("clientInfo")));
    let handshake = Bytes::copy_from_slice(request.text().as_bytes());
    let grant = visit.grant.config.id.clone();
    let session =
        Session::new(grant, visit.upstream.name().clone(), revision, client, handshake, exchange.session.clone());
    let session = session.and_then(|session| gw.sessions.insert(session));
    let session = session.ok_or_else(|| gone("there is no room for another session"))?;
    if let Ok(value) = HeaderValue::from_str(session.id()) {
        line.header(names::SESSION, value);
    }
    Ok((text, outcome))
}

fn revision_of(result: &[u8]) -> Option<Revision> {
    let document = read(result, &gatelodge_json::Limits::REPLY).ok()?;
    document.root().get("protocolVersion")?.as_str()?.parse().ok()
}

/// Does the handshake again with an upstream that has forgotten the session. Nothing of a call is repeated.
pub(crate) async fn again(gw: &Gateway, visit: &Visit) {
    let Some(session) = visit.session() else { return };
    let Ok(gatelodge_mcp::Message::Request(request)) =
        gatelodge_mcp::read_message(&session.handshake, &gw.settings.request)
    else {
        return;
    };
    let call = gw.new_call();
    let text = request.paged(&Id::string(call.as_str()), None);
    let permit = Permit::of_housekeeping(Outgoing::post(text));
    let asking = async {
        let mut exchange = gw.client.send(&visit.upstream, permit).await.ok()?;
        let _answer = exchange.next().await.ok()??;
        exchange.status.is_success().then_some(exchange.session.clone())
    };
    if let Ok(Some(opened)) = tokio::time::timeout(gw.settings.connect_time * 2, asking).await {
        session.set_upstream(opened);
        let said = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        tell(gw, visit, Permit::of_housekeeping(outgoing(visit, Outgoing::post(said)))).await;
    }
}

/// Ends a session at both sides.
pub(crate) async fn end(gw: &Gateway, visit: &Visit) {
    let Some(session) = visit.session() else { return };
    gw.sessions.remove(session.id());
    session.end_stream();
    if session.upstream().is_some() {
        tell(gw, visit, Permit::of_housekeeping(outgoing(visit, Outgoing::empty(http::Method::DELETE)))).await;
    }
}
