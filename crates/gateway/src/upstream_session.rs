//! Work on the upstream's side of a call that the gateway does on its own account: finding out which protocol a server
//! speaks, the handshake, local sessions, sessions that a server has lost, its event stream, cancellation, and
//! subscriptions.

pub(crate) mod advertised_lists;
pub(crate) mod call_cancellation;
pub(crate) mod client_handshake;
pub(crate) mod event_stream;
pub(crate) mod handshake;
pub(crate) mod local_session;
pub(crate) mod lost_session;
pub(crate) mod pooled_session;
pub(crate) mod protocol_probe;
pub(crate) mod resource_subscription;
pub(crate) mod session_slot;
pub(crate) mod upstream_exchange;
