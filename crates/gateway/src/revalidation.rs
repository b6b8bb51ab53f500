//! What is in force changes while a client listens: whoever still has its grant and its server is told that the lists
//! are others, and goes on by what is in force now.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mutants::mutant;
use gatelodge_store::{ServerName, TokenHash};

use crate::Gateway;
use crate::list_changed::ListChangedSet;
use crate::methods::initialize::reopen_if_stale;
use crate::methods::protocol_probe::{DiscoverResult, request_discover};
use crate::methods::standalone_stream::{MAX_RECONNECT_DELAY, MIN_RECONNECT_DELAY};
use crate::request_context::{ClientProtocol, RequestContext};
use crate::session::Session;

/// What became of what a long stream was opened by.
#[derive(Debug)]
pub(crate) enum Revalidation<T> {
    /// It is in force.
    Unchanged,
    /// Another policy, or another server of that name, has taken its place.
    Replaced(Box<T>),
    /// The grant or its way to the server is no more, or it wants another revision.
    Revoked,
}

impl Gateway {
    /// What became of what a visit came by.
    pub(crate) fn revalidate(&self, ctx: &RequestContext) -> Revalidation<RequestContext> {
        let config = &ctx.grant.config;
        let now = self.find_request_context(&config.token, ctx.upstream.name(), &ctx.client_address);
        let Some(now) =
            now.filter(|now| now.grant.config.id == config.id && now.grant.allows_protocol(&ctx.client_protocol))
        else {
            return if mutant!("stream-outlives-grant") { Revalidation::Unchanged } else { Revalidation::Revoked };
        };
        if self.is_context_current(ctx) {
            return Revalidation::Unchanged;
        }
        Revalidation::Replaced(Box::new(RequestContext {
            client_protocol: ctx.client_protocol.clone(),
            trace: ctx.trace.clone(),
            ..now
        }))
    }

    /// The visit of a client that came before; none if its grant or its server is not in force any more.
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

    /// Of which lists the server promised a client with a session to tell. Of one that was kept over a restart the
    /// server has to be asked again, until it answers.
    pub(crate) async fn advertised_list_changes(&self, ctx: &RequestContext, session: &Session) -> ListChangedSet {
        let mut pause = MIN_RECONNECT_DELAY;
        loop {
            match self.try_advertised_list_changes(ctx, session).await {
                Some(_) if mutant!("policy-change-not-announced") => return ListChangedSet::default(),
                Some(lists) => return lists,
                // Of a session that is over nobody is promised anything.
                None if !self.sessions.contains(session.id()) => return ListChangedSet::default(),
                None => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(MAX_RECONNECT_DELAY);
        }
    }

    /// The same; none if the server does not answer now.
    async fn try_advertised_list_changes(&self, ctx: &RequestContext, session: &Session) -> Option<ListChangedSet> {
        if session.list_changed().is_none() && session.is_upstream_stateless() {
            match request_discover(self, ctx).await {
                Ok(DiscoverResult::ServerInfo(server_info)) => session.note_list_changed(&server_info),
                // It answers, and promises nothing.
                Ok(DiscoverResult::Rejected | DiscoverResult::NotStateless) => return Some(ListChangedSet::default()),
                Err(_) => return None,
            }
        } else if session.list_changed().is_none() {
            reopen_if_stale(self, ctx).await;
        }
        session.list_changed()
    }
}
