//! Cache of source files from archives, so that packages can be read again without the network.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use gatelodge_catalogue::UnpackedArchive;

/// Maximum size of an entry after decompression. It is far above what the extraction limits allow.
const MAX_ENTRY_BYTES: u64 = 256 << 20;

/// Version of the cache entries. It is increased whenever a different set of files is extracted from archives, so that
/// older entries are not used.
const CACHE_FORMAT_VERSION: u32 = 2;

/// A folder with one file per archive, named after the archive's hash.
pub struct SourceCache {
    folder: PathBuf,
    /// Number of bytes that can still be added.
    free_bytes: AtomicU64,
}

impl SourceCache {
    pub fn open(folder: &Path, most: u64) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        let mut size = 0;
        for inner in fs::read_dir(folder)?.flatten() {
            for file in fs::read_dir(inner.path()).into_iter().flatten().flatten() {
                size += file.metadata().map_or(0, |found| found.len());
            }
        }
        Ok(Self { folder: folder.to_owned(), free_bytes: AtomicU64::new(most.saturating_sub(size)) })
    }

    /// Returns whether the cache has an entry for an archive.
    pub fn contains(&self, hash: &str) -> bool {
        self.entry_path(hash).is_some_and(|path| path.exists())
    }

    /// Returns the entry for an archive. An entry that cannot be read is removed.
    pub fn get(&self, hash: &str) -> Option<UnpackedArchive> {
        let path = self.entry_path(hash)?;
        let file = fs::File::open(&path).ok()?;
        let kept = serde_json::from_reader(BufReader::new(GzDecoder::new(file).take(MAX_ENTRY_BYTES))).ok();
        if kept.is_none() {
            let _ = fs::remove_file(&path);
        }
        kept
    }

    /// Adds an entry if there is room. Errors are ignored: without an entry, the package is fetched again.
    pub fn put(&self, hash: &str, unpacked: &UnpackedArchive) {
        let Some(packed) = compress(unpacked) else { return };
        let size = packed.len() as u64;
        let fits = |left: u64| left.checked_sub(size);
        if self.free_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return;
        }
        let Some(path) = self.entry_path(hash) else { return };
        let part = path.with_extension("part");
        let folder = path.parent().unwrap_or(&self.folder);
        let _ =
            fs::create_dir_all(folder).and_then(|()| fs::write(&part, packed)).and_then(|()| fs::rename(&part, &path));
    }

    fn entry_path(&self, hash: &str) -> Option<PathBuf> {
        Some(self.folder.join(hash.get(..2)?).join(format!("{hash}-{CACHE_FORMAT_VERSION}.gz")))
    }
}

fn compress(unpacked: &UnpackedArchive) -> Option<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::new(4));
    serde_json::to_writer(&mut out, unpacked).ok()?;
    out.flush().ok()?;
    out.finish().ok()
}
