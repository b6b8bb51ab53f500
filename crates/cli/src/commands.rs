//! One file for each command; each knows one thing.

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
pub mod up;
pub mod wrap;
