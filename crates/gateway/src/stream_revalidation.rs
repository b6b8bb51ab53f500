//! Revalidates long-lived streams after a configuration change: sends `list_changed` and continues under the new
//! configuration, or closes the stream.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mutants::mutant;
use gatelodge_store::{ServerName, TokenHash};

use crate::Gateway;
use crate::methods::standalone_stream::{MAX_RECONNECT_DELAY, MIN_RECONNECT_DELAY};
use crate::pipeline::upstream_session::handshake::reopen_if_stale;
use crate::pipeline::upstream_session::protocol_probe::{DiscoverResult, request_discover};
use crate::request_context::{ClientProtocol, RequestContext};
use crate::session::Session;
use crate::session::list_changed::ListChangedSet;

/// Result of comparing a long-lived stream with the active configuration.
#[derive(Debug)]
pub(crate) enum StreamRevalidation<T> {
    /// Nothing has changed.
    Unchanged,
    /// The grant still has access, but something has changed: the grant, the policy, the pinned definitions or the
    /// server.
    Replaced(Box<T>),
    /// The grant has ended, no longer includes the server, or requires another revision.
    Revoked,
}

impl Gateway {
    /// Compares a request's context with the active configuration.
    pub(crate) fn revalidate(&self, ctx: &RequestContext) -> StreamRevalidation<RequestContext> {
        let config = &ctx.grant.config;
        let now = self.find_request_context(&config.token, ctx.upstream.name(), &ctx.client_address);
        let Some(now) =
            now.filter(|now| now.grant.config.id == config.id && now.grant.allows_protocol(&ctx.client_protocol))
        else {
            return if mutant!("stream-outlives-grant") {
                StreamRevalidation::Unchanged
            } else {
                StreamRevalidation::Revoked
            };
        };
        if self.is_context_current(ctx) {
            return StreamRevalidation::Unchanged;
        }
        StreamRevalidation::Replaced(Box::new(RequestContext {
            client_protocol: ctx.client_protocol.clone(),
            trace: ctx.trace.clone(),
            ..now
        }))
    }

    /// Returns a fresh context for a known client, or `None` if its grant or server is no longer active.
    pub(crate) fn find_request_context(
        &self,
        grant: &TokenHash,
        server: &ServerName,
        address: &Arc<str>,
    ) -> Option<RequestContext> {
        let snapshot = self.config_snapshot();
        let grant = snapshot.find_grant(grant).filter(|grant| !grant.is_expired(self.clock.now()))?;
        let (upstream, access) = (snapshot.find_server(server.as_str())?, grant.config.servers.get(server)?);
        Some(RequestContext {
            grant: Arc::clone(grant),
            server_access: access.clone(),
            pins_epoch: upstream.pins_epoch(),
            upstream: Arc::clone(upstream),
            client_address: Arc::clone(address),
            client_protocol: ClientProtocol::Stateful(None),
            trace: None,
            request_body: Bytes::new(),
            streaming_digest: None,
        })
    }

    /// Returns the lists for which the server advertised `listChanged` to a session. A restored session does not know
    /// them: the server is asked again until it answers.
    pub(crate) async fn advertised_list_changes(&self, ctx: &RequestContext, session: &Session) -> ListChangedSet {
        let mut pause = MIN_RECONNECT_DELAY;
        loop {
            match self.try_advertised_list_changes(ctx, session).await {
                Some(_) if mutant!("policy-change-not-announced") => return ListChangedSet::default(),
                Some(lists) => return lists,
                // The session has ended, so no notifications are due.
                None if !self.sessions.contains(session.id()) => return ListChangedSet::default(),
                None => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(MAX_RECONNECT_DELAY);
        }
    }

    /// Like [`Self::advertised_list_changes`], but returns `None` if the server does not currently answer.
    async fn try_advertised_list_changes(&self, ctx: &RequestContext, session: &Session) -> Option<ListChangedSet> {
        if session.list_changed().is_none() && session.is_upstream_stateless() {
            match request_discover(self, ctx).await {
                Ok(DiscoverResult::ServerInfo(server_info)) => session.note_list_changed(&server_info),
                // The server answers and advertises nothing.
                Ok(DiscoverResult::Rejected | DiscoverResult::NotStateless) => return Some(ListChangedSet::default()),
                Err(_) => return None,
            }
        } else if session.list_changed().is_none() {
            reopen_if_stale(self, ctx).await;
        }
        session.list_changed()
    }
}
