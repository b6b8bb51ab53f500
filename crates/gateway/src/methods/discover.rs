//! Which era an upstream speaks: asked once, by us, when a stateless client first comes.

use bytes::Bytes;
use gatelodge_json::{Kind, read};
use gatelodge_mcp::{Era, Id, Method, Revision, has_tasks};

use crate::Gateway;
use crate::call::{Permit, own_answer, result_text};
use crate::upstream::{ModernHead, Outgoing, SendError};
use crate::visit::Visit;

/// What we say of ourselves in requests of our own.
pub(crate) const OWN_META: &str = concat!(
    r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"gatelodge","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#
);

/// Whether the upstream takes stateless requests.
pub(crate) async fn speaks_modern(gw: &Gateway, visit: &Visit) -> Result<bool, SendError> {
    if let Some(known) = visit.upstream.speaks_modern() {
        return Ok(known);
    }
    let _one_at_a_time = visit.upstream.probing.lock().await;
    if let Some(known) = visit.upstream.speaks_modern() {
        return Ok(known);
    }
    let asking = tokio::time::timeout(gw.settings.connect_time * 2, ask(gw, visit));
    let answer = match asking.await.unwrap_or(Err(SendError::Timeout)) {
        // What a server says that does not know such requests.
        Err(SendError::Status(400 | 404 | 405)) => false,
        // A bad moment is no verdict; the next client asks again.
        Err(SendError::Status(_) | SendError::Gone(_)) => return Ok(false),
        // A process that is silent, or slow to start: asking again would cost every client as much.
        Err(SendError::Timeout) if visit.upstream.is_child() => false,
        Err(fault) => return Err(fault),
        Ok(welcome) => welcome.is_some(),
    };
    visit.upstream.set_speaks_modern(answer);
    if !answer {
        visit.upstream.end_shared_child();
    }
    Ok(answer)
}

/// What the upstream says of itself to a client whose requests stand alone; none if it does not speak to such.
pub(crate) async fn ask(gw: &Gateway, visit: &Visit) -> Result<Option<Bytes>, SendError> {
    let call = gw.new_call();
    let id = Id::string(call.as_str());
    let method = Method::Discover.name();
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{OWN_META}}}}}"#);
    let mut outgoing = Outgoing::request(text, call);
    outgoing.revision = Some(Revision::R2026_07_28);
    outgoing.modern = Some(ModernHead { method: method.to_owned(), name: None });
    let permit = Permit::of_always_allowed(method, outgoing)
        .ok_or_else(|| SendError::NotSent("the method has to be judged".to_owned()))?;
    let mut exchange = gw.client.send(&visit.upstream, permit).await?;
    let Some(message) = own_answer(gw, &mut exchange, call).await? else { return Ok(None) };
    let Ok(Some(result)) = result_text(&message, &gw.settings.reply) else { return Ok(None) };
    let Ok(document) = read(&result, &gw.settings.reply) else { return Ok(None) };
    if str::from_utf8(&result).is_ok_and(|result| has_tasks(result, Era::Modern)) {
        visit.upstream.note_tasks();
    }
    let versions = document.root().get("supportedVersions").filter(|versions| versions.kind() == Kind::List);
    let versions = versions.iter().flat_map(|versions| versions.elements());
    let spoken: Vec<Revision> = versions.filter_map(|version| version.as_str()?.parse().ok()).collect();
    let speaks_modern = spoken.contains(&Revision::R2026_07_28);
    visit.upstream.set_spoken(spoken);
    Ok(speaks_modern.then(|| Bytes::copy_from_slice(&result)))
}
