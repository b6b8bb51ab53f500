//! In-flight limits per grant and per server, so that one runaway agent cannot exhaust the gateway and one hanging
//! server cannot block the others.

use std::sync::Arc;

use gatelodge_mcp::Method;
use gatelodge_mutants::mutant;

use super::RequestContext;
use crate::config_snapshot::ActiveGrant;
use crate::refusal::Refusal;
use crate::runtime::{InFlightGuard, InFlightLimit, InFlightSlot};

impl InFlightGuard {
    /// Acquires a slot for one request. Listen requests can stay open for days, so they count as streams.
    pub fn for_request(ctx: &RequestContext, method: &Method<'_>) -> Result<Self, Refusal> {
        if *method == Method::Listen {
            return Self::for_stream(&ctx.grant);
        }
        let of_grant = acquire(&ctx.grant.in_flight, "requests of this grant")?;
        let of_upstream = acquire(&ctx.upstream.in_flight, "requests to this server")?;
        let is_counted = !mutant!("list-not-counted-in-flight") || *method == Method::ToolsCall;
        Ok(Self::new(is_counted.then_some(of_grant), Some(of_upstream)))
    }

    /// Acquires a slot for a stream that belongs to no request.
    pub fn for_stream(grant: &ActiveGrant) -> Result<Self, Refusal> {
        let of_grant = acquire(&grant.streams, "open streams of this grant")?;
        Ok(Self::new(Some(of_grant), None))
    }

    /// Acquires one of the grant's slots for a request on the aggregate endpoint.
    pub fn for_aggregate(grant: &ActiveGrant) -> Result<Self, Refusal> {
        let of_grant = acquire(&grant.in_flight, "requests of this grant")?;
        Ok(Self::new(Some(of_grant), None))
    }

    /// Creates a guard without a slot, for one upstream stream of a merged stream: the client's stream already holds
    /// the slot.
    pub fn unlimited() -> Self {
        Self::new(None, None)
    }

    /// Acquires one of the server's slots for one request of a fan-out.
    pub fn for_fan_out_leg(ctx: &RequestContext) -> Result<Self, Refusal> {
        let of_upstream = acquire(&ctx.upstream.in_flight, "requests to this server")?;
        Ok(Self::new(None, Some(of_upstream)))
    }
}

fn acquire(limit: &Arc<InFlightLimit>, of_what: &'static str) -> Result<InFlightSlot, Refusal> {
    limit.try_acquire().ok_or(Refusal::Busy(of_what))
}
