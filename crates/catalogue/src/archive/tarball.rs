//! Tar, as a stream: an entry after the other, none of them kept longer than it is looked at.

use std::io::{self, Read};

use super::{Skip, Taking};

const BLOCK: usize = 512;
/// The longest path in a header of its own.
const LONGEST_PATH: u64 = 64 << 10;

/// Goes through the entries of a tar, to its end or the end of its bounds.
pub fn take(stream: &mut io::Take<impl Read>, taking: &mut Taking<'_>) -> Result<(), Skip> {
    let (mut count, mut long, mut told, mut is_ending) = (0, None, None, false);
    loop {
        // Some writers leave out the empty blocks at the end.
        let Some(head) = head(stream)? else { return if count > 0 || is_ending { Ok(()) } else { Err(Skip::Broken) } };
        // One empty block is passed over by who installs it; two of them are the end.
        let was_ending = is_ending;
        is_ending = head.iter().all(|byte| *byte == 0);
        if is_ending {
            if was_ending {
                return Ok(());
            }
            continue;
        }
        count += 1;
        if count > taking.bounds.entries {
            return Err(Skip::ManyEntries);
        }
        let size = size(&head).ok_or(Skip::Broken)?;
        let is_own = matches!(head.get(156), Some(b'L' | b'K' | b'x' | b'g'));
        // Of two sizes others may take the other one.
        if !is_own && told.take().is_some_and(|told| told != size) {
            return Err(Skip::Broken);
        }
        let padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        let before = stream.limit();
        match head.get(156) {
            Some(b'0' | 0 | b'7') => {
                let path = long.take().unwrap_or_else(|| path(&head));
                if let Some(wanted) = taking.wants(&path) {
                    taking.keep(wanted, stream.by_ref().take(size))?;
                }
            }
            Some(b'1' | b'2') => taking.pass_link(&long.take().unwrap_or_else(|| path(&head))),
            Some(b'L') => long = Some(until_zero(&bytes(stream, size)?).to_vec()),
            Some(b'x') => {
                let said = pax(&bytes(stream, size)?)?;
                (long, told) = (said.path.or(long), said.size.or(told));
            }
            // For all that follow.
            Some(b'g') if pax(&bytes(stream, size)?)? == Said::default() => {}
            // Where a link leads.
            Some(b'K') => {}
            // Devices, folders and pipes.
            Some(b'3'..=b'6') => long = None,
            _ => return Err(Skip::Broken),
        }
        let read = before - stream.limit();
        pass(stream, (size - read.min(size)).saturating_add(padding))?;
    }
}

/// The next header; none where the stream ends before it.
fn head(stream: &mut io::Take<impl Read>) -> Result<Option<[u8; BLOCK]>, Skip> {
    let mut head = [0; BLOCK];
    let (first, rest) = head.split_at_mut(1);
    match stream.read(first) {
        Ok(0) if stream.limit() == 0 => return Err(Skip::LargeStream),
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(_) => return Err(Skip::Broken),
    }
    stream.read_exact(rest).map_err(|_| if stream.limit() == 0 { Skip::LargeStream } else { Skip::Broken })?;
    Ok(Some(head))
}

/// Passes over bytes.
fn pass(stream: &mut io::Take<impl Read>, count: u64) -> Result<(), Skip> {
    if count > stream.limit() {
        return Err(Skip::LargeStream);
    }
    match io::copy(&mut stream.by_ref().take(count), &mut io::sink()) {
        Ok(passed) if passed == count => Ok(()),
        _ => Err(Skip::Broken),
    }
}

/// The content of a header of its own.
fn bytes(stream: &mut io::Take<impl Read>, size: u64) -> Result<Vec<u8>, Skip> {
    if size > LONGEST_PATH {
        return Err(Skip::BadPath);
    }
    let mut bytes = Vec::new();
    stream.by_ref().take(size).read_to_end(&mut bytes).map_err(|_| Skip::Broken)?;
    Ok(bytes)
}

/// A size in octal digits, or in bytes where the first one says so.
fn size(head: &[u8; BLOCK]) -> Option<u64> {
    let field = head.get(124..136)?;
    if field.first()? & 0x80 != 0 {
        let last = field.last_chunk::<8>()?;
        return Some(u64::from_be_bytes(*last));
    }
    let digits = std::str::from_utf8(until_zero(field)).ok()?.trim();
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

fn path(head: &[u8; BLOCK]) -> Vec<u8> {
    let name = until_zero(head.get(..100).unwrap_or_default());
    let is_ustar = head.get(257..262) == Some(b"ustar");
    let prefix = until_zero(head.get(345..500).filter(|_| is_ustar).unwrap_or_default());
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// What an extended header says of the next entry.
#[derive(Default, PartialEq, Eq)]
struct Said {
    path: Option<Vec<u8>>,
    size: Option<u64>,
}

/// What an extended header says: `27 path=books/shelf.py\n`. One that names a file with holes is broken: what follows
/// would be another file for others.
fn pax(mut records: &[u8]) -> Result<Said, Skip> {
    let mut said = Said::default();
    while !records.is_empty() {
        let (record, rest) = pax_record(records).ok_or(Skip::Broken)?;
        if record.starts_with(b"GNU.sparse.") {
            return Err(Skip::Broken);
        }
        if let Some(size) = record.strip_prefix(b"size=") {
            let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
            said.size = Some(size.ok_or(Skip::Broken)?);
        }
        said.path = record.strip_prefix(b"path=").map(<[u8]>::to_vec).or(said.path);
        records = rest;
    }
    Ok(said)
}

/// The first record, and what follows it.
fn pax_record(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = records.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(records.get(..space)?).ok()?.parse().ok()?;
    Some((records.get(space + 1..length.checked_sub(1)?)?, records.get(length..)?))
}
