//! JSON text in which one large string value remains in the chunks in which it was received.
//!
//! Long messages are usually long because of one string. To find all values, it is enough to parse the text without the
//! middle of that string. Each chunk of the middle is validated as string content on arrival, so the chunks need not be
//! joined. Without this, a call of 1 MB takes 28 % more CPU (`call_overhead large-16`).

use std::sync::OnceLock;

use bytes::Bytes;

use crate::document::JsonDocument;
use crate::error::JsonError;
use crate::parser::{JsonLimits, read};
use crate::scanner::{CommentMode, Scanner};

/// The chunks that make up part of one string's content.
///
/// INVARIANT: each chunk is valid UTF-8 with whole characters and whole escapes, and contains no quote. The same
/// therefore holds for their concatenation.
#[derive(Debug, Default)]
pub struct StringSegments {
    chunks: Vec<Bytes>,
    length: usize,
    has_escapes: bool,
}

impl StringSegments {
    /// Adds a chunk.
    ///
    /// # Errors
    /// Returns the chunk if it is not valid string content on its own.
    pub fn push(&mut self, chunk: Bytes) -> Result<(), Bytes> {
        let Some(has_escapes) = scan_string_content(&chunk) else { return Err(chunk) };
        self.has_escapes |= has_escapes;
        self.length += chunk.len();
        self.chunks.push(chunk);
        Ok(())
    }

    /// Returns the chunks in order.
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Returns the total length of the chunks in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the chunks contain no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Number of bytes to check at a time. A block of this size stays in the L1 cache between the two passes over it.
const SCAN_BLOCK_BYTES: usize = 8 << 10;

/// Returns whether the bytes contain escapes, or `None` if they are not valid string content on their own.
fn scan_string_content(bytes: &[u8]) -> Option<bool> {
    // Most content is plain ASCII. The slower scan starts at the first block that is not.
    let plain = bytes.chunks(SCAN_BLOCK_BYTES).take_while(|block| is_plain_ascii(block)).map(<[u8]>::len).sum();
    let rest = bytes.get(plain..).unwrap_or_default();
    // In this order: most invalid content has a quote near its start.
    let has_escapes = Scanner::new(rest, CommentMode::Refused).scan_string_content().ok()?;
    // `is_ascii` takes half the time of the UTF-8 check, and most content is ASCII.
    (rest.is_ascii() || str::from_utf8(rest).is_ok()).then_some(has_escapes)
}

/// Returns whether the block consists of ASCII characters that need no escaping.
fn is_plain_ascii(block: &[u8]) -> bool {
    memchr::memchr2(b'"', b'\\', block).is_none() && is_printable_ascii(block)
}

/// Returns whether no byte is a control character or part of a multi-byte character. As signed numbers, such bytes are
/// below 0x20.
fn is_printable_ascii(block: &[u8]) -> bool {
    let is_printable = |so_far: bool, byte: &u8| so_far & (byte.cast_signed() >= 0x20);
    let (lines, rest) = block.as_chunks::<64>();
    lines.iter().all(|line| line.iter().fold(true, is_printable)) && rest.iter().fold(true, is_printable)
}

/// JSON text in which the middle of one string is stored as separate chunks. They are joined only when text that
/// overlaps them is requested.
///
/// INVARIANT: the text before the chunks and the text after them are valid UTF-8, each on its own.
#[derive(Debug)]
pub struct SegmentedText {
    /// The text with the chunks left out.
    outer_text: String,
    /// Offset in `outer_text` at which the chunks were left out.
    split_offset: usize,
    segments: StringSegments,
    joined_text: OnceLock<String>,
}

impl SegmentedText {
    /// Combines the text before the chunks, the chunks, and the text after them.
    ///
    /// # Errors
    /// Returns the first two arguments if the text before or after the chunks is not valid UTF-8 on its own.
    pub fn new(prefix: Vec<u8>, middle: StringSegments, suffix: &[u8]) -> Result<Self, (Vec<u8>, StringSegments)> {
        // Checked separately: half a character before the chunks and half after them do not make a character.
        let Ok(suffix) = str::from_utf8(suffix) else { return Err((prefix, middle)) };
        let mut outer_text = match String::from_utf8(prefix) {
            Ok(prefix) => prefix,
            Err(error) => return Err((error.into_bytes(), middle)),
        };
        let split_offset = outer_text.len();
        outer_text.push_str(suffix);
        Ok(Self { outer_text, split_offset, segments: middle, joined_text: OnceLock::new() })
    }

    /// Returns the length of the whole text in bytes.
    pub fn len(&self) -> usize {
        self.outer_text.len() + self.segments.len()
    }

    /// Returns whether the whole text is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the text without the chunks. It has the same values in the same order, but one string is shorter.
    pub fn outer_text(&self) -> &str {
        &self.outer_text
    }

    /// Returns the text before the chunks, the chunks, and the text after them.
    pub fn parts(&self) -> (&str, &[Bytes], &str) {
        let (prefix, suffix) = self.outer_text.split_at_checked(self.split_offset).unwrap_or((&self.outer_text, ""));
        (prefix, &self.segments.chunks, suffix)
    }

    /// Returns the whole text, which is joined on first use.
    pub fn as_str(&self) -> &str {
        self.joined_text.get_or_init(|| self.concatenate())
    }

    /// Like [`as_str`](Self::as_str), but returns an owned string.
    pub fn into_string(mut self) -> String {
        self.joined_text.take().unwrap_or_else(|| self.concatenate())
    }

    fn concatenate(&self) -> String {
        let (prefix, middle, suffix) = self.parts();
        let mut whole = String::with_capacity(self.len());
        whole.push_str(prefix);
        // INVARIANT: `StringSegments::push` checked each chunk for UTF-8.
        middle.iter().for_each(|chunk| whole.push_str(str::from_utf8(chunk).unwrap_or_default()));
        whole.push_str(suffix);
        whole
    }

