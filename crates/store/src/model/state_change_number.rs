//! Numbers that identify a state of the store.

/// A number that changes whenever the state changes. Only equality is meaningful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateChangeNumber(pub u64);
