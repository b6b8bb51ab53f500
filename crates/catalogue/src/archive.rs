//! Packages as they are published: wheels, source archives, tarballs. They are read in memory and never unpacked to
//! disk, so a path can lead nowhere; whatever is out of bounds is skipped and counted.

mod idle;
mod tarball;
mod text;
mod zip;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use idle::Idle;

/// The longest first line that is looked at.
const FIRST_LINE: u64 = 256;

/// What may be taken from one archive.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Entries, of any kind.
    pub entries: usize,
    /// Bytes of one file.
    pub file: usize,
    /// Bytes of all files that are kept.
    pub kept: usize,
    /// Bytes that are unpacked in all, kept or not.
    pub stream: u64,
    /// Folders within folders.
    pub depth: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { entries: 60_000, file: 4 << 20, kept: 24 << 20, stream: 512 << 20, depth: 32 }
    }
}

/// Why a part of an archive was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skip {
    /// A file is larger than a source file is.
    LargeFile,
    /// All files together are more than is kept.
    LargeWhole,
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

impl Skip {
    /// Whether an honest package has no such thing.
    pub fn is_hostile(self) -> bool {
        !matches!(self, Self::Link | Self::NotText | Self::LargeFile | Self::LargeWhole)
    }
}

/// The form of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A wheel, or a zip of sources.
    Zip,
    /// A tar within gzip.
    TarGz,
}

impl Form {
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
pub enum Want {
    /// It is not looked at.
    No,
    /// It is.
    Yes,
    /// It is, if its first line names a program that runs JavaScript. Else nothing is said of it: it is no source.
    IfScript,
}

/// What was taken from an archive.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacked {
    /// Path and text of each file, by path.
    pub files: BTreeMap<String, String>,
    /// What was left out, and how often.
    pub skipped: BTreeMap<Skip, usize>,
    /// Paths that came more than once. The last counts, as for programs that unpack to disk.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub repeated: BTreeSet<String>,
}

impl Unpacked {
    /// The files, as readers take them.
    pub fn sources(&self) -> Vec<SourceFile<'_>> {
        self.files.iter().map(|(path, text)| SourceFile { path, text }).collect()
    }

    fn skip(&mut self, why: Skip) {
        *self.skipped.entry(why).or_default() += 1;
    }
}

/// Takes the wanted files from an archive. It always ends, and what it cannot take it counts: an archive of which
/// anything was skipped is known in part.
pub fn unpack(archive: impl Read + Seek, form: Form, bounds: &Bounds, wanted: fn(&str) -> Want) -> Unpacked {
    let idle = Idle::default();
    let mut taking = Taking { out: Unpacked::default(), kept: 0, unpacked: 0, idle: idle.clone(), bounds, wanted };
    let end = match form {
        Form::Zip => zip::take(archive, &mut taking),
        Form::TarGz => {
            let stream = idle.plain(MultiGzDecoder::new(idle.packed(archive)));
            tarball::take(&mut stream.take(bounds.stream), &mut taking)
        }
    };
    if let Err(why) = end {
        taking.out.skip(why);
    }
    taking.out
}

/// An archive while it is gone through.
struct Taking<'b> {
    out: Unpacked,
    kept: usize,
    /// Bytes that were unpacked to look at them. Parts of a zip may lie upon each other.
    unpacked: u64,
    idle: Idle,
    bounds: &'b Bounds,
    wanted: fn(&str) -> Want,
}

impl Taking<'_> {
    /// The path of an entry, if it is wanted, and how; what is no path is counted.
    fn wants(&mut self, path: &[u8]) -> Option<(String, Want)> {
        let Ok(path) = std::str::from_utf8(path) else {
            self.out.skip(Skip::BadPath);
            return None;
        };
        let path = path.strip_prefix("./").unwrap_or(path);
        let is_bad = path.starts_with('/')
            || path.contains(['\\', '\0'])
            || path.as_bytes().get(1) == Some(&b':')
            || path.split('/').any(|part| part == ".." || part == ".");
        if is_bad {
            self.out.skip(Skip::BadPath);
            return None;
        }
        if path.split('/').count() > self.bounds.depth {
            self.out.skip(Skip::DeepPath);
            return None;
        }
        let want = (self.wanted)(path);
        (want != Want::No).then(|| (path.to_owned(), want))
    }

    /// Keeps a file. Reads no more of it than may be kept.
    fn keep(&mut self, (path, want): (String, Want), mut content: impl Read) -> Result<(), Skip> {
        let mut first = Vec::new();
        if want == Want::IfScript {
            // What breaks off here does so below as well, if it is a script.
            let _ = content.by_ref().take(FIRST_LINE).read_to_end(&mut first);
            if !is_script(&first) {
                self.unpacked += first.len() as u64;
                return Ok(());
            }
        }
        self.keep_whole(path, first.as_slice().chain(content))
    }

    fn keep_whole(&mut self, path: String, content: impl Read) -> Result<(), Skip> {
        let most = self.bounds.file.min(self.bounds.kept.saturating_sub(self.kept));
        let mut bytes = Vec::new();
        let end = content.take(most as u64 + 1).read_to_end(&mut bytes);
        // What ends broken was unpacked until there.
        self.unpacked += bytes.len() as u64;
        if self.unpacked > self.bounds.stream {
            return Err(Skip::LargeStream);
        }
        if end.is_err() {
            self.out.skip(Skip::Broken);
            return Ok(());
        }
        if bytes.len() > most {
            if most < self.bounds.file {
                return Err(Skip::LargeWhole);
            }
            self.out.skip(Skip::LargeFile);
            return Ok(());
        }
        match text::of(&path, &bytes) {
            Some(text) => {
                self.kept += text.len();
                if self.out.files.insert(path.clone(), text).is_some() {
                    self.out.repeated.insert(path);
                }
            }
            None => self.out.skip(Skip::NotText),
        }
        Ok(())
    }

    /// Counts a link in the place of a file that is wanted. Where that depends on what is in it, it is no source.
    fn pass_link(&mut self, path: &[u8]) {
        if self.wants(path).is_some_and(|(_, want)| want == Want::Yes) {
            self.out.skip(Skip::Link);
        }
    }
}

/// Whether a text begins with the name of a program that runs JavaScript, as a shell reads it.
fn is_script(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words = line.strip_prefix(b"#!").and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default();
    let mut programs = words.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    programs.any(|program| ["node", "nodejs", "bun", "deno", "tsx", "ts-node"].contains(&program))
}
