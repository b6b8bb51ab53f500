//! A long text whose middle, which is inside one string, stands apart in the pieces that it came in.
//!
//! Long texts are long because of one string. Reading what stands around its middle tells where all values are; the
//! pieces of the middle are held to the rules of a string as they come, and need not be put together.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::document::JsonDocument;
use crate::error::JsonError;
use crate::parser::{JsonLimits, read};
use crate::scanner::{CommentMode, Scanner};

/// Pieces of the inside of a string.
///
/// INVARIANT: each is UTF-8, of whole characters and whole escapes, and holds no quote. So is one behind the other.
#[derive(Debug, Default)]
pub struct StringSegments {
    chunks: Vec<Bytes>,
    length: usize,
    has_escapes: bool,
}

impl StringSegments {
    /// Adds a piece.
    ///
    /// # Errors
    /// It is not the inside of a string, or not by itself, and is given back.
    pub fn push(&mut self, piece: Bytes) -> Result<(), Bytes> {
        let Some(has_escapes) = scan_string_content(&piece) else { return Err(piece) };
        self.has_escapes |= has_escapes;
        self.length += piece.len();
        self.chunks.push(piece);
        Ok(())
    }

    /// The pieces in their order.
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
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
const SCAN_BLOCK_BYTES: usize = 8 << 10;

/// Whether bytes can stand inside a string as they are, whatever stands before and behind them; and if so, whether they
/// hold escapes.
fn scan_string_content(bytes: &[u8]) -> Option<bool> {
    // Most are plain from beginning to end. From the first block that is not, they are looked at with care.
    let plain = bytes.chunks(SCAN_BLOCK_BYTES).take_while(|block| is_plain_ascii(block)).map(<[u8]>::len).sum();
    let rest = bytes.get(plain..).unwrap_or_default();
    // In this order: most that does not fit has a quote near its beginning.
    let has_escapes = Scanner::new(rest, CommentMode::Refused).scan_string_content().ok()?;
    // Most is ASCII, which is found out in half the time.
    (rest.is_ascii() || str::from_utf8(rest).is_ok()).then_some(has_escapes)
}

/// Whether there are only letters of ASCII that need no escape.
fn is_plain_ascii(block: &[u8]) -> bool {
    memchr::memchr2(b'"', b'\\', block).is_none() && is_printable_ascii(block)
}

/// Whether no byte is a control character or belongs to a longer character: as signed numbers, both are small.
fn is_printable_ascii(block: &[u8]) -> bool {
    let is_printed = |so_far: bool, byte: &u8| so_far & (byte.cast_signed() >= 0x20);
    let (lines, rest) = block.as_chunks::<64>();
    lines.iter().all(|line| line.iter().fold(true, is_printed)) && rest.iter().fold(true, is_printed)
}

/// A text that is put together only if somebody asks for what goes over its fold.
///
/// INVARIANT: what stands before and behind the middle is UTF-8, each by itself.
#[derive(Debug)]
pub struct SegmentedText {
    /// What stands before the middle and behind it, without the middle.
    outer_text: String,
    /// Where in it the middle is missing.
    split_offset: usize,
    segments: StringSegments,
    joined_text: OnceLock<String>,
}

impl SegmentedText {
    /// Takes what stands before the middle, the middle, and what stands behind it.
    ///
    /// # Errors
    /// It cannot be folded there, and the middle is given back.
    pub fn new(before: Vec<u8>, middle: StringSegments, behind: &[u8]) -> Result<Self, (Vec<u8>, StringSegments)> {
        // By themselves: half a character before the middle and half of it behind are no character.
        let Ok(behind) = str::from_utf8(behind) else { return Err((before, middle)) };
        let mut short = match String::from_utf8(before) {
            Ok(before) => before,
            Err(error) => return Err((error.into_bytes(), middle)),
        };
        let at = short.len();
        short.push_str(behind);
        Ok(Self { outer_text: short, split_offset: at, segments: middle, joined_text: OnceLock::new() })
    }

