//! Packages as they are published: wheels, source archives, tarballs. They are read in memory and never unpacked to
//! disk, so a path can lead nowhere; whatever is out of bounds is skipped and counted.

mod decompression_guard;
mod source_encoding;
mod tarball;
mod zip;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use decompression_guard::DecompressionGuard;

/// The longest first line that is looked at.
const MAX_SHEBANG_BYTES: u64 = 256;

/// What may be taken from one archive.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveLimits {
    /// Entries, of any kind.
    pub max_entries: usize,
    /// Bytes of one file.
    pub max_file_bytes: usize,
    /// Bytes of all files that are kept.
    pub max_total_bytes: usize,
    /// Bytes that are unpacked in all, kept or not.
    pub max_stream_bytes: u64,
    /// Folders within folders.
    pub max_path_depth: usize,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self {
            max_entries: 60_000,
            max_file_bytes: 4 << 20,
            max_total_bytes: 24 << 20,
            max_stream_bytes: 512 << 20,
            max_path_depth: 32,
        }
    }
}

/// Why a part of an archive was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// A file is larger than a source file is.
    LargeFile,
    /// All files together are more than is kept.
    #[serde(rename = "large-whole")]
    LargeTotal,
    /// The stream comes to more than it may.
    LargeStream,
    /// There are more entries than may be.
    ManyEntries,
    /// A path that leads out of the archive, or is no path.
    BadPath,
    /// Folders within folders without end.
    DeepPath,
    /// A link in the place of a source file. It is not followed.
    Link,
    /// A source file is not text, or text in letters that are not known.
    NotText,
    /// It cannot be read: broken, or packed in a way that is not known.
    Broken,
}

impl SkipReason {
    /// Whether an honest package has no such thing.
    pub fn is_hostile(self) -> bool {
        !matches!(self, Self::Link | Self::NotText | Self::LargeFile | Self::LargeTotal)
    }
}

/// The form of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// A wheel, or a zip of sources.
    Zip,
    /// A tar within gzip.
    TarGz,
}

impl ArchiveFormat {
    /// The form that a file's name tells.
    pub fn of(name: &str) -> Option<Self> {
        let ends = |end: &str| name.len() > end.len() && name.to_ascii_lowercase().ends_with(end);
        if ends(".whl") || ends(".zip") {
            Some(Self::Zip)
        } else if ends(".tar.gz") || ends(".tgz") {
            Some(Self::TarGz)
        } else {
            None
        }
    }
}

/// A file of a package.
#[derive(Debug, Clone, Copy)]
pub struct SourceFile<'a> {
    /// Its path within the package.
    pub path: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// Whether a file is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtractDecision {
    /// It is not looked at.
    Skip,
    /// It is.
    Extract,
    /// It is, if its first line names a program that runs JavaScript. Else nothing is said of it: it is no source.
    ExtractIfScript,
}

/// What was taken from an archive.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpackedArchive {
    /// Path and text of each file, by path.
    pub files: BTreeMap<String, String>,
    /// What was left out, and how often.
    pub skipped: BTreeMap<SkipReason, usize>,
    /// Paths that came more than once. The last counts, as for programs that unpack to disk.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[serde(rename = "repeated")]
    pub duplicate_paths: BTreeSet<String>,
}

impl UnpackedArchive {
    /// The files, as readers take them.
    pub fn source_files(&self) -> Vec<SourceFile<'_>> {
        self.files.iter().map(|(path, text)| SourceFile { path, text }).collect()
    }

    fn record_skip(&mut self, why: SkipReason) {
        *self.skipped.entry(why).or_default() += 1;
    }
}

/// Takes the wanted files from an archive. It always ends, and what it cannot take it counts: an archive of which
/// anything was skipped is known in part.
pub fn unpack(
    archive: impl Read + Seek,
    form: ArchiveFormat,
    bounds: &ArchiveLimits,
    wanted: fn(&str) -> ExtractDecision,
) -> UnpackedArchive {
    let idle = DecompressionGuard::default();
    let mut taking = ArchiveExtractor {
        out: UnpackedArchive::default(),
        total_bytes: 0,
        unpacked_bytes: 0,
        guard: idle.clone(),
        limits: bounds,
        select_file: wanted,
    };
    let end = match form {
        ArchiveFormat::Zip => zip::extract_zip(archive, &mut taking),
        ArchiveFormat::TarGz => {
            let stream = idle.guard_output(MultiGzDecoder::new(idle.guard_input(archive)));
            tarball::extract_tar(&mut stream.take(bounds.max_stream_bytes), &mut taking)
        }
    };
    if let Err(why) = end {
        taking.out.record_skip(why);
    }
    taking.out
}

