//! What is done with each message: one file for each kind that we look into.

pub(crate) mod call_handler;
pub(crate) mod crossing;
pub(crate) mod gone;
pub(crate) mod initialize;
pub(crate) mod input;
pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod lost;
pub(crate) mod offer;
pub(crate) mod pass;
pub(crate) mod pool;
pub(crate) mod protocol_probe;
pub(crate) mod server;
pub(crate) mod stream;
pub(crate) mod subscribe;
pub(crate) mod tasks;
pub(crate) mod undeclared;
