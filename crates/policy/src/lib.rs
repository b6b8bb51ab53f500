//! The policy language: what is written becomes a [`Policy`]; [`decide`] judges calls by it.
//!
//! Everything here is pure: the same document, call and time give the same answer. No clock, no files, no network.

mod call;
mod call_file;
mod condition;
mod decide;
mod decision;
mod directory;
mod fault;
mod glob;
mod host;
mod limit;
mod method;
mod parse;
mod path;
mod reserve;
mod scalar;
mod schema;
mod set;
mod uri;
mod visible;
mod written;

pub use call::{Call, Caller, Category, Definition, Reference, Subject, Tool};
pub use call_file::CallFile;
pub use condition::{Answer, Operator};
pub use decide::decide;
pub use decision::{Code, Decision, Question, Reason, Terms};
pub use fault::{Code as FaultCode, Fault, Severity};
pub use limit::{Align, Amount, Charge, Scope, Window};
pub use parse::parse;
pub use schema::{Schema, SchemaError};
pub use set::{ClientRequest, Policy};
pub use written::Format;
