//! What was written where, so that it can be taken back. The journal is written before the files are: whatever happens
//! in between, it knows all of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::client_config_document::{ClientConfigDocument, EntryChange};
use super::client_table::find_client;
use super::file_snapshot::{ClientFileError, FileSnapshot, content_hash};

/// Everything one command wrote.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct UndoJournal {
    /// The files, in the order in which they are written.
    pub steps: Vec<UndoStep>,
    /// Folders that were made for them.
    #[serde(default)]
    pub folders: Vec<PathBuf>,
}

/// One file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UndoStep {
    /// Which.
    pub file: PathBuf,
    /// Where its old text is kept; none if it was not there.
    pub backup: Option<PathBuf>,
    /// The hash of the old text.
    #[serde(rename = "before")]
    pub old_hash: Option<String>,
    /// The hash of the new one.
    #[serde(rename = "after")]
    pub new_hash: String,
    /// The client whose file it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The entries in it that were changed: the names on the way, and the entry's own as the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Vec<String>>,
}

/// How a file stands to what the journal says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoFileState {
    /// As it was written.
    AsWritten,
    /// As it was before.
    Original,
    /// Somebody changed it since.
    Modified,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoOutcome {
    /// It is as it was, or at least our entries are.
    Restored,
    /// It is one of ours, somebody has changed it, and it stays.
    LeftModified,
}

impl UndoJournal {
    /// Finds the journal in a file.
    pub fn load(path: &Path) -> Result<Option<Self>, ClientFileError> {
        let told = |what: String| ClientFileError(format!("the journal `{}` cannot be read: {what}", path.display()));
        let held = FileSnapshot::read(path).map_err(|trouble| told(trouble.0))?;
        let Some(bytes) = held.bytes() else { return Ok(None) };
        serde_json::from_slice(bytes).map(Some).map_err(|error| told(error.to_string()))
    }

    /// Keeps the journal; one without steps is taken away.
    pub fn save(&self, path: &Path) -> Result<(), ClientFileError> {
        if self.steps.is_empty() {
            return remove_if_exists(path);
        }
        let text = serde_json::to_vec_pretty(self).map_err(|error| ClientFileError(error.to_string()))?;
        let told = |trouble: ClientFileError| ClientFileError(format!("the journal `{}`: {trouble}", path.display()));
        FileSnapshot::read(path).and_then(|held| held.replace(&text)).map_err(told)
    }
}

impl UndoStep {
    /// How the file stands.
    pub fn file_state(&self) -> Result<UndoFileState, ClientFileError> {
        let now = FileSnapshot::read(&self.file)?.bytes().map(content_hash);
        Ok(if now.as_ref() == Some(&self.new_hash) {
            UndoFileState::AsWritten
        } else if now == self.old_hash {
            UndoFileState::Original
        } else {
            UndoFileState::Modified
        })
    }

    /// Takes the file back to what it was, byte for byte, and its backup away. Where it was changed since, the changes
    /// stay: clients write to their own files all day, and people tighten policies.
    pub fn undo(&self) -> Result<UndoOutcome, ClientFileError> {
        let old = self.backup_bytes()?;
        let standing = self.file_state()?;
        if standing == UndoFileState::Modified && self.client.is_none() && self.file.exists() {
            return Ok(UndoOutcome::LeftModified);
        }
        match (standing, &old) {
            (UndoFileState::Original, _) => {}
            (UndoFileState::AsWritten, None) => remove_if_exists(&self.file)?,
            (UndoFileState::AsWritten, Some(old)) => FileSnapshot::read(&self.file)?.replace(old)?,
            (UndoFileState::Modified, old) => self.undo_entries(old.as_deref())?,
        }
        self.backup.as_deref().map_or(Ok(()), remove_if_exists)?;
        Ok(UndoOutcome::Restored)
    }

    /// The old text; none if there was none.
    fn backup_bytes(&self) -> Result<Option<Vec<u8>>, ClientFileError> {
        let Some(backup) = &self.backup else { return Ok(None) };
        let kept = FileSnapshot::read(backup)?;
        let bytes =
            kept.bytes().ok_or_else(|| ClientFileError(format!("its backup `{}` is gone", backup.display())))?;
        if Some(content_hash(bytes)) != self.old_hash {
            return Err(ClientFileError(format!("its backup `{}` was changed", backup.display())));
        }
        Ok(Some(bytes.to_vec()))
    }

    /// Takes our entries back in a text that is not the one we wrote.
    fn undo_entries(&self, old: Option<&[u8]>) -> Result<(), ClientFileError> {
        let held = FileSnapshot::read(&self.file)?;
        let (Some(client), Some(bytes)) = (self.client.as_deref().and_then(find_client), held.bytes()) else {
            return old.map_or(Ok(()), |old| held.replace(old));
        };
        let now = ClientConfigDocument::read(client.format, bytes).map_err(ClientFileError)?;
        let before = match old {
            Some(old) => ClientConfigDocument::read(client.format, old).map_err(ClientFileError)?,
            None => ClientConfigDocument::new(client.format),
        };
        let back = |path: &Vec<String>| {
            let (name, root) = path.split_last()?;
            let entry = before.find_entry(root, name).cloned();
            Some(EntryChange { servers_path: root.to_vec(), name: name.clone(), entry, vscode_input: None })
        };
        let changes: Vec<EntryChange> = self.entries.iter().filter_map(back).collect();
        held.replace(&now.apply_changes(&changes).map_err(ClientFileError)?)
    }
}

fn remove_if_exists(path: &Path) -> Result<(), ClientFileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ClientFileError(format!("`{}` cannot be removed: {error}", path.display())))
        }
        _ => Ok(()),
    }
}
