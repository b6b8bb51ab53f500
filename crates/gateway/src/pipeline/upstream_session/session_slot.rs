//! Slots for sessions: how many a grant may have, and how many processes a server.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::handshake::end_upstream_session;
use crate::Gateway;
use crate::config_snapshot::ActiveGrant;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;

/// Maximum size of a handshake; real ones have a few hundred bytes.
pub(crate) const MAX_HANDSHAKE_BYTES: usize = 64 << 10;

/// Time limit for a process to start and respond to the handshake; clients give up after 30 s.
pub(super) const PROCESS_START_TIMEOUT: Duration = Duration::from_secs(25);

/// Acquires one of the grant's session slots. If all process slots of the server are taken, first tries to stop a
/// process to make room for the new session.
pub(crate) async fn reserve_session_slot(
    gw: &Gateway,
    ctx: &RequestContext,
    handshake: usize,
) -> Result<OwnedSemaphorePermit, Refusal> {
    // The handshake is kept for the lifetime of the session.
    if handshake > MAX_HANDSHAKE_BYTES {
        return Err(Refusal::TooLarge("the handshake", MAX_HANDSHAKE_BYTES));
    }
    evict_process_if_full(gw, ctx).await;
    gw.acquire_session_permit(&ctx.grant).await.ok_or(Refusal::Busy("sessions"))
}

/// Stops the least recently used process if all process slots are taken.
pub(super) async fn evict_process_if_full(gw: &Gateway, ctx: &RequestContext) {
    let is_full = ctx.upstream.is_process() && !ctx.upstream.has_free_process_slot();
    if is_full && gw.sessions.stop_least_recently_used_process(ctx.upstream.name()) {
        let _ = tokio::time::timeout(PROCESS_START_TIMEOUT, ctx.upstream.wait_for_process_slot()).await;
    }
}

impl Gateway {
    /// Acquires one of the grant's session slots. If none is free, ends idle sessions and tries again.
    pub(crate) async fn acquire_session_permit(&self, grant: &ActiveGrant) -> Option<OwnedSemaphorePermit> {
        let take = || Arc::clone(&grant.sessions).try_acquire_owned().ok().filter(|_| self.sessions.has_capacity());
        if let Some(session_permit) = take() {
            return Some(session_permit);
        }
        self.end_idle_sessions().await;
        take()
    }

    /// Ends idle and expired sessions, in the gateway and at the upstream.
    pub(crate) async fn end_idle_sessions(&self) {
        let (snapshot, now) = (self.config_snapshot(), self.clock.now());
        let grants: HashSet<_> =
            snapshot.grants().filter(|grant| !grant.is_expired(now)).map(|grant| grant.config.id.clone()).collect();
        drop(snapshot);
        let ended = self.sessions.remove_expired(|grant| grants.contains(grant));
        self.sessions.sweep_server_sessions();
        for session in ended {
            let upstream =
                session.server().and_then(|server| self.config_snapshot().find_server(server.as_str()).cloned());
            if let Some(upstream) = upstream {
                end_upstream_session(self, &upstream, session.upstream_link()).await;
            }
        }
    }
}
