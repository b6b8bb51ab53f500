//! Sessions with upstreams: which protocol a server speaks, the handshake, and sessions that a server has lost.

pub(crate) mod handshake;
pub(crate) mod pooled_session;
pub(crate) mod protocol_probe;
pub(crate) mod session_recovery;
pub(crate) mod session_slot;
