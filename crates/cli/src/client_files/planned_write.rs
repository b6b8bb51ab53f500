//! A planned change to a file.

use gatelodge_clients::ClientProfile;

use super::client_file_snapshot::{ClientFileError, ClientFileSnapshot, content_hash};
use super::undo_journal::UndoStep;

/// A file and its new content.
#[derive(Debug)]
pub struct PlannedWrite {
    /// The file's current state.
    pub snapshot: ClientFileSnapshot,
    /// New content.
    pub new_bytes: Vec<u8>,
    /// Client that the file belongs to, or `None` if it is one of our own files.
    pub client: Option<&'static ClientProfile>,
    /// Key path of each entry that changes.
    pub entries: Vec<Vec<String>>,
}

impl PlannedWrite {
    /// Plans to write one of our own files.
    pub fn own_file(snapshot: ClientFileSnapshot, text: String) -> Self {
        Self { snapshot, new_bytes: text.into_bytes(), client: None, entries: Vec::new() }
    }

    /// Backs up the file if it exists, and returns the undo step to add to the journal.
    pub fn prepare_undo_step(&self) -> Result<UndoStep, ClientFileError> {
        let backup = match self.snapshot.bytes() {
            Some(_) => Some(self.snapshot.back_up()?),
            None => None,
        };
        Ok(UndoStep {
            file: self.snapshot.path().to_owned(),
            backup,
            old_hash: self.snapshot.bytes().map(content_hash),
            new_hash: content_hash(&self.new_bytes),
            client: self.client.map(|client| client.id.to_owned()),
            entries: self.entries.clone(),
        })
    }
}
