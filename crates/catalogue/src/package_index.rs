//! The package index: facts about published packages and their tools, in a single file that is searched in memory.
//!
//! The index contains only facts and no descriptions. It is parsed from bytes in memory, so the caller decides where to
//! load it from. `gatelodge-indexer` writes the file.

mod column_reader;
mod index_diff;
pub mod index_file_format;
mod index_metadata;
mod index_reader;
mod index_rows;
mod index_search;
mod package_facts;
mod server_catalogue_entry;
mod string_table;

pub use index_diff::{ServerChanges, ToolChange, ToolChangeKind, index_changes};
pub use index_metadata::IndexMetadata;
pub use index_reader::OpenIndexError;
pub(crate) use index_rows::is_same_package_name;
pub use index_rows::normalized_name;
pub use index_rows::{IndexedServer, IndexedTool, PackageIndex};
pub use index_search::{IndexQuery, SearchResults};
pub use package_facts::{IndexedToolParameter, PackageFacts, PackageRegistry, ToolFacts, ToolHints};
pub use server_catalogue_entry::ServerCatalogueEntry;
