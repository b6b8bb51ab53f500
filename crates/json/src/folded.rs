//! A long text whose middle, which is inside one string, stands apart in the pieces that it came in.
//!
//! Long texts are long because of one string. Reading what stands around its middle tells where all values are; the
//! pieces of the middle are held to the rules of a string as they come, and need not be put together.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::document::JsonDocument;
use crate::error::JsonError;
use crate::read::{Limits, read};
use crate::scan::{Comments, Cursor};

/// Pieces of the inside of a string.
///
/// INVARIANT: each is UTF-8, of whole characters and whole escapes, and holds no quote. So is one behind the other.
#[derive(Debug, Default)]
pub struct Middle {
    pieces: Vec<Bytes>,
    length: usize,
    has_escapes: bool,
}

impl Middle {
    /// Adds a piece.
    ///
    /// # Errors
    /// It is not the inside of a string, or not by itself, and is given back.
    pub fn push(&mut self, piece: Bytes) -> Result<(), Bytes> {
        let Some(has_escapes) = inside_of_string(&piece) else { return Err(piece) };
        self.has_escapes |= has_escapes;
        self.length += piece.len();
        self.pieces.push(piece);
        Ok(())
    }

    /// The pieces in their order.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// How many bytes they have together.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// What is looked at in one go: it stays in the nearest cache from the one look to the next.
const BLOCK: usize = 8 << 10;

/// Whether bytes can stand inside a string as they are, whatever stands before and behind them; and if so, whether they
/// hold escapes.
fn inside_of_string(bytes: &[u8]) -> Option<bool> {
    // Most are plain from beginning to end. From the first block that is not, they are looked at with care.
    let plain = bytes.chunks(BLOCK).take_while(|block| is_plain(block)).map(<[u8]>::len).sum();
    let rest = bytes.get(plain..).unwrap_or_default();
    // In this order: most that does not fit has a quote near its beginning.
    let has_escapes = Cursor::new(rest, Comments::Refused).inside().ok()?;
    // Most is ASCII, which is found out in half the time.
    (rest.is_ascii() || str::from_utf8(rest).is_ok()).then_some(has_escapes)
}

/// Whether there are only letters of ASCII that need no escape.
fn is_plain(block: &[u8]) -> bool {
    memchr::memchr2(b'"', b'\\', block).is_none() && are_printed(block)
}

/// Whether no byte is a control character or belongs to a longer character: as signed numbers, both are small.
fn are_printed(block: &[u8]) -> bool {
    let is_printed = |so_far: bool, byte: &u8| so_far & (byte.cast_signed() >= 0x20);
    let (lines, rest) = block.as_chunks::<64>();
    lines.iter().all(|line| line.iter().fold(true, is_printed)) && rest.iter().fold(true, is_printed)
}

/// A text that is put together only if somebody asks for what goes over its fold.
///
/// INVARIANT: what stands before and behind the middle is UTF-8, each by itself.
#[derive(Debug)]
pub struct Folded {
    /// What stands before the middle and behind it, without the middle.
    short: String,
    /// Where in it the middle is missing.
    at: usize,
    middle: Middle,
    whole: OnceLock<String>,
}

impl Folded {
    /// Takes what stands before the middle, the middle, and what stands behind it.
    ///
    /// # Errors
    /// It cannot be folded there, and the middle is given back.
    pub fn new(before: Vec<u8>, middle: Middle, behind: &[u8]) -> Result<Self, (Vec<u8>, Middle)> {
        // By themselves: half a character before the middle and half of it behind are no character.
        let Ok(behind) = str::from_utf8(behind) else { return Err((before, middle)) };
        let mut short = match String::from_utf8(before) {
            Ok(before) => before,
            Err(error) => return Err((error.into_bytes(), middle)),
        };
        let at = short.len();
        short.push_str(behind);
        Ok(Self { short, at, middle, whole: OnceLock::new() })
    }

