//! Reads published packages: wheels, source archives, tarballs. Archives are read in memory and never unpacked to disk,
//! so a malicious path cannot overwrite a file. Everything that exceeds a limit is skipped and counted.

mod decompression_stall_guard;
mod source_encoding;
mod tarball;
mod zip;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use decompression_stall_guard::DecompressionStallGuard;

/// Maximum length of a shebang line.
const MAX_SHEBANG_BYTES: u64 = 256;

/// Limits on what is extracted from one archive.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveLimits {
    /// Maximum number of entries of any kind.
    pub max_entries: usize,
    /// Maximum size of one file, in bytes.
    pub max_file_bytes: usize,
    /// Maximum total size of all extracted files, in bytes.
    pub max_total_bytes: usize,
    /// Maximum number of decompressed bytes, including those that are not extracted.
    pub max_stream_bytes: u64,
    /// Maximum nesting depth of folders.
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

/// Why part of an archive was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArchiveSkipReason {
    /// A file is larger than `max_file_bytes`.
    LargeFile,
    /// Together, the files are larger than `max_total_bytes`.
    #[serde(rename = "large-whole")]
    LargeTotal,
    /// The decompressed stream is larger than `max_stream_bytes`.
    LargeStream,
    /// There are more than `max_entries` entries.
    ManyEntries,
    /// A path is malformed or points outside the archive.
    BadPath,
    /// Folders are nested deeper than `max_path_depth`.
    DeepPath,
    /// There is a link where a source file is expected. Links are not followed.
    Link,
    /// A source file is binary or has an unsupported encoding.
    NotText,
    /// The archive is corrupt, or uses an unsupported compression method.
    Broken,
}

impl ArchiveSkipReason {
    /// Returns whether this reason occurs only in malicious or malformed packages.
    pub fn is_hostile(self) -> bool {
        !matches!(self, Self::Link | Self::NotText | Self::LargeFile | Self::LargeTotal)
    }
}

/// An archive format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// A wheel, or a zip archive of sources.
    Zip,
    /// A gzip-compressed tar archive.
    TarGz,
}

impl ArchiveFormat {
    /// Determines the format from the file name.
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

/// A source file in a package.
#[derive(Debug, Clone, Copy)]
pub struct SourceFile<'a> {
    /// Path within the package.
    pub path: &'a str,
    /// Content of the file.
    pub text: &'a str,
}

/// Whether to extract a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtractDecision {
    /// Skip the file.
    Skip,
    /// Extract the file.
    Extract,
    /// Extract the file if its shebang names a JavaScript runtime. Otherwise it is not a source file and is not counted
    /// as skipped.
    ExtractIfScript,
}

/// Files extracted from an archive.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpackedArchive {
    /// Content of each file, by path.
    pub files: BTreeMap<String, String>,
    /// Number of skipped parts of the archive, by reason.
    pub skipped: BTreeMap<ArchiveSkipReason, usize>,
    /// Paths that occur more than once. The last entry wins, as it does when unpacking to disk.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[serde(rename = "repeated")]
    pub duplicate_paths: BTreeSet<String>,
}

impl UnpackedArchive {
    /// Returns the files as a list.
    pub fn source_files(&self) -> Vec<SourceFile<'_>> {
        self.files.iter().map(|(path, text)| SourceFile { path, text }).collect()
    }

    fn record_skip(&mut self, why: ArchiveSkipReason) {
        *self.skipped.entry(why).or_default() += 1;
    }
}

/// Extracts the requested files from an archive. Always terminates, and counts everything it skips. If it skips anything,
/// the result covers only part of the package.
///
/// # Examples
/// ```
/// use std::io::Cursor;
/// use gatelodge_catalogue::{ArchiveFormat, ArchiveLimits, ExtractDecision, ArchiveSkipReason, unpack};
///
/// let limits = ArchiveLimits::default();
/// let broken = unpack(Cursor::new(b"not an archive"), ArchiveFormat::Zip, &limits, |_| ExtractDecision::Extract);
/// assert!(broken.files.is_empty());
/// assert_eq!(broken.skipped.get(&ArchiveSkipReason::Broken), Some(&1));
/// ```
pub fn unpack(
    archive: impl Read + Seek,
    form: ArchiveFormat,
    bounds: &ArchiveLimits,
    wanted: fn(&str) -> ExtractDecision,
) -> UnpackedArchive {
    let guard = DecompressionStallGuard::default();
    let mut extractor = ArchiveExtractor {
        out: UnpackedArchive::default(),
        total_bytes: 0,
        unpacked_bytes: 0,
        guard: guard.clone(),
        limits: bounds,
        select_file: wanted,
    };
    let end = match form {
        ArchiveFormat::Zip => zip::extract_zip(archive, &mut extractor),
        ArchiveFormat::TarGz => {
            let stream = guard.guard_output(MultiGzDecoder::new(guard.guard_input(archive)));
            tarball::extract_tar(&mut stream.take(bounds.max_stream_bytes), &mut extractor)
        }
    };
    if let Err(why) = end {
        extractor.out.record_skip(why);
    }
    extractor.out
}

