//! The result of a condition: true, false, absent or mismatch.

use gatelodge_mutants::mutant;

use crate::string_enum::string_enum;

string_enum! {
    /// Result of a condition or a predicate.
    ConditionResult {
        /// The condition or predicate holds.
        True = "true",
        /// The condition or predicate does not hold.
        False = "false",
        /// The value at the path is missing or null.
        Absent = "absent",
        /// The value has a type that the operator cannot compare.
        Mismatch = "mismatch",
    }
}

impl ConditionResult {
    pub(crate) fn of(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }

    /// Combines two results that must both be true. If they differ, the one that comes first in this order is returned:
    /// false, mismatch, absent, true.
    pub(crate) fn and(self, other: Self) -> Self {
        let rank = |result| match result {
            Self::Mismatch if mutant!("mismatch-wins-over-false") => -1,
            Self::False => 0,
            Self::Mismatch => 1,
            Self::Absent => 2,
            Self::True => 3,
        };
        if rank(other) < rank(self) { other } else { self }
    }

    /// Combines two results, at least one of which must be true. If they differ, the one that comes first in this order
    /// is returned: mismatch, true, absent, false.
    pub(crate) fn or(self, other: Self) -> Self {
        let rank = |result| match result {
            Self::True if mutant!("true-wins-over-mismatch") => -1,
            Self::Mismatch => 0,
            Self::True => 1,
            Self::Absent => 2,
            Self::False => 3,
        };
        if rank(other) < rank(self) { other } else { self }
    }
}
