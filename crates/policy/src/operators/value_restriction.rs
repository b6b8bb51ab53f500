//! What lints know about values for which an operator holds.

use super::scalar_set::{DecimalText, ScalarSet};

/// What an operator requires of a value, in addition to its kind. Lints use it to find conditions that contradict each
/// other or that never hold. An operator that fits none of these is [`Other`](Self::Other), and is still checked by
/// applying it to the values that are possible.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueRestriction<'o> {
    Other,
    /// The value is present, and may be anything.
    Presence,
    /// The value is absent or null.
    Absence,
    /// The value equals a member.
    Member(&'o ScalarSet),
    /// The value equals no member of a set.
    NoMember,
    /// The value is a number, and at least this one.
    AtLeast(NumericLimit<'o>),
    /// The value is a number, and at most this one.
    AtMost(NumericLimit<'o>),
    /// The value starts with this text.
    Prefix(&'o str),
    /// The value ends with this text.
    Suffix(&'o str),
    /// This regular expression matches somewhere in the value.
    Pattern(&'o str),
}

/// The number that a value is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumericLimit<'o> {
    pub number: &'o DecimalText,
    /// Whether the number itself does not satisfy the operator.
    pub is_exclusive: bool,
}