    /// Returns the text between two offsets in the whole text.
    #[cold] // Most texts are contiguous, so this should not be inlined into their path.
    pub(crate) fn get(&self, start: usize, end: usize) -> Option<&str> {
        let middle_length = self.segments.len();
        if end <= self.split_offset {
            self.outer_text.get(start..end)
        } else if start >= self.split_offset + middle_length {
            self.outer_text.get(start - middle_length..end - middle_length)
        } else {
            self.as_str().get(start..end)
        }
    }

    /// Passes the bytes from `start` to `end` to `take`, chunk by chunk.
    pub(crate) fn for_each_chunk(&self, start: usize, end: usize, mut take: impl FnMut(&[u8])) {
        let (prefix, middle, suffix) = self.parts();
        let mut at = 0;
        for chunk in
            std::iter::once(prefix.as_bytes()).chain(middle.iter().map(AsRef::as_ref)).chain([suffix.as_bytes()])
        {
            let (from, to) = (start.max(at) - at, end.min(at + chunk.len()).saturating_sub(at));
            take(chunk.get(from..to).unwrap_or_default());
            at += chunk.len();
        }
    }

    /// Returns whether an offset in the outer text is before the point at which the chunks belong.
    pub(crate) fn is_before_split(&self, offset: usize) -> bool {
        offset < self.split_offset
    }

    /// Takes a byte range in the whole text, and returns its text without the chunks. Returns `None` if the range does
    /// not enclose all chunks.
    pub fn outer_span_text(&self, range: std::ops::Range<usize>) -> Option<&str> {
        let end = range.end.checked_sub(self.segments.len())?;
        self.outer_text.get(range.start..end).filter(|_| range.start < self.split_offset && self.split_offset < end)
    }

    /// Converts a byte range in the outer text to a byte range in the whole text. A range becomes longer if it encloses
    /// the point at which the chunks belong.
    pub fn to_full_span(&self, (start, end): (usize, usize)) -> (usize, usize) {
        let moved = |offset: usize| if offset > self.split_offset { offset + self.segments.len() } else { offset };
        (moved(start), moved(end))
    }

    /// Returns whether the chunks are inside the string at this byte range in the outer text (quotes included), and
    /// this string is a value and not a key. If so, parsing the outer text finds the same values as parsing the whole
    /// text.
    ///
    /// The part of the string before the chunks must be valid on its own, because an escape that continues in the
    /// chunks would change their meaning. Keys are excluded because the check for duplicates needs the whole key.
    pub fn is_split_in_string_value(&self, (start, end): (usize, usize)) -> bool {
        let is_inside = start < self.split_offset && self.split_offset < end;
        let leading = self.outer_text.as_bytes().get(start + 1..self.split_offset);
        let is_whole = leading.is_some_and(|leading| scan_string_content(leading).is_some());
        let next = self.outer_text.get(end..).and_then(|rest| rest.trim_ascii_start().bytes().next());
        is_inside && is_whole && next != Some(b':')
    }
}

/// Parses one JSON value like [`read`]. If possible, parses only the outer text. Otherwise, joins the chunks first.
///
/// ```
/// use gatelodge_json::{JsonLimits, SegmentedText, StringSegments, read_segmented};
///
/// let mut middle = StringSegments::default();
/// middle.push("long ".into()).expect("string content");
/// middle.push("text".into()).expect("string content");
/// let text = SegmentedText::new(br#"{"note":"a "#.to_vec(), middle, br#"","id":7}"#).expect("UTF-8");
/// let document = read_segmented(&text, &JsonLimits::REQUEST)?;
/// assert_eq!(document.root().get("id").map(|id| id.raw()), Some("7"));
/// assert_eq!(document.root().get("note").and_then(|note| note.as_str()), Some("a long text".into()));
/// # Ok::<(), gatelodge_json::JsonError>(())
/// ```
///
/// # Errors
/// Returns an error in the same cases as [`read`].
pub fn read_segmented<'a>(segmented: &'a SegmentedText, limits: &JsonLimits) -> Result<JsonDocument<'a>, JsonError> {
    match try_read_segmented(segmented, limits) {
        Some(document) => Ok(document),
        None => read(segmented.as_str().as_bytes(), limits),
    }
}

/// Derives the document for the whole text by parsing only the outer text. Returns `None` if that is not possible.
fn try_read_segmented<'a>(segmented: &'a SegmentedText, limits: &JsonLimits) -> Option<JsonDocument<'a>> {
    // Offsets are stored in 31 bits.
    if segmented.len() > limits.max_bytes.min(i32::MAX as usize) {
        return None;
    }
    read(segmented.outer_text.as_bytes(), limits).ok()?.with_segments(segmented, segmented.segments.has_escapes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_bytes_are_found_anywhere_in_a_long_chunk() {
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
        for (special, expected) in cases {
            for at in [
                0,
                1,
                63,
                64,
                SCAN_BLOCK_BYTES - 1,
                SCAN_BLOCK_BYTES,
                SCAN_BLOCK_BYTES + 1,
                2 * SCAN_BLOCK_BYTES - 1,
                3 * SCAN_BLOCK_BYTES - special.len(),
            ] {
                let mut chunk = vec![b'x'; 3 * SCAN_BLOCK_BYTES];
                chunk[at..at + special.len()].copy_from_slice(special);
                assert_eq!(scan_string_content(&chunk), expected, "{special:?} at {at}");
            }
        }
        assert_eq!(scan_string_content(&vec![b'x'; 3 * SCAN_BLOCK_BYTES + 7]), Some(false));
        assert_eq!(scan_string_content(b""), Some(false));
    }
}