    /// How many bytes the whole text has.
    pub fn len(&self) -> usize {
        self.outer_text.len() + self.segments.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text without its middle: the same values in the same order, of which one string is shorter.
    pub fn outer_text(&self) -> &str {
        &self.outer_text
    }

    /// What stands before the middle, the pieces of it, and what stands behind it.
    pub fn parts(&self) -> (&str, &[Bytes], &str) {
        let (before, behind) = self.outer_text.split_at_checked(self.split_offset).unwrap_or((&self.outer_text, ""));
        (before, &self.segments.chunks, behind)
    }

    /// The whole text, which is put together when somebody first asks.
    pub fn as_str(&self) -> &str {
        self.joined_text.get_or_init(|| self.concatenate())
    }

    /// The same, for keeping.
    pub fn into_string(mut self) -> String {
        self.joined_text.take().unwrap_or_else(|| self.concatenate())
    }

    fn concatenate(&self) -> String {
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
        let hidden = self.segments.len();
        if end <= self.split_offset {
            self.outer_text.get(start..end)
        } else if start >= self.split_offset + hidden {
            self.outer_text.get(start - hidden..end - hidden)
        } else {
            self.as_str().get(start..end)
        }
    }

    /// The bytes of a part of the whole text, one piece after the other.
    pub(crate) fn for_each_chunk(&self, start: usize, end: usize, mut take: impl FnMut(&[u8])) {
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
    pub(crate) fn is_before_split(&self, offset: usize) -> bool {
        offset < self.split_offset
    }

    /// What goes over the fold, by its place in the whole text, without the middle; none for anything else.
    pub fn outer_span_text(&self, place: std::ops::Range<usize>) -> Option<&str> {
        let end = place.end.checked_sub(self.segments.len())?;
        self.outer_text.get(place.start..end).filter(|_| place.start < self.split_offset && self.split_offset < end)
    }

    /// Where something stands in the whole text that stands at `place` in the short one. What goes over the fold grows.
    pub fn to_full_span(&self, (start, end): (usize, usize)) -> (usize, usize) {
        let moved = |offset: usize| if offset > self.split_offset { offset + self.segments.len() } else { offset };
        (moved(start), moved(end))
    }

    /// Whether the middle belongs into the string that stands at `place` in the short text with its quotes, and that is
    /// the value of something: then the whole text has the same values.
    ///
    /// What stands before the middle in that string must be whole by itself, so that no escape begins in one part and
    /// ends in another. A key is compared with others, so none is shortened.
    pub fn is_split_in_string_value(&self, (start, end): (usize, usize)) -> bool {
        let is_inside = start < self.split_offset && self.split_offset < end;
        let before = self.outer_text.as_bytes().get(start + 1..self.split_offset);
        let is_whole = before.is_some_and(|before| scan_string_content(before).is_some());
        let next = self.outer_text.get(end..).and_then(|rest| rest.trim_ascii_start().bytes().next());
        is_inside && is_whole && next != Some(b':')
    }
}

/// Reads one JSON value as [`parser`] reads the whole text, which is put together only if it must be.
///
/// # Errors
/// As for [`parser`].
pub fn read_segmented<'a>(folded: &'a SegmentedText, limits: &JsonLimits) -> Result<JsonDocument<'a>, JsonError> {
    match try_read_segmented(folded, limits) {
        Some(document) => Ok(document),
        None => read(folded.as_str().as_bytes(), limits),
    }
}

/// The document of the whole text by what the short one has; none if it cannot be told by that.
fn try_read_segmented<'a>(folded: &'a SegmentedText, limits: &JsonLimits) -> Option<JsonDocument<'a>> {
    // Offsets are kept in 31 bits.
    if folded.len() > limits.max_bytes.min(i32::MAX as usize) {
        return None;
    }
    read(folded.outer_text.as_bytes(), limits).ok()?.with_segments(folded, folded.segments.has_escapes)
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
            for at in [
                0,
                1,
                63,
                64,
                SCAN_BLOCK_BYTES - 1,
                SCAN_BLOCK_BYTES,
                SCAN_BLOCK_BYTES + 1,
                2 * SCAN_BLOCK_BYTES - 1,
                3 * SCAN_BLOCK_BYTES - odd.len(),
            ] {
                let mut piece = vec![b'x'; 3 * SCAN_BLOCK_BYTES];
                piece[at..at + odd.len()].copy_from_slice(odd);
                assert_eq!(scan_string_content(&piece), expected, "{odd:?} at {at}");
            }
        }
        assert_eq!(scan_string_content(&vec![b'x'; 3 * SCAN_BLOCK_BYTES + 7]), Some(false));
        assert_eq!(scan_string_content(b""), Some(false));
    }
}
