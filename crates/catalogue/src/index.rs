//! The index: what is known of published packages and their tools, in one file that is searched as it is opened.
//!
//! Only facts are in it. Reading takes bytes; where they come from is not known here. `gatelodge-indexer` writes it.

mod about;
mod bytes;
mod diff;
mod facts;
pub mod format;
mod known;
mod open;
mod pool;
mod rows;
mod search;

pub use about::About;
pub use diff::{Change, ChangeKind, ServerChanges, changes};
pub use facts::{Claims, PackageFacts, ParameterFacts, Source, ToolFacts};
pub use known::Known;
pub use open::OpenIndexError;
pub(crate) use rows::is_same_name;
pub use rows::normal_name;
pub use rows::{Index, IndexedServer, IndexedTool};
pub use search::{Found, Query};
