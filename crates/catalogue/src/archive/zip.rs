//! Reads zip archives: the central directory, then only the requested entries.

use std::io::{Read, Seek, SeekFrom};

use flate2::read::DeflateDecoder;

use super::{ArchiveExtractor, ArchiveSkipReason, ExtractDecision};

/// Size of the end-of-central-directory record without its comment.
const END_RECORD_BYTES: usize = 22;
/// Maximum size of the archive comment.
const MAX_COMMENT_BYTES: usize = 0xffff;
/// Maximum size of the central directory.
const MAX_DIRECTORY_BYTES: u64 = 16 << 20;

/// Reads the entries of a zip archive.
pub fn extract_zip(
    mut archive: impl Read + Seek,
    extractor: &mut ArchiveExtractor<'_>,
) -> Result<(), ArchiveSkipReason> {
    let directory = read_directory(&mut archive)?;
    let (mut at, mut count) = (0, 0);
    while let Some(entry) = ZipEntry::read(&directory, at) {
        at = entry.next_offset;
        count += 1;
        if count > extractor.limits.max_entries {
            return Err(ArchiveSkipReason::ManyEntries);
        }
        if entry.is_link() {
            extractor.record_link(entry.name);
            continue;
        }
        let Some(wanted) = extractor.select_entry(entry.name) else { continue };
        if extract_entry(&mut archive, &entry, wanted, extractor)?.is_none() {
            extractor.out.record_skip(ArchiveSkipReason::Broken);
        }
    }
    // Other tools may find further entries after one that cannot be parsed.
    if at == directory.len() { Ok(()) } else { Err(ArchiveSkipReason::Broken) }
}

fn extract_entry(
    archive: &mut (impl Read + Seek),
    entry: &ZipEntry<'_>,
    wanted: (String, ExtractDecision),
    extractor: &mut ArchiveExtractor<'_>,
) -> Result<Option<()>, ArchiveSkipReason> {
    let mut head = [0; 30];
    if archive.seek(SeekFrom::Start(entry.header_offset)).is_err() || archive.read_exact(&mut head).is_err() {
        return Ok(None);
    }
    let lengths = [26, 28].map(|at| u16_at(&head, at).unwrap_or_default());
    if !head.starts_with(b"PK\x03\x04") {
        return Ok(None);
    }
    let skip = i64::from(lengths[0]) + i64::from(lengths[1]);
    if archive.seek(SeekFrom::Current(skip)).is_err() {
        return Ok(None);
    }
    let packed = archive.take(entry.compressed_size);
    match entry.method {
        0 => extractor.extract_file(wanted, packed)?,
        8 => {
            let guard = extractor.guard.clone();
            extractor.extract_file(wanted, guard.guard_output(DeflateDecoder::new(guard.guard_input(packed))))?;
        }
        _ => return Ok(None),
    }
    Ok(Some(()))
}

/// Reads the central directory.
fn read_directory(archive: &mut (impl Read + Seek)) -> Result<Vec<u8>, ArchiveSkipReason> {
    let broken = |_| ArchiveSkipReason::Broken;
    let length = archive.seek(SeekFrom::End(0)).map_err(broken)?;
    let from = length.saturating_sub((END_RECORD_BYTES + MAX_COMMENT_BYTES) as u64);
    archive.seek(SeekFrom::Start(from)).map_err(broken)?;
    let mut tail = Vec::new();
    archive.take((END_RECORD_BYTES + MAX_COMMENT_BYTES) as u64).read_to_end(&mut tail).map_err(broken)?;
    let is_end = |window: &[u8]| window.starts_with(b"PK\x05\x06");
    let end = tail.windows(END_RECORD_BYTES).rposition(is_end).ok_or(ArchiveSkipReason::Broken)?;
    let place = from + end as u64;
    let end = tail.get(end..).unwrap_or_default();
    let size = u32_at(end, 12).ok_or(ArchiveSkipReason::Broken)?;
    let start = u32_at(end, 16).ok_or(ArchiveSkipReason::Broken)?;
    if u64::from(size) > MAX_DIRECTORY_BYTES {
        return Err(ArchiveSkipReason::ManyEntries);
    }
    // Some tools expect the directory directly in front of its end record, whatever offset is given.
    if u64::from(start) + u64::from(size) != place {
        return Err(ArchiveSkipReason::Broken);
    }
    archive.seek(SeekFrom::Start(start.into())).map_err(broken)?;
    let mut bytes = Vec::new();
    archive.take(size.into()).read_to_end(&mut bytes).map_err(broken)?;
    Ok(bytes)
}

/// An entry in the central directory.
struct ZipEntry<'d> {
    name: &'d [u8],
    method: u16,
    compressed_size: u64,
    header_offset: u64,
    /// External file attributes. The upper 16 bits hold the Unix file mode.
    external_attributes: u32,
    next_offset: usize,
}

impl<'d> ZipEntry<'d> {
    fn read(directory: &'d [u8], at: usize) -> Option<Self> {
        let entry = directory.get(at..)?;
        if !entry.starts_with(b"PK\x01\x02") {
            return None;
        }
        let [name, extra, comment] = [28, 30, 32].map(|at| u16_at(entry, at).map(usize::from));
        let (name, extra, comment) = (name?, extra?, comment?);
        let packed = match u32_at(entry, 20)? {
            // Zip64 placeholder; the limits bound the read.
            u32::MAX => u64::MAX,
            packed => packed.into(),
        };
        Some(Self {
            name: entry.get(46..46 + name)?,
            method: u16_at(entry, 10)?,
            compressed_size: packed,
            header_offset: u32_at(entry, 42)?.into(),
            external_attributes: u32_at(entry, 38)?,
            next_offset: at + 46 + name + extra + comment,
        })
    }

    fn is_link(&self) -> bool {
        const FILE_TYPE_MASK: u32 = 0o170_000;
        const SYMLINK_TYPE: u32 = 0o120_000;
        (self.external_attributes >> 16) & FILE_TYPE_MASK == SYMLINK_TYPE
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
