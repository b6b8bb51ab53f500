//! Reads input files within a size limit, and replaces output files atomically.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Result, anyhow};
use gatelodge_json::JsonLimits;

use crate::exit::IndexerUsageError;

/// Reads a file, or standard input for `-`. A file that is larger than the maximum size of a server's reply is refused.
pub fn read(path: &Path) -> Result<Vec<u8>, IndexerUsageError> {
    let max_bytes = JsonLimits::REPLY.max_bytes;
    let shown = if path == Path::new("-") { "<stdin>".to_owned() } else { path.display().to_string() };
    let bytes = read_up_to(path, max_bytes + 1)
        .map_err(|error| IndexerUsageError(format!("cannot read `{shown}`: {error}")))?;
    match bytes.len() > max_bytes {
        true => Err(IndexerUsageError(format!("`{shown}` is larger than 64 MiB; split it into parts"))),
        false => Ok(bytes),
    }
}

/// Reads at most `max_bytes` of a file, or of standard input for `-`.
pub fn read_up_to(path: &Path, max_bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = max_bytes as u64;
    if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Replaces a file atomically: readers see either all of the old content or all of the new content.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let shown = path.display();
    let mut name = path.file_name().ok_or_else(|| IndexerUsageError(format!("`{shown}` is not a file")))?.to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let draft = path.with_file_name(name);
    let put = || {
        let mut file = File::create(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    };
    put().map_err(|error| {
        let _ = std::fs::remove_file(&draft);
        anyhow!("cannot write `{shown}`: {error}; the old file is unchanged")
    })
}
