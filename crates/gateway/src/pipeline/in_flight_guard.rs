//! Room among what is under way. One runaway agent must not take the gateway from the others, and one server that
//! hangs must not hold all the rest.

use std::sync::Arc;

use gatelodge_mcp::Method;
use gatelodge_mutants::mutant;

use super::Refusal;
use crate::config_snapshot::ActiveGrant;
use crate::in_flight_limit::{InFlightLimit, InFlightPermit};
use crate::request_context::RequestContext;

/// Room that was taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    _grant_permit: Option<InFlightPermit>,
    _upstream_permit: Option<InFlightPermit>,
}

impl InFlightGuard {
    /// For one request. A stream may stay open for days, so streams are counted apart.
    pub fn for_request(ctx: &RequestContext, method: &Method<'_>) -> Result<Self, Refusal> {
        if *method == Method::Listen {
            return Self::for_stream(&ctx.grant);
        }
        let of_grant = acquire(&ctx.grant.in_flight, "requests of this grant")?;
        let of_upstream = acquire(&ctx.upstream.in_flight, "requests to this server")?;
        let is_counted = !mutant!("list-not-counted-in-flight") || *method == Method::ToolsCall;
        Ok(Self { _grant_permit: is_counted.then_some(of_grant), _upstream_permit: Some(of_upstream) })
    }

    /// For one stream of what belongs to no request.
    pub fn for_stream(grant: &ActiveGrant) -> Result<Self, Refusal> {
        let of_grant = acquire(&grant.streams, "open streams of this grant")?;
        Ok(Self { _grant_permit: Some(of_grant), _upstream_permit: None })
    }

    /// For one request that many servers are asked for.
    pub fn for_aggregate(grant: &ActiveGrant) -> Result<Self, Refusal> {
        let of_grant = acquire(&grant.in_flight, "requests of this grant")?;
        Ok(Self { _grant_permit: Some(of_grant), _upstream_permit: None })
    }

    /// For a stream to one of them: the one that the client has, has the place.
    pub fn unlimited() -> Self {
        Self { _grant_permit: None, _upstream_permit: None }
    }

    /// For what one of them is asked.
    pub fn for_fan_out_leg(ctx: &RequestContext) -> Result<Self, Refusal> {
        let of_upstream = acquire(&ctx.upstream.in_flight, "requests to this server")?;
        Ok(Self { _grant_permit: None, _upstream_permit: Some(of_upstream) })
    }
}

fn acquire(limit: &Arc<InFlightLimit>, of_what: &'static str) -> Result<InFlightPermit, Refusal> {
    limit.try_acquire().ok_or(Refusal::Busy(of_what))
}
