//! Leave to send one message upstream. Sending takes one and uses it up.

use gatelodge_policy::Terms;

use super::reserve::Reserved;
use crate::upstream::Outgoing;

/// Leave to send one message. There is no other way to an upstream.
#[derive(Debug)]
pub(crate) struct Permit {
    outgoing: Outgoing,
}

impl Permit {
    /// For a call whose charges are taken and whose intent is written. The reservation is spent when it is sent, so
    /// it stays with whoever may have to give it back.
    pub fn of_reserved(_: &Reserved, outgoing: Outgoing) -> Self {
        Self { outgoing }
    }

    /// For what the policy lets pass without a charge: handshakes, lists, notifications.
    pub fn of_terms(terms: &Terms, outgoing: Outgoing) -> Option<Self> {
        let is_free = terms.charges.is_empty() && terms.question.is_none();
        is_free.then_some(Self { outgoing })
    }

    /// For the gateway's own housekeeping: the next page of a list that was permitted, the end of a session, the
    /// question which revision a server speaks. Nothing a caller wrote goes out with it.
    pub fn of_housekeeping(outgoing: Outgoing) -> Self {
        Self { outgoing }
    }

    pub fn into_outgoing(self) -> Outgoing {
        self.outgoing
    }
}
