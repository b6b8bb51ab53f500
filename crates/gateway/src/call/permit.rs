//! Leave to send one message upstream. Sending takes one and uses it up.

use gatelodge_policy::is_always_allowed;

use gatelodge_mcp::Id;

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

    /// For a message whose method passes under every policy: handshakes, lists, notifications. None for any other.
    pub fn of_always_allowed(method: &str, outgoing: Outgoing) -> Option<Self> {
        is_always_allowed(method).then_some(Self { outgoing })
    }

    /// For the client's answer to what the upstream asked under `_asked`, which the policy allowed when it was asked.
    pub fn of_answer(_asked: &Id<'_>, outgoing: Outgoing) -> Self {
        Self { outgoing }
    }

    /// For the gateway's own housekeeping: the end of a session, an answer to what the client is not asked, the
    /// question which revision a server speaks or which tools it offers. Nothing a caller wrote goes out with it, but
    /// for the handshake that is done again.
    pub fn of_housekeeping(outgoing: Outgoing) -> Self {
        Self { outgoing }
    }

    pub fn into_outgoing(self) -> Outgoing {
        self.outgoing
    }
}