/// State kept while one archive is read.
struct ArchiveExtractor<'b> {
    out: UnpackedArchive,
    total_bytes: usize,
    /// Bytes decompressed so far. Zip entries can overlap, so the size of the archive does not bound this.
    unpacked_bytes: u64,
    guard: DecompressionStallGuard,
    limits: &'b ArchiveLimits,
    select_file: fn(&str) -> ExtractDecision,
}

impl ArchiveExtractor<'_> {
    /// Returns the path of an entry and whether to extract it. If the path is malformed, counts the entry as skipped
    /// and returns `None`.
    fn select_entry(&mut self, path: &[u8]) -> Option<(String, ExtractDecision)> {
        let Ok(path) = std::str::from_utf8(path) else {
            self.out.record_skip(ArchiveSkipReason::BadPath);
            return None;
        };
        let path = path.strip_prefix("./").unwrap_or(path);
        let is_bad = path.starts_with('/')
            || path.contains(['\\', '\0'])
            || path.as_bytes().get(1) == Some(&b':')
            || path.split('/').any(|part| part == ".." || part == ".");
        if is_bad {
            self.out.record_skip(ArchiveSkipReason::BadPath);
            return None;
        }
        if path.split('/').count() > self.limits.max_path_depth {
            self.out.record_skip(ArchiveSkipReason::DeepPath);
            return None;
        }
        let want = (self.select_file)(path);
        (want != ExtractDecision::Skip).then(|| (path.to_owned(), want))
    }

    /// Extracts a file without reading more than the limits allow.
    fn extract_file(
        &mut self,
        (path, want): (String, ExtractDecision),
        mut content: impl Read,
    ) -> Result<(), ArchiveSkipReason> {
        let mut first = Vec::new();
        if want == ExtractDecision::ExtractIfScript {
            // If reading fails here and the file is a script, it fails again below.
            let _ = content.by_ref().take(MAX_SHEBANG_BYTES).read_to_end(&mut first);
            if !has_javascript_shebang(&first) {
                self.unpacked_bytes += first.len() as u64;
                return Ok(());
            }
        }
        self.extract_content(path, first.as_slice().chain(content))
    }

    fn extract_content(&mut self, path: String, content: impl Read) -> Result<(), ArchiveSkipReason> {
        let most = self.limits.max_file_bytes.min(self.limits.max_total_bytes.saturating_sub(self.total_bytes));
        let mut bytes = Vec::new();
        let end = content.take(most as u64 + 1).read_to_end(&mut bytes);
        // A file that ends in an error was decompressed up to there.
        self.unpacked_bytes += bytes.len() as u64;
        if self.unpacked_bytes > self.limits.max_stream_bytes {
            return Err(ArchiveSkipReason::LargeStream);
        }
        if end.is_err() {
            self.out.record_skip(ArchiveSkipReason::Broken);
            return Ok(());
        }
        if bytes.len() > most {
            if most < self.limits.max_file_bytes {
                return Err(ArchiveSkipReason::LargeTotal);
            }
            self.out.record_skip(ArchiveSkipReason::LargeFile);
            return Ok(());
        }
        match source_encoding::decode_source(&path, &bytes) {
            Some(text) => {
                self.total_bytes += text.len();
                if self.out.files.insert(path.clone(), text).is_some() {
                    self.out.duplicate_paths.insert(path);
                }
            }
            None => self.out.record_skip(ArchiveSkipReason::NotText),
        }
        Ok(())
    }

    /// Counts a link as skipped if a regular file at its path would have been extracted. If that would have depended on
    /// the file's shebang line, the link is not counted.
    fn record_link(&mut self, path: &[u8]) {
        if self.select_entry(path).is_some_and(|(_, want)| want == ExtractDecision::Extract) {
            self.out.record_skip(ArchiveSkipReason::Link);
        }
    }
}

/// Returns whether a shebang line names a JavaScript runtime.
fn has_javascript_shebang(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words = line.strip_prefix(b"#!").and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    let mut programs = words.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    programs.any(|program| ["node", "nodejs", "bun", "deno", "tsx", "ts-node"].contains(&program))
}
