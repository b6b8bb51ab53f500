//! Reading what people name: files and standard input, never more than a document may have.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Result;
use gatelodge_json::Limits;
use gatelodge_policy::Format;

use crate::cli::FormatName;
use crate::exit::Usage;

/// A text and where it came from.
#[derive(Debug)]
pub struct Source {
    /// For messages.
    pub name: String,
    /// At most one byte more than a document may have, so that the reader can say that it is too large.
    pub text: Vec<u8>,
}

/// Reads a file, or standard input for `-`.
pub fn read(path: &Path) -> Result<Source> {
    read_up_to(path, Limits::DOCUMENT.bytes)
}

/// Reads what a server offered, which may be larger than what people write.
pub fn read_reply(path: &Path) -> Result<Source> {
    read_up_to(path, Limits::REPLY.bytes)
}

fn read_up_to(path: &Path, limit: usize) -> Result<Source> {
    let limit = limit as u64 + 1;
    let mut text = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut text).map_err(|error| unreadable(path, &error))?;
        return Ok(Source { name: "<stdin>".into(), text });
    }
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    file.take(limit).read_to_end(&mut text).map_err(|error| unreadable(path, &error))?;
    Ok(Source { name: path.display().to_string(), text })
}

fn unreadable(path: &Path, error: &std::io::Error) -> Usage {
    Usage(format!("cannot read `{}`: {error}", path.display()))
}

impl Source {
    /// The language: as asked, else by the file's name, else by the first character.
    pub fn format(&self, asked: Option<FormatName>) -> Format {
        let extension = Path::new(&self.name).extension().and_then(|extension| extension.to_str());
        match (asked, extension) {
            (Some(FormatName::Json), _) | (None, Some("json" | "jsonc")) => Format::Json,
            (Some(FormatName::Yaml), _) | (None, Some("yaml" | "yml")) => Format::Yaml,
            (None, _) => {
                let first = self.text.iter().find(|byte| !byte.is_ascii_whitespace());
                if matches!(first, None | Some(b'{' | b'[' | b'/' | b'"')) { Format::Json } else { Format::Yaml }
            }
        }
    }
}
