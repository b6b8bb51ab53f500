//! Files of MCP clients on disk: reads them, backs them up, replaces them atomically, and undoes that. Their formats are in
//! `gatelodge-clients`.

mod client_file_snapshot;
mod planned_write;
mod undo_journal;

pub use client_file_snapshot::{ClientFileError, ClientFileSnapshot, create_private_directory};
pub use planned_write::PlannedWrite;
pub use undo_journal::{UndoFileState, UndoJournal, UndoOutcome, UndoStep};
