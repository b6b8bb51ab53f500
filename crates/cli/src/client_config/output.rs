//! A file and what shall stand in it.

use super::client_table::ClientProfile;
use super::file_snapshot::{ClientFileError, FileSnapshot, content_hash};
use super::journal::Step;

/// A file and what shall stand in it.
#[derive(Debug)]
pub struct Output {
    /// The file as it is.
    pub held: FileSnapshot,
    /// Its new text.
    pub bytes: Vec<u8>,
    /// The client whose file it is; none for one of ours.
    pub client: Option<&'static ClientProfile>,
    /// The entries in it that change.
    pub entries: Vec<Vec<String>>,
}

impl Output {
    /// A file of ours.
    pub fn ours(held: FileSnapshot, text: String) -> Self {
        Self { held, bytes: text.into_bytes(), client: None, entries: Vec::new() }
    }

    /// Keeps the old text, if there is one, and says what the journal has to know.
    pub fn step(&self) -> Result<Step, ClientFileError> {
        let backup = match self.held.bytes() {
            Some(_) => Some(self.held.back_up()?),
            None => None,
        };
        Ok(Step {
            file: self.held.path().to_owned(),
            backup,
            before: self.held.bytes().map(content_hash),
            after: content_hash(&self.bytes),
            client: self.client.map(|client| client.id.to_owned()),
            entries: self.entries.clone(),
        })
    }
}
