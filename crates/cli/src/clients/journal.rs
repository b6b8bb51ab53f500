//! What was written where, so that it can be taken back. The journal is written before the files are: whatever happens
//! in between, it knows all of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::{Held, Trouble, hash};

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

impl Journal {
    /// Finds the journal in a file.
    pub fn find(path: &Path) -> Result<Option<Self>, Trouble> {
        let told = |what: String| Trouble(format!("the journal `{}` cannot be read: {what}", path.display()));
        let held = Held::read(path).map_err(|trouble| told(trouble.0))?;
        let Some(bytes) = held.bytes() else { return Ok(None) };
        serde_json::from_slice(bytes).map(Some).map_err(|error| told(error.to_string()))
    }

    /// Keeps the journal; one without steps is taken away.
    pub fn keep(&self, path: &Path) -> Result<(), Trouble> {
        if self.steps.is_empty() {
            return remove(path);
        }
        let text = serde_json::to_vec_pretty(self).map_err(|error| Trouble(error.to_string()))?;
        let told = |trouble: Trouble| Trouble(format!("the journal `{}`: {trouble}", path.display()));
        Held::read(path).and_then(|held| held.replace(&text)).map_err(told)
    }
}

impl Step {
    /// How the file stands.
    pub fn standing(&self) -> Result<Standing, Trouble> {
        let now = Held::read(&self.file)?.bytes().map(hash);
        Ok(if now.as_ref() == Some(&self.after) {
            Standing::Written
        } else if now == self.before {
            Standing::Before
        } else {
            Standing::Changed
        })
    }

    /// Takes the file back to what it was, byte for byte, and its backup away.
    pub fn undo(&self) -> Result<(), Trouble> {
        let Some(backup) = &self.backup else { return remove(&self.file) };
        if self.standing()? != Standing::Before {
            let kept = Held::read(backup)?;
            let bytes = kept.bytes().ok_or_else(|| Trouble(format!("its backup `{}` is gone", backup.display())))?;
            if Some(hash(bytes)) != self.before {
                return Err(Trouble(format!("its backup `{}` was changed", backup.display())));
            }
            Held::read(&self.file)?.replace(bytes)?;
        }
        remove(backup)
    }
}

fn remove(path: &Path) -> Result<(), Trouble> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Trouble(format!("`{}` cannot be removed: {error}", path.display())))
        }
        _ => Ok(()),
    }
}