/// An archive while it is gone through.
struct ArchiveExtractor<'b> {
    out: UnpackedArchive,
    total_bytes: usize,
    /// Bytes that were unpacked to look at them. Parts of a zip may lie upon each other.
    unpacked_bytes: u64,
    guard: DecompressionGuard,
    limits: &'b ArchiveLimits,
    select_file: fn(&str) -> ExtractDecision,
}

impl ArchiveExtractor<'_> {
    /// The path of an entry, if it is wanted, and how; what is no path is counted.
    fn select_entry(&mut self, path: &[u8]) -> Option<(String, ExtractDecision)> {
        let Ok(path) = std::str::from_utf8(path) else {
            self.out.record_skip(SkipReason::BadPath);
            return None;
        };
        let path = path.strip_prefix("./").unwrap_or(path);
        let is_bad = path.starts_with('/')
            || path.contains(['\\', '\0'])
            || path.as_bytes().get(1) == Some(&b':')
            || path.split('/').any(|part| part == ".." || part == ".");
        if is_bad {
            self.out.record_skip(SkipReason::BadPath);
            return None;
        }
        if path.split('/').count() > self.limits.max_path_depth {
            self.out.record_skip(SkipReason::DeepPath);
            return None;
        }
        let want = (self.select_file)(path);
        (want != ExtractDecision::Skip).then(|| (path.to_owned(), want))
    }

    /// Keeps a file. Reads no more of it than may be kept.
    fn extract_file(
        &mut self,
        (path, want): (String, ExtractDecision),
        mut content: impl Read,
    ) -> Result<(), SkipReason> {
        let mut first = Vec::new();
        if want == ExtractDecision::ExtractIfScript {
            // What breaks off here does so below as well, if it is a script.
            let _ = content.by_ref().take(MAX_SHEBANG_BYTES).read_to_end(&mut first);
            if !has_javascript_shebang(&first) {
                self.unpacked_bytes += first.len() as u64;
                return Ok(());
            }
        }
        self.extract_content(path, first.as_slice().chain(content))
    }

    fn extract_content(&mut self, path: String, content: impl Read) -> Result<(), SkipReason> {
        let most = self.limits.max_file_bytes.min(self.limits.max_total_bytes.saturating_sub(self.total_bytes));
        let mut bytes = Vec::new();
        let end = content.take(most as u64 + 1).read_to_end(&mut bytes);
        // What ends broken was unpacked until there.
        self.unpacked_bytes += bytes.len() as u64;
        if self.unpacked_bytes > self.limits.max_stream_bytes {
            return Err(SkipReason::LargeStream);
        }
        if end.is_err() {
            self.out.record_skip(SkipReason::Broken);
            return Ok(());
        }
        if bytes.len() > most {
            if most < self.limits.max_file_bytes {
                return Err(SkipReason::LargeTotal);
            }
            self.out.record_skip(SkipReason::LargeFile);
            return Ok(());
        }
        match source_encoding::decode_source(&path, &bytes) {
            Some(text) => {
                self.total_bytes += text.len();
                if self.out.files.insert(path.clone(), text).is_some() {
                    self.out.duplicate_paths.insert(path);
                }
            }
            None => self.out.record_skip(SkipReason::NotText),
        }
        Ok(())
    }

    /// Counts a link in the place of a file that is wanted. Where that depends on what is in it, it is no source.
    fn record_link(&mut self, path: &[u8]) {
        if self.select_entry(path).is_some_and(|(_, want)| want == ExtractDecision::Extract) {
            self.out.record_skip(SkipReason::Link);
        }
    }
}

/// Whether a text begins with the name of a program that runs JavaScript, as a shell reads it.
fn has_javascript_shebang(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words = line.strip_prefix(b"#!").and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    let mut programs = words.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    programs.any(|program| ["node", "nodejs", "bun", "deno", "tsx", "ts-node"].contains(&program))
}
