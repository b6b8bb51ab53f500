//! The rim towards callers: listeners, checks of the head, bodies, and what is answered.

pub(crate) mod admin;
mod all;
pub(crate) mod body;
mod clerk;
mod cors;
pub(crate) mod head;
pub(crate) mod line;
pub(crate) mod listener;
pub(crate) mod mcp;
mod outlet;
pub(crate) mod reply;
pub(crate) mod sse;
pub(crate) mod tap;
