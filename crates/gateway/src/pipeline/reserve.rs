//! Reserves the charges for a call and writes its intent row, in a single ledger operation.

use gatelodge_mutants::mutant;
use gatelodge_policy::{AllowTerms, LimitScope};
use gatelodge_store::{CounterCharge, CounterOwner, Reservation, ReserveOutcome, StoreError};

use crate::call_recorder::CallRecorder;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::services::GatewayServices;
use crate::upstream::permit::PermitProof;

/// Proof that the charges for a call have been reserved and its intent row has been written.
#[derive(Debug)]
pub(crate) struct CallReservation {
    /// Charges to release if no byte of the call is sent.
    pub reservation: Reservation,
}

impl PermitProof for CallReservation {}

/// Reserves either all charges that the terms require or none.
pub(crate) async fn reserve(
    gw: &GatewayServices,
    ctx: &RequestContext,
    terms: &AllowTerms,
    recorder: &mut CallRecorder,
) -> Result<CallReservation, Refusal> {
    if let Some(approval) = &terms.approval {
        return Err(Refusal::ApprovalUnavailable(approval.clone()));
    }
    // Only a hash of the session id is stored.
    let is_by_session = terms.charges.iter().any(|charge| charge.scope() == LimitScope::Session);
    let session = ctx.session().filter(|_| is_by_session).map(|session| {
        if mutant!("session-limit-counted-per-server") { session.id_hash() } else { session.limit_key() }.to_string()
    });
    // INVARIANT: charges come from a policy, so a call with charges has one.
    let charges = match &ctx.server_access.policy {
        Some(policy) => {
            let owner = CounterOwner {
                policy: &policy.name,
                server: ctx.upstream.name(),
                grant: &ctx.grant.config.id,
                session: session.as_deref(),
            };
            terms.charges.iter().map(|charge| CounterCharge::of(charge, &owner)).collect()
        }
        None => Vec::new(),
    };
    // Every ledger implementation responds within two seconds.
    match gw.ledger.reserve(charges, recorder.intent_row()).await.map_err(Refusal::Store)? {
        ReserveOutcome::Taken(reservation) => {
            recorder.mark_reserved();
            Ok(CallReservation { reservation })
        }
        ReserveOutcome::Exhausted(exhausted) => match terms.charges.get(exhausted.charge_index) {
            Some(charge) => {
                Err(Refusal::Exhausted { charge: Box::new(charge.clone()), retry_after: exhausted.retry_after })
            }
            None => Err(Refusal::Store(StoreError::Corrupt("it named a charge that was not made".to_owned()))),
        },
    }
}
