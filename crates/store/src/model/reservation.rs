//! Reservations: charges that are taken and not settled yet.

use std::time::Duration;

use super::AppliedCharge;

/// The charges that a call has reserved. If the process dies, they are not refunded.
#[derive(Debug, Default)]
#[must_use = "a reservation is spent by sending the call, or refunded by `release`"]
pub struct Reservation {
    pub(crate) charges: Vec<AppliedCharge>,
}

/// Result of a reservation.
#[derive(Debug)]
pub enum ReserveOutcome {
    /// All charges were reserved and the intent row was written.
    Taken(Reservation),
    /// A counter was exhausted; nothing was charged or written.
    Exhausted(ExhaustedCounter),
}

/// The first counter that was found exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExhaustedCounter {
    /// Index of the charge that did not fit.
    pub charge_index: usize,
    /// Time until the charge would fit; `None` if waiting does not help.
    pub retry_after: Option<Duration>,
}
