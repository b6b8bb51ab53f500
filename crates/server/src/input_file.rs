//! Reads files and standard input up to a size limit.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gatelodge_json::JsonLimits;
use gatelodge_policy::DocumentFormat;

/// Content of a file or of standard input, with its name.
#[derive(Debug, Clone)]
pub struct InputFileText {
    /// Name of the file or of standard input, for messages.
    pub name: String,
    /// The content. If it exceeds the size limit, it is cut off one byte after the limit, so that the parser still
    /// reports it as too large.
    pub text: Vec<u8>,
}

/// Error for a file or standard input that could not be read.
#[derive(Debug)]
pub struct InputFileError {
    /// Name of the file or of standard input.
    pub name: String,
    /// The error message.
    pub message: String,
    /// How to fix the problem.
    pub help: &'static str,
}

impl fmt::Display for InputFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InputFileError {}

/// A file's path and its metadata from just before it was read, so that a change during reading is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStamp {
    /// Path of the file.
    pub path: PathBuf,
    /// Modification time, length and inode, or `None` if the file is not accessible.
    stamp: Option<(SystemTime, u64, u64)>,
}

impl FileStamp {
    /// Reads the metadata of a file. Call it before reading the file.
    pub fn of(path: &Path) -> Self {
        let read_metadata = || {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        };
        Self { path: path.to_owned(), stamp: read_metadata() }
    }
}

/// Reads a file, or standard input for `-`.
pub fn read_source(path: &Path) -> Result<InputFileText, InputFileError> {
    read_up_to(path, JsonLimits::DOCUMENT.max_bytes)
}

/// Reads a file with a server's response, which may be larger than a document written by hand.
pub fn read_reply(path: &Path) -> Result<InputFileText, InputFileError> {
    read_up_to(path, JsonLimits::REPLY.max_bytes)
}

fn read_up_to(path: &Path, limit: usize) -> Result<InputFileText, InputFileError> {
    let limit = limit as u64 + 1;
    let mut text = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut text).map_err(|error| read_source_error(path, &error))?;
        return Ok(InputFileText { name: "<stdin>".into(), text });
    }
    let file = File::open(path).map_err(|error| read_source_error(path, &error))?;
    file.take(limit).read_to_end(&mut text).map_err(|error| read_source_error(path, &error))?;
    Ok(InputFileText { name: path.display().to_string(), text })
}

fn read_source_error(path: &Path, error: &std::io::Error) -> InputFileError {
    let name = path.display().to_string();
    let help = match error.kind() {
        ErrorKind::NotFound => "check the name; a relative path is resolved against the current directory",
        ErrorKind::PermissionDenied => "change its permissions so that you can read it",
        ErrorKind::IsADirectory => "name a file in it",
        _ => "check whether other programs can read it",
    };
    InputFileError { message: format!("cannot read `{name}`: {error}"), name, help }
}

impl InputFileText {
    /// Returns the requested policy format. If none was requested, the file extension determines the format, or else
    /// the first character of the text.
    pub fn policy_format(&self, requested: Option<DocumentFormat>) -> DocumentFormat {
        let extension = Path::new(&self.name).extension().and_then(|extension| extension.to_str());
        match (requested, extension) {
            (Some(format), _) => format,
            (None, Some("json" | "jsonc")) => DocumentFormat::Json,
            (None, Some("yaml" | "yml")) => DocumentFormat::Yaml,
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
