//! Room among what is under way. One runaway agent must not take the gateway from the others, and one server that
//! hangs must not hold all the rest.

use std::sync::Arc;

use gatelodge_mcp::Method;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Refusal;
use crate::live::LiveGrant;
use crate::visit::Visit;

/// Room that was taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    _of_grant: Option<OwnedSemaphorePermit>,
    _of_upstream: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// For one request. A stream may stay open for days, so streams are counted apart.
    pub fn for_request(visit: &Visit, method: &Method<'_>) -> Result<Self, Refusal> {
        if *method == Method::Listen {
            return Self::for_stream(&visit.grant);
        }
        let of_grant = take(&visit.grant.in_flight, "requests of this grant")?;
        let of_upstream = take(&visit.upstream.in_flight, "requests to this server")?;
        Ok(Self { _of_grant: Some(of_grant), _of_upstream: Some(of_upstream) })
    }

    /// For one stream of what belongs to no request.
    pub fn for_stream(grant: &LiveGrant) -> Result<Self, Refusal> {
        let of_grant = take(&grant.streams, "open streams of this grant")?;
        Ok(Self { _of_grant: Some(of_grant), _of_upstream: None })
    }

    /// For one request that many servers are asked for.
    pub fn for_all(grant: &LiveGrant) -> Result<Self, Refusal> {
        let of_grant = take(&grant.in_flight, "requests of this grant")?;
        Ok(Self { _of_grant: Some(of_grant), _of_upstream: None })
    }

    /// For a stream to one of them: the one that the client has, has the place.
    pub fn for_one_stream() -> Self {
        Self { _of_grant: None, _of_upstream: None }
    }

    /// For what one of them is asked.
    pub fn for_one_of_all(visit: &Visit) -> Result<Self, Refusal> {
        let of_upstream = take(&visit.upstream.in_flight, "requests to this server")?;
        Ok(Self { _of_grant: None, _of_upstream: Some(of_upstream) })
    }
}

fn take(room: &Arc<Semaphore>, of_what: &'static str) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(room).try_acquire_owned().map_err(|_| Refusal::Busy(of_what))
}
