//! Revalidates long-lived streams after a configuration change: sends `list_changed` and continues under the new
//! configuration, or closes the stream.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_mutants::mutant;
use gatelodge_store::{ServerName, TokenHash};

use super::{ClientProtocol, RequestContext};
use crate::config_snapshot::ActiveConfig;

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

impl ActiveConfig {
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
        let snapshot = self.snapshot();
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

    /// Returns whether the configuration under which a long-lived stream was opened is still active: its grant and
    /// labels, server, pinned definitions and policy version.
    pub(crate) fn is_context_current(&self, ctx: &RequestContext) -> bool {
        self.is_policy_current(ctx) && ctx.pins_epoch == ctx.upstream.pins_epoch()
    }

    /// Like [`Self::is_context_current`], but for a call that has already been evaluated: definitions pinned since then
    /// do not matter.
    pub(crate) fn is_policy_current(&self, ctx: &RequestContext) -> bool {
        let snapshot = self.snapshot();
        let config = &ctx.grant.config;
        let Some(grant) = snapshot.find_grant(&config.token).filter(|grant| !grant.is_expired(self.clock.now())) else {
            return false;
        };
        // Policies can refer to labels.
        if grant.config.label != config.label || grant.config.labels != config.labels {
            return false;
        }
        let access = grant.config.servers.get(ctx.upstream.name());
        let is_same = access.is_some_and(|access| access.has_same_rules(&ctx.server_access));
        is_same
            && snapshot
                .find_server(ctx.upstream.name().as_str())
                .is_some_and(|server| Arc::ptr_eq(server, &ctx.upstream))
    }
}