    /// How many bytes the whole text has.
    pub fn len(&self) -> usize {
        self.short.len() + self.middle.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text without its middle: the same values in the same order, of which one string is shorter.
    pub fn short(&self) -> &str {
        &self.short
    }

    /// What stands before the middle, the pieces of it, and what stands behind it.
    pub fn parts(&self) -> (&str, &[Bytes], &str) {
        let (before, behind) = self.short.split_at_checked(self.at).unwrap_or((&self.short, ""));
        (before, &self.middle.pieces, behind)
    }

    /// The whole text, which is put together when somebody first asks.
    pub fn whole(&self) -> &str {
        self.whole.get_or_init(|| self.joined())
    }

    /// The same, for keeping.
    pub fn into_whole(mut self) -> String {
        self.whole.take().unwrap_or_else(|| self.joined())
    }

    fn joined(&self) -> String {
        let (before, middle, behind) = self.parts();
        let mut whole = String::with_capacity(self.len());
        whole.push_str(before);
        // INVARIANT: each piece was found to be UTF-8.
        middle.iter().for_each(|piece| whole.push_str(str::from_utf8(piece).unwrap_or_default()));
        whole.push_str(behind);
        whole
    }

    /// A part of the whole text, by its place there.
    // Most texts are not folded, and are not to take this along.
    #[cold]
    pub(crate) fn get(&self, start: usize, end: usize) -> Option<&str> {
        let hidden = self.middle.len();
        if end <= self.at {
            self.short.get(start..end)
        } else if start >= self.at + hidden {
            self.short.get(start - hidden..end - hidden)
        } else {
            self.whole().get(start..end)
        }
    }

    /// The bytes of a part of the whole text, one piece after the other.
    pub(crate) fn each_piece(&self, start: usize, end: usize, mut take: impl FnMut(&[u8])) {
        let (before, middle, behind) = self.parts();
        let mut at = 0;
        for piece in
            std::iter::once(before.as_bytes()).chain(middle.iter().map(AsRef::as_ref)).chain([behind.as_bytes()])
        {
            let (from, to) = (start.max(at) - at, end.min(at + piece.len()).saturating_sub(at));
            take(piece.get(from..to).unwrap_or_default());
            at += piece.len();
        }
    }

    /// Whether an offset of the short text lies before the fold.
    pub(crate) fn begins_before(&self, offset: usize) -> bool {
        offset < self.at
    }

    /// What goes over the fold, by its place in the whole text, without the middle; none for anything else.
    pub fn shortened(&self, place: std::ops::Range<usize>) -> Option<&str> {
        let end = place.end.checked_sub(self.middle.len())?;
        self.short.get(place.start..end).filter(|_| place.start < self.at && self.at < end)
    }

    /// Where something stands in the whole text that stands at `place` in the short one. What goes over the fold grows.
    pub fn unfolded(&self, (start, end): (usize, usize)) -> (usize, usize) {
        let moved = |offset: usize| if offset > self.at { offset + self.middle.len() } else { offset };
        (moved(start), moved(end))
    }

    /// Whether the middle belongs into the string that stands at `place` in the short text with its quotes, and that is
    /// the value of something: then the whole text has the same values.
    ///
    /// What stands before the middle in that string must be whole by itself, so that no escape begins in one part and
    /// ends in another. A key is compared with others, so none is shortened.
    pub fn is_in_value(&self, (start, end): (usize, usize)) -> bool {
        let is_inside = start < self.at && self.at < end;
        let before = self.short.as_bytes().get(start + 1..self.at);
        let is_whole = before.is_some_and(|before| inside_of_string(before).is_some());
        let next = self.short.get(end..).and_then(|rest| rest.trim_ascii_start().bytes().next());
        is_inside && is_whole && next != Some(b':')
    }
}

/// Reads one JSON value as [`read`] reads the whole text, which is put together only if it must be.
///
/// # Errors
/// As for [`read`].
pub fn read_folded<'a>(folded: &'a Folded, limits: &Limits) -> Result<JsonDocument<'a>, JsonError> {
    match unfolded(folded, limits) {
        Some(document) => Ok(document),
        None => read(folded.whole().as_bytes(), limits),
    }
}

/// The document of the whole text by what the short one has; none if it cannot be told by that.
fn unfolded<'a>(folded: &'a Folded, limits: &Limits) -> Option<JsonDocument<'a>> {
    // Offsets are kept in 31 bits.
    if folded.len() > limits.bytes.min(i32::MAX as usize) {
        return None;
    }
    read(folded.short.as_bytes(), limits).ok()?.with_segments(folded, folded.middle.has_escapes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_odd_is_seen_wherever_it_stands_in_a_long_piece() {
        let cases: [(&[u8], Option<bool>); 9] = [
            (b"\"", None),
            (b"\\n", Some(true)),
            (b"\\u00e9", Some(true)),
            (b"\\x", None),
            (b"\n", None),
            (b"\0", None),
            (b"\x7f", Some(false)),
            ("é".as_bytes(), Some(false)),
            (b"\xc3", None),
        ];
        for (odd, expected) in cases {
            for at in [0, 1, 63, 64, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 3 * BLOCK - odd.len()] {
                let mut piece = vec![b'x'; 3 * BLOCK];
                piece[at..at + odd.len()].copy_from_slice(odd);
                assert_eq!(inside_of_string(&piece), expected, "{odd:?} at {at}");
            }
        }
        assert_eq!(inside_of_string(&vec![b'x'; 3 * BLOCK + 7]), Some(false));
        assert_eq!(inside_of_string(b""), Some(false));
    }
}
