//! Charges to counters, and the keys of counters.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use gatelodge_policy::{Amount, Charge, LimitScope, LimitWindow, WindowAlignment};

use super::{GrantId, PolicyName, ServerName};

/// Identifies a counter. It stays the same across policy versions and when a grant's token is rotated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CounterKey(Arc<str>);

/// The properties of a call that determine its counters.
#[derive(Debug, Clone, Copy)]
pub struct CounterOwner<'a> {
    /// The policy that defines the limit.
    pub policy: &'a PolicyName,
    /// The server being called.
    pub server: &'a ServerName,
    /// The grant.
    pub grant: &'a GrantId,
    /// The session, if the client has one.
    pub session: Option<&'a str>,
}

impl CounterKey {
    /// Returns the key of the counter for a charge.
    ///
    /// The key consists of the policy, the server (unless the scope is the organisation), the counter with its window
    /// and alignment, the scope, and the grant or session. Separators within these parts are escaped.
    pub fn of(charge: &Charge, owner: &CounterOwner<'_>) -> Self {
        let window = match charge.window() {
            LimitWindow::Seconds(seconds) => Cow::Owned(seconds.to_string()),
            LimitWindow::Week => Cow::Borrowed("week"),
            LimitWindow::Month => Cow::Borrowed("month"),
        };
        let server = if charge.scope() == LimitScope::Organisation { "" } else { owner.server.as_str() };
        let session = owner.session.unwrap_or_default();
        let own = match charge.scope() {
            LimitScope::Grant => owner.grant.0.as_ref(),
            LimitScope::Session => session,
            LimitScope::Server | LimitScope::Organisation => "",
        };
        let parts = [
            owner.policy.as_str(),
            server,
            charge.counter().as_ref(),
            &window,
            charge.align().as_str(),
            charge.scope().as_str(),
            own,
        ];
        let mut key = String::with_capacity(96);
        for part in parts {
            if part.bytes().any(|byte| matches!(byte, b'|' | b'\\')) {
                key.push_str(&part.replace('\\', "\\\\").replace('|', "\\|"));
            } else {
                key.push_str(part);
            }
            key.push('|');
        }
        Self(key.into())
    }

    /// Returns the key in its stored form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Creates a key from its stored form.
    pub(crate) fn from_stored(text: &str) -> Self {
        Self(text.into())
    }
}

impl Borrow<str> for CounterKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CounterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An amount to charge to a counter, if it fits.
#[derive(Debug, Clone)]
pub struct CounterCharge {
    /// The counter.
    pub key: CounterKey,
    /// The length of the window.
    pub window: LimitWindow,
    /// The alignment of the window.
    pub align: WindowAlignment,
    /// The limit.
    pub max: Amount,
    /// The amount to add.
    pub amount: Amount,
}

impl CounterCharge {
    /// Combines a charge from a policy with the key of the counter that it applies to.
    pub fn of(charge: &Charge, owner: &CounterOwner<'_>) -> Self {
        Self {
            key: CounterKey::of(charge, owner),
            window: charge.window(),
            align: charge.align(),
            max: charge.max(),
            amount: charge.amount(),
        }
    }
}

/// An amount that was charged to a counter, and the period to which it was charged.
#[derive(Debug, Clone)]
pub(crate) struct AppliedCharge {
    pub key: CounterKey,
    pub period: PeriodIndex,
    pub billionths: i128,
}

/// Index of a period: its start in seconds for calendar windows, or the slot number since 1970 for rolling windows.
/// Later periods have larger indices.
pub(crate) type PeriodIndex = i64;

/// How much of a counter is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterUsageRow {
    /// The counter.
    pub key: CounterKey,
    /// Amount used as of the last charge. The window may have ended since then.
    pub used: Amount,
}
