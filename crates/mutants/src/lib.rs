//! Mutants: deliberate bugs that show that the tests can fail.
//!
//! Each mutant is a branch in the code under test, `if mutant!("name")`. A build with `--cfg gatelodge_mutants`
//! contains all of them, and the environment variable `GATELODGE_MUTANT` selects the one that is active. One build is
//! therefore enough for all mutants, and `checks/mutants.py` runs the tests once for each.
//!
//! In every other build [`mutant!`] is the constant `false`. The compiler still checks the types of the branch, so that a
//! renamed function does not leave a stale mutant, but neither its code nor its name is in the program;
//! `checks/mutants.py --absent` verifies that.

use std::sync::OnceLock;

/// Whether the mutant of this name is active: `false` at compile time unless built with `--cfg gatelodge_mutants`.
///
/// A name is a string literal, unique in the workspace.
///
/// ```
/// use gatelodge_mutants::mutant;
///
/// fn is_within(used: u32, limit: u32) -> bool {
///     used <= limit || mutant!("limit-not-enforced")
/// }
/// assert!(!is_within(3, 2));
/// ```
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        cfg!(gatelodge_mutants) && $crate::is_active($name)
    };
}

/// Whether `GATELODGE_MUTANT` names this mutant. Called by [`mutant!`] only.
#[doc(hidden)]
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the variable selects a mutant in test builds; no other build calls this"
)]
pub fn is_active(name: &str) -> bool {
    static ACTIVE: OnceLock<Option<String>> = OnceLock::new();
    ACTIVE.get_or_init(|| std::env::var("GATELODGE_MUTANT").ok()).as_deref() == Some(name)
}
