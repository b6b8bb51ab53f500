//! Slots for sessions: how many a grant may have, and how many processes a server.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;

/// Maximum size of a handshake; real ones have a few hundred bytes.
pub(crate) const MAX_HANDSHAKE_BYTES: usize = 64 << 10;

/// Time limit for a process to start and respond to the handshake; clients give up after 30 s.
pub(super) const PROCESS_START_TIMEOUT: Duration = Duration::from_secs(25);

/// Acquires one of the grant's session slots. If all process slots of the server are taken, first tries to stop a
/// process to make room for the new session.
pub(crate) async fn reserve_session_slot(
    gw: &GatewayServices,
    ctx: &RequestContext,
    handshake: usize,
) -> Result<OwnedSemaphorePermit, Refusal> {
    // The handshake is kept for the lifetime of the session.
    if handshake > MAX_HANDSHAKE_BYTES {
        return Err(Refusal::TooLarge("the handshake", MAX_HANDSHAKE_BYTES));
    }
    evict_process_if_full(gw, ctx).await;
    gw.sessions.acquire_permit(&ctx.grant).await.ok_or(Refusal::Busy("sessions"))
}

/// Stops the least recently used process if all process slots are taken.
pub(super) async fn evict_process_if_full(gw: &GatewayServices, ctx: &RequestContext) {
    let is_full = ctx.upstream.is_process() && !ctx.upstream.has_free_process_slot();
    if is_full && gw.sessions.registry.stop_least_recently_used_process(ctx.upstream.name()) {
        let _ = tokio::time::timeout(PROCESS_START_TIMEOUT, ctx.upstream.wait_for_process_slot()).await;
    }
}
