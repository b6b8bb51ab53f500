//! The index: what is known of published packages and their tools, in one file that is searched as it is opened.
//!
//! Only facts are in it. Reading and writing take and give bytes; where they come from is not known here.

mod about;
mod bytes;
mod diff;
mod facts;
mod known;
mod open;
mod pool;
mod rows;
mod search;
mod write;

pub use about::About;
pub use diff::{Change, ChangeKind, ServerChanges, changes};
pub use facts::{Claims, PackageFacts, ParameterFacts, Source, ToolFacts};
pub use known::Known;
pub(crate) use open::CATEGORIES;
pub use open::OpenIndexError;
pub(crate) use rows::is_same_name;
pub use rows::normal_name;
pub use rows::{Index, IndexedServer, IndexedTool};
pub use search::{Found, Query};
pub use write::{WriteIndexError, write_index};
