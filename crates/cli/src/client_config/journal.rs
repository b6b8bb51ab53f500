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
pub struct Journal {
    /// The files, in the order in which they are written.
    pub steps: Vec<Step>,
    /// Folders that were made for them.
    #[serde(default)]
    pub folders: Vec<PathBuf>,
}

/// One file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// Which.
    pub file: PathBuf,
    /// Where its old text is kept; none if it was not there.
    pub backup: Option<PathBuf>,
    /// The hash of the old text.
    pub before: Option<String>,
    /// The hash of the new one.
    pub after: String,
    /// The client whose file it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The entries in it that were changed: the names on the way, and the entry's own as the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Vec<String>>,
}

/// How a file stands to what the journal says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As it was written.
    Written,
    /// As it was before.
    Before,
    /// Somebody changed it since.
    Changed,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// It is as it was, or at least our entries are.
    Back,
    /// It is one of ours, somebody has changed it, and it stays.
    Left,
}

impl Journal {
    /// Finds the journal in a file.
    pub fn find(path: &Path) -> Result<Option<Self>, ClientFileError> {
        let told = |what: String| ClientFileError(format!("the journal `{}` cannot be read: {what}", path.display()));
        let held = FileSnapshot::read(path).map_err(|trouble| told(trouble.0))?;
        let Some(bytes) = held.bytes() else { return Ok(None) };
        serde_json::from_slice(bytes).map(Some).map_err(|error| told(error.to_string()))
    }

    /// Keeps the journal; one without steps is taken away.
    pub fn keep(&self, path: &Path) -> Result<(), ClientFileError> {
        if self.steps.is_empty() {
            return remove(path);
        }
        let text = serde_json::to_vec_pretty(self).map_err(|error| ClientFileError(error.to_string()))?;
        let told = |trouble: ClientFileError| ClientFileError(format!("the journal `{}`: {trouble}", path.display()));
        FileSnapshot::read(path).and_then(|held| held.replace(&text)).map_err(told)
    }
}

impl Step {
    /// How the file stands.
    pub fn standing(&self) -> Result<Standing, ClientFileError> {
        let now = FileSnapshot::read(&self.file)?.bytes().map(content_hash);
        Ok(if now.as_ref() == Some(&self.after) {
            Standing::Written
        } else if now == self.before {
            Standing::Before
        } else {
            Standing::Changed
        })
    }

    /// Takes the file back to what it was, byte for byte, and its backup away. Where it was changed since, the changes
    /// stay: clients write to their own files all day, and people tighten policies.
    pub fn undo(&self) -> Result<Undone, ClientFileError> {
        let old = self.old()?;
        let standing = self.standing()?;
        if standing == Standing::Changed && self.client.is_none() && self.file.exists() {
            return Ok(Undone::Left);
        }
        match (standing, &old) {
            (Standing::Before, _) => {}
            (Standing::Written, None) => remove(&self.file)?,
            (Standing::Written, Some(old)) => FileSnapshot::read(&self.file)?.replace(old)?,
            (Standing::Changed, old) => self.undo_entries(old.as_deref())?,
        }
        self.backup.as_deref().map_or(Ok(()), remove)?;
        Ok(Undone::Back)
    }

    /// The old text; none if there was none.
    fn old(&self) -> Result<Option<Vec<u8>>, ClientFileError> {
        let Some(backup) = &self.backup else { return Ok(None) };
        let kept = FileSnapshot::read(backup)?;
        let bytes =
            kept.bytes().ok_or_else(|| ClientFileError(format!("its backup `{}` is gone", backup.display())))?;
        if Some(content_hash(bytes)) != self.before {
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

fn remove(path: &Path) -> Result<(), ClientFileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ClientFileError(format!("`{}` cannot be removed: {error}", path.display())))
        }
        _ => Ok(()),
    }
}
