//! Reading what people name: files and standard input, never more than a document may have.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Result, anyhow};
use gatelodge_json::JsonLimits;
use gatelodge_policy::DocumentFormat;

use crate::cli::PolicyFormatArg;
use crate::exit_code::UsageError;

/// A text and where it came from.
#[derive(Debug, Clone)]
pub struct NamedSource {
    /// For messages.
    pub name: String,
    /// At most one byte more than a document may have, so that the reader can say that it is too large.
    pub text: Vec<u8>,
}

/// Why a text could not be read.
#[derive(Debug)]
pub struct ReadSourceError {
    /// What was to be read.
    pub name: String,
    /// What went wrong.
    pub message: String,
    /// What to do about it.
    pub help: &'static str,
}

/// A file that was read, and what it looked like just before: what changed while it was read shows up as a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    /// Where it is.
    pub path: PathBuf,
    /// When it was changed, its length, and which file it is; none if it cannot be looked at.
    stamp: Option<(SystemTime, u64, u64)>,
}

impl FileStamp {
    /// Looks at a file. To be done before it is read.
    pub fn of(path: &Path) -> Self {
        let look = || {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        };
        Self { path: path.to_owned(), stamp: look() }
    }
}

/// Reads a file, or standard input for `-`.
pub fn read_source(path: &Path) -> Result<NamedSource> {
    Ok(try_read_source(path).map_err(|unreadable| UsageError(unreadable.message))?)
}

/// Reads a file, or standard input for `-`, for whoever has something to do without it.
pub fn try_read_source(path: &Path) -> Result<NamedSource, ReadSourceError> {
    read_up_to(path, JsonLimits::DOCUMENT.max_bytes)
}

/// Reads what a server offered, which may be larger than what people write.
pub fn try_read_reply(path: &Path) -> Result<NamedSource, ReadSourceError> {
    read_up_to(path, JsonLimits::REPLY.max_bytes)
}

fn read_up_to(path: &Path, limit: usize) -> Result<NamedSource, ReadSourceError> {
    let limit = limit as u64 + 1;
    let mut text = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut text).map_err(|error| read_source_error(path, &error))?;
        return Ok(NamedSource { name: "<stdin>".into(), text });
    }
    let file = File::open(path).map_err(|error| read_source_error(path, &error))?;
    file.take(limit).read_to_end(&mut text).map_err(|error| read_source_error(path, &error))?;
    Ok(NamedSource { name: path.display().to_string(), text })
}

fn read_source_error(path: &Path, error: &std::io::Error) -> ReadSourceError {
    let name = path.display().to_string();
    let help = match error.kind() {
        ErrorKind::NotFound => "check the name; it is taken from the folder that the command runs in",
        ErrorKind::PermissionDenied => "give yourself leave to read it",
        ErrorKind::IsADirectory => "name a file in it",
        _ => "see whether it can be read at all",
    };
    ReadSourceError { message: format!("cannot read `{name}`: {error}"), name, help }
}

impl NamedSource {
    /// The language: as asked, else by the file's name, else by the first character.
    pub fn policy_format(&self, asked: Option<PolicyFormatArg>) -> DocumentFormat {
        let extension = Path::new(&self.name).extension().and_then(|extension| extension.to_str());
        match (asked, extension) {
            (Some(PolicyFormatArg::Json), _) | (None, Some("json" | "jsonc")) => DocumentFormat::Json,
            (Some(PolicyFormatArg::Yaml), _) | (None, Some("yaml" | "yml")) => DocumentFormat::Yaml,
            (None, _) => {
                let first = self.text.iter().find(|byte| !byte.is_ascii_whitespace());
                if matches!(first, None | Some(b'{' | b'[' | b'/' | b'"')) {
                    DocumentFormat::Json
                } else {
                    DocumentFormat::Yaml
                }
            }
        }
    }
}

/// Puts a file in the place of another, in one step: whoever looks finds the old one or the new one, whole.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let shown = path.display();
    let mut name = path.file_name().ok_or_else(|| UsageError(format!("`{shown}` is no file")))?.to_owned();
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
        anyhow!("cannot write `{shown}`: {error}; what was there stays")
    })
}

/// Writes a new file; one that is there already may be somebody's work.
pub fn write_new_file(path: &Path, text: &str) -> Result<()> {
    let shown = path.display();
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => UsageError(format!("`{shown}` is there already; name another file, or remove it")),
        _ => UsageError(format!("cannot write `{shown}`: {error}")),
    })?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Half a policy is worse than none.
        let _ = std::fs::remove_file(path);
        anyhow!("cannot write `{shown}`: {error}; nothing stays of it")
    })
}
