//! A file and what shall stand in it.

use super::client_table::ClientProfile;
use super::file_snapshot::{ClientFileError, FileSnapshot, content_hash};
use super::undo_journal::UndoStep;

/// A file and what shall stand in it.
#[derive(Debug)]
pub struct PlannedWrite {
    /// The file as it is.
    pub snapshot: FileSnapshot,
    /// Its new text.
    pub new_bytes: Vec<u8>,
    /// The client whose file it is; none for one of ours.
    pub client: Option<&'static ClientProfile>,
    /// The entries in it that change.
    pub entries: Vec<Vec<String>>,
}

impl PlannedWrite {
    /// A file of ours.
    pub fn own_file(snapshot: FileSnapshot, text: String) -> Self {
        Self { snapshot, new_bytes: text.into_bytes(), client: None, entries: Vec::new() }
    }

    /// Keeps the old text, if there is one, and says what the journal has to know.
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
