//! The lists for which a server advertised `listChanged`.

use gatelodge_mutants::mutant;

use super::event_stream::{MAX_RECONNECT_DELAY, MIN_RECONNECT_DELAY};
use super::handshake::reopen_if_stale;
use super::protocol_probe::{DiscoverResult, request_discover};
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::session::Session;
use crate::session::list_changed::ListChangedSet;

/// Returns the lists for which the server advertised `listChanged` to a session. A restored session does not know
/// them: the server is asked again until it answers.
pub(crate) async fn advertised_list_changes(
    gw: &GatewayServices,
    ctx: &RequestContext,
    session: &Session,
) -> ListChangedSet {
    let mut pause = MIN_RECONNECT_DELAY;
    loop {
        match try_advertised_list_changes(gw, ctx, session).await {
            Some(_) if mutant!("policy-change-not-announced") => return ListChangedSet::default(),
            Some(lists) => return lists,
            // The session has ended, so no notifications are due.
            None if !gw.sessions.registry.contains(session.id()) => return ListChangedSet::default(),
            None => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(MAX_RECONNECT_DELAY);
    }
}

/// Like [`advertised_list_changes`], but returns `None` if the server does not currently answer.
async fn try_advertised_list_changes(
    gw: &GatewayServices,
    ctx: &RequestContext,
    session: &Session,
) -> Option<ListChangedSet> {
    if session.negotiated.list_changed().is_none() && ctx.local_session().is_some() {
        match request_discover(gw, ctx).await {
            Ok(DiscoverResult::ServerInfo(server_info)) => session.negotiated.note_list_changed(&server_info),
            // The server answers and advertises nothing.
            Ok(DiscoverResult::Rejected | DiscoverResult::NotStateless) => return Some(ListChangedSet::default()),
            Err(_) => return None,
        }
    } else if session.negotiated.list_changed().is_none() {
        reopen_if_stale(gw, ctx).await;
    }
    session.negotiated.list_changed()
}
