//! Writes files: replaces them atomically, or creates new ones.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Result, anyhow};

use crate::exit_code::UsageError;

/// Replaces a file atomically: other programs see either the old or the new content.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let shown = path.display();
    let mut name = path.file_name().ok_or_else(|| UsageError(format!("`{shown}` is not a file")))?.to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        anyhow!("cannot write `{shown}`: {error}; the file is unchanged")
    })
}

/// Writes a new file. Refuses to overwrite an existing file.
pub fn write_new_file(path: &Path, text: &str) -> Result<()> {
    let shown = path.display();
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => UsageError(format!("`{shown}` exists already; name another file, or remove it")),
        _ => UsageError(format!("cannot write `{shown}`: {error}")),
    })?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // An incomplete policy is worse than none.
        let _ = std::fs::remove_file(path);
        anyhow!("cannot write `{shown}`: {error}; the incomplete file was removed")
    })
}
