//! Subcommands of `gatelodge`, one module for each.

pub mod audit;
pub mod bridge;
pub mod call;
pub mod calls;
pub mod catalogue;
pub mod connect;
pub mod docs;
pub mod doctor;
pub mod grant;
pub mod init;
pub mod pharo;
pub mod policy;
pub mod precheck;
pub mod scan;
pub mod serve;
pub mod server;
pub mod stack;
pub mod status;
mod time_text;
pub mod up;
pub mod wrap;
