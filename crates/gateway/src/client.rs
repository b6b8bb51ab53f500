//! The client leg: finds out which protocol a client speaks, and turns its messages into requests of one form.

pub(crate) mod protocol_detection;
pub(crate) mod request_endpoint;
pub(crate) mod single_session_client;
