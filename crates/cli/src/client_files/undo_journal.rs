//! Undo journal: a list of the files that a command wrote. The journal is written before the files, so it is complete
//! even after a crash.

use std::fs;
use std::path::{Path, PathBuf};

use gatelodge_clients::{ClientConfigDocument, ClientConfigEntryChange, find_client};
use serde::{Deserialize, Serialize};

use super::client_file_snapshot::{ClientFileError, ClientFileSnapshot, content_hash};

/// Record of everything that one command wrote.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct UndoJournal {
    /// Files, in the order in which they are written.
    pub steps: Vec<UndoStep>,
    /// Directories that were created for the files.
    #[serde(default)]
    pub folders: Vec<PathBuf>,
}

/// A file that a command wrote, with the data needed to restore it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UndoStep {
    /// Path of the file.
    pub file: PathBuf,
    /// Backup of the old content, or `None` if the file did not exist.
    pub backup: Option<PathBuf>,
    /// Hash of the old content.
    #[serde(rename = "before")]
    pub old_hash: Option<String>,
    /// Hash of the new content.
    #[serde(rename = "after")]
    pub new_hash: String,
    /// Client that the file belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Key path of each changed entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Vec<String>>,
}

/// State of a file compared with what the journal recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoFileState {
    /// The file is as we wrote it.
    AsWritten,
    /// The file is as it was before we wrote it.
    Original,
    /// The file has changed since we wrote it.
    Modified,
}

/// Result of undoing a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoOutcome {
    /// The file, or at least each entry that we changed in it, is restored.
    Restored,
    /// We created the file, but it has been modified since, so it is kept.
    LeftModified,
}

impl UndoJournal {
    /// Reads the journal, or returns `None` if there is no journal file.
    pub fn load(path: &Path) -> Result<Option<Self>, ClientFileError> {
        let read_error =
            |reason: String| ClientFileError(format!("cannot read the undo journal `{}`: {reason}", path.display()));
        let snapshot = ClientFileSnapshot::read(path).map_err(|error| read_error(error.0))?;
        let Some(bytes) = snapshot.bytes() else { return Ok(None) };
        serde_json::from_slice(bytes).map(Some).map_err(|error| read_error(error.to_string()))
    }

    /// Writes the journal, or removes it if it has no steps.
    pub fn save(&self, path: &Path) -> Result<(), ClientFileError> {
        if self.steps.is_empty() {
            return remove_if_exists(path);
        }
        let text = serde_json::to_vec_pretty(self).map_err(|error| ClientFileError(error.to_string()))?;
        let write_error =
            |error: ClientFileError| ClientFileError(format!("the undo journal `{}`: {error}", path.display()));
        ClientFileSnapshot::read(path).and_then(|snapshot| snapshot.replace(&text)).map_err(write_error)
    }
}

impl UndoStep {
    /// Compares the file with the journal.
    pub fn file_state(&self) -> Result<UndoFileState, ClientFileError> {
        let now = ClientFileSnapshot::read(&self.file)?.bytes().map(content_hash);
        Ok(if now.as_ref() == Some(&self.new_hash) {
            UndoFileState::AsWritten
        } else if now == self.old_hash {
            UndoFileState::Original
        } else {
            UndoFileState::Modified
        })
    }

    /// Restores the old content, byte for byte, and removes the backup. Changes that were made since then are kept,
    /// because clients often write to their files and people edit policies: in a client's file, only our entries are
    /// restored, and a changed file of our own is left as it is.
    pub fn undo(&self) -> Result<UndoOutcome, ClientFileError> {
        let old = self.backup_bytes()?;
        let state = self.file_state()?;
        if state == UndoFileState::Modified && self.client.is_none() && self.file.exists() {
            return Ok(UndoOutcome::LeftModified);
        }
        match (state, &old) {
            (UndoFileState::Original, _) => {}
            (UndoFileState::AsWritten, None) => remove_if_exists(&self.file)?,
            (UndoFileState::AsWritten, Some(old)) => ClientFileSnapshot::read(&self.file)?.replace(old)?,
            (UndoFileState::Modified, old) => self.undo_entries(old.as_deref())?,
        }
        self.backup.as_deref().map_or(Ok(()), remove_if_exists)?;
        Ok(UndoOutcome::Restored)
    }

    /// Returns the old content, or `None` if the file did not exist.
    fn backup_bytes(&self) -> Result<Option<Vec<u8>>, ClientFileError> {
        let Some(backup) = &self.backup else { return Ok(None) };
        let snapshot = ClientFileSnapshot::read(backup)?;
        let bytes = snapshot
            .bytes()
            .ok_or_else(|| ClientFileError(format!("its backup `{}` does not exist", backup.display())))?;
        if Some(content_hash(bytes)) != self.old_hash {
            return Err(ClientFileError(format!("its backup `{}` was changed", backup.display())));
        }
        Ok(Some(bytes.to_vec()))
    }

    /// Restores only our entries in a file that has changed since we wrote it.
    fn undo_entries(&self, old: Option<&[u8]>) -> Result<(), ClientFileError> {
        let snapshot = ClientFileSnapshot::read(&self.file)?;
        let (Some(client), Some(bytes)) = (self.client.as_deref().and_then(find_client), snapshot.bytes()) else {
            return old.map_or(Ok(()), |old| snapshot.replace(old));
        };
        let now = ClientConfigDocument::read(client.format, bytes).map_err(ClientFileError)?;
        let before = match old {
            Some(old) => ClientConfigDocument::read(client.format, old).map_err(ClientFileError)?,
            None => ClientConfigDocument::new(client.format),
        };
        let restore = |path: &Vec<String>| {
            let (name, root) = path.split_last()?;
            let entry = before.find_entry(root, name).cloned();
            Some(ClientConfigEntryChange { servers_path: root.to_vec(), name: name.clone(), entry, vscode_input: None })
        };
        let changes: Vec<ClientConfigEntryChange> = self.entries.iter().filter_map(restore).collect();
        snapshot.replace(&now.apply_changes(&changes).map_err(ClientFileError)?)
    }
}

fn remove_if_exists(path: &Path) -> Result<(), ClientFileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ClientFileError(format!("cannot remove `{}`: {error}", path.display())))
        }
        _ => Ok(()),
    }
}
