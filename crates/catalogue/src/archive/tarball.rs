//! Reads tar archives as a stream, one entry at a time.

use std::io::{self, Read};

use super::{ArchiveExtractor, ArchiveSkipReason};

const BLOCK_BYTES: usize = 512;
/// Maximum size of an extended header.
const MAX_EXTENDED_HEADER_BYTES: u64 = 64 << 10;

/// Reads the entries of a tar archive until it ends or a limit is reached.
pub fn extract_tar(
    stream: &mut io::Take<impl Read>,
    extractor: &mut ArchiveExtractor<'_>,
) -> Result<(), ArchiveSkipReason> {
    let (mut count, mut long_path, mut pax_size, mut is_ending) = (0, None, None, false);
    loop {
        // Some writers omit the empty blocks at the end.
        let Some(head) = read_header(stream)? else {
            return if count > 0 || is_ending { Ok(()) } else { Err(ArchiveSkipReason::Broken) };
        };
        // Installers ignore a single empty block; two of them end the archive.
        let was_ending = is_ending;
        is_ending = head.iter().all(|byte| *byte == 0);
        if is_ending {
            if was_ending {
                return Ok(());
            }
            continue;
        }
        count += 1;
        if count > extractor.limits.max_entries {
            return Err(ArchiveSkipReason::ManyEntries);
        }
        let size = entry_size(&head).ok_or(ArchiveSkipReason::Broken)?;
        let is_own = matches!(head.get(156), Some(b'L' | b'K' | b'x' | b'g'));
        // If two sizes disagree, other tools may use the other one.
        if !is_own && pax_size.take().is_some_and(|pax_size| pax_size != size) {
            return Err(ArchiveSkipReason::Broken);
        }
        let padding = (BLOCK_BYTES as u64 - size % BLOCK_BYTES as u64) % BLOCK_BYTES as u64;
        let before = stream.limit();
        match head.get(156) {
            Some(b'0' | 0 | b'7') => {
                let path = long_path.take().unwrap_or_else(|| entry_path(&head));
                if let Some(wanted) = extractor.select_entry(&path) {
                    extractor.extract_file(wanted, stream.by_ref().take(size))?;
                }
            }
            Some(b'1' | b'2') => extractor.record_link(&long_path.take().unwrap_or_else(|| entry_path(&head))),
            Some(b'L') => long_path = Some(trim_at_nul(&read_header_content(stream, size)?).to_vec()),
            Some(b'x') => {
                let attributes = parse_pax(&read_header_content(stream, size)?)?;
                (long_path, pax_size) = (attributes.path.or(long_path), attributes.size.or(pax_size));
            }
            // A global header applies to all following entries, so it must not change path or size.
            Some(b'g') if parse_pax(&read_header_content(stream, size)?)? == PaxAttributes::default() => {}
            // Target of a link with a long name.
            Some(b'K') => {}
            // Devices, folders and pipes.
            Some(b'3'..=b'6') => long_path = None,
            _ => return Err(ArchiveSkipReason::Broken),
        }
        let read = before - stream.limit();
        skip_bytes(stream, (size - read.min(size)).saturating_add(padding))?;
    }
}

/// Reads the next header. Returns `None` at the end of the stream.
fn read_header(stream: &mut io::Take<impl Read>) -> Result<Option<[u8; BLOCK_BYTES]>, ArchiveSkipReason> {
    let mut head = [0; BLOCK_BYTES];
    let (first, rest) = head.split_at_mut(1);
    match stream.read(first) {
        Ok(0) if stream.limit() == 0 => return Err(ArchiveSkipReason::LargeStream),
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(_) => return Err(ArchiveSkipReason::Broken),
    }
    stream
        .read_exact(rest)
        .map_err(|_| if stream.limit() == 0 { ArchiveSkipReason::LargeStream } else { ArchiveSkipReason::Broken })?;
    Ok(Some(head))
}

/// Skips `count` bytes.
fn skip_bytes(stream: &mut io::Take<impl Read>, count: u64) -> Result<(), ArchiveSkipReason> {
    if count > stream.limit() {
        return Err(ArchiveSkipReason::LargeStream);
    }
    match io::copy(&mut stream.by_ref().take(count), &mut io::sink()) {
        Ok(passed) if passed == count => Ok(()),
        _ => Err(ArchiveSkipReason::Broken),
    }
}

/// Reads the content of an extended header.
fn read_header_content(stream: &mut io::Take<impl Read>, size: u64) -> Result<Vec<u8>, ArchiveSkipReason> {
    if size > MAX_EXTENDED_HEADER_BYTES {
        return Err(ArchiveSkipReason::BadPath);
    }
    let mut bytes = Vec::new();
    stream.by_ref().take(size).read_to_end(&mut bytes).map_err(|_| ArchiveSkipReason::Broken)?;
    Ok(bytes)
}

/// Parses the size field: octal digits, or a binary number if the first bit is set.
fn entry_size(head: &[u8; BLOCK_BYTES]) -> Option<u64> {
    let field = head.get(124..136)?;
    if field.first()? & 0x80 != 0 {
        let last = field.last_chunk::<8>()?;
        return Some(u64::from_be_bytes(*last));
    }
    let digits = std::str::from_utf8(trim_at_nul(field)).ok()?.trim();
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

fn entry_path(head: &[u8; BLOCK_BYTES]) -> Vec<u8> {
    let name = trim_at_nul(head.get(..100).unwrap_or_default());
    let is_ustar = head.get(257..262) == Some(b"ustar");
    let prefix = trim_at_nul(head.get(345..500).filter(|_| is_ustar).unwrap_or_default());
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

fn trim_at_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Attributes that an extended header sets for the next entry.
#[derive(Default, PartialEq, Eq)]
struct PaxAttributes {
    path: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Parses an extended header (`27 path=books/shelf.py\n`). Sparse files are refused, because other tools would extract
/// different content.
fn parse_pax(mut records: &[u8]) -> Result<PaxAttributes, ArchiveSkipReason> {
    let mut attributes = PaxAttributes::default();
    while !records.is_empty() {
        let (record, rest) = split_pax_record(records).ok_or(ArchiveSkipReason::Broken)?;
        if record.starts_with(b"GNU.sparse.") {
            return Err(ArchiveSkipReason::Broken);
        }
        if let Some(size) = record.strip_prefix(b"size=") {
            let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
            attributes.size = Some(size.ok_or(ArchiveSkipReason::Broken)?);
        }
        attributes.path = record.strip_prefix(b"path=").map(<[u8]>::to_vec).or(attributes.path);
        records = rest;
    }
    Ok(attributes)
}

/// Splits the first record off the content of an extended header.
fn split_pax_record(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = records.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(records.get(..space)?).ok()?.parse().ok()?;
    Some((records.get(space + 1..length.checked_sub(1)?)?, records.get(length..)?))
}
