//! A body that is put together as it comes, as far as it must be.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{JsonLimits, SegmentedText, StringSegments};
use gatelodge_mcp::{ClientMessage, MessageError, read_client_message, read_segmented_client_message};

use crate::arguments_digest::StreamingDigest;
use crate::http_server::listener::MAX_READ_BYTES;

/// Shorter bodies are copied: that costs less than to keep pieces.
const MIN_SEGMENTED_BODY_BYTES: usize = 128 << 10;
/// What is read of a long body at its beginning and at its end. What is not in there is most often one string.
const SEGMENT_EDGE_BYTES: usize = 8 << 10;
/// A piece of a long body that is kept as it came. With it the buffer is kept that it came in, so shorter ones are copied:
/// no body takes more than four times its length.
const MIN_ZERO_COPY_CHUNK_BYTES: usize = MAX_READ_BYTES / 4;
/// Pieces that may be short; the others have so many bytes at least, or each would cost more than it has.
const MAX_SMALL_CHUNKS: usize = 16;
const SMALL_CHUNK_BYTES: usize = 4 << 10;

/// A body as it was taken.
#[derive(Debug)]
pub(crate) enum ReceivedBody {
    Whole(Bytes),
    /// With its middle apart; and the hash of what a caller wrote there, as far as it was begun.
    Segmented(Box<SegmentedText>, Option<Arc<StreamingDigest>>),
}

impl ReceivedBody {
    /// Reads it as a message of a caller.
    pub fn read(&self, limits: &JsonLimits) -> Result<ClientMessage<'_>, MessageError> {
        match self {
            Self::Whole(bytes) => read_client_message(bytes, limits),
            Self::Segmented(folded, _) => read_segmented_client_message(folded, limits),
        }
    }

    /// The whole of it in one piece.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Segmented(folded, _) => folded.into_string().into(),
        }
    }

    /// The same, borrowed.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Segmented(folded, _) => folded.as_str().as_bytes(),
        }
    }

    /// The same, where it is still needed as it is.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes.clone(),
            Self::Segmented(folded, _) => Bytes::copy_from_slice(folded.as_str().as_bytes()),
        }
    }

    /// The text; or without the middle of a long string, if it was folded there: it has all members and all short strings.
    pub fn outline(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Segmented(folded, _) => folded.outer_text().as_bytes(),
        }
    }
}

impl From<Bytes> for ReceivedBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl From<String> for ReceivedBody {
    fn from(text: String) -> Self {
        Self::Whole(text.into())
    }
}

/// The pieces that came. One that comes alone is not copied. Of others, those of a long body are kept as long as they can
/// be inside one string; else they are copied, at once, so that the buffers they came in can be used again.
#[derive(Debug)]
pub(crate) struct BodyBuffer {
    first: Bytes,
    copied_bytes: Vec<u8>,
    segmented: Option<Box<SegmentedBodyBuilder>>,
    side: BodySide,
}

/// Whose body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodySide {
    Client,
    Upstream,
}

/// A body of which the length is known.
#[derive(Debug)]
struct SegmentedBodyBuilder {
    expected_bytes: usize,
    before: Vec<u8>,
    middle: StringSegments,
    after: Vec<u8>,
    side: BodySide,
    streaming_digest: Option<StreamingDigest>,
}

impl BodyBuffer {
    pub fn for_client() -> Self {
        Self { first: Bytes::new(), copied_bytes: Vec::new(), segmented: None, side: BodySide::Client }
    }

    pub fn for_upstream() -> Self {
        Self { side: BodySide::Upstream, ..Self::for_client() }
    }

    /// Adds a piece of a body that will be as long as `expected`, as far as its head says.
    pub fn push(&mut self, piece: Bytes, expected: usize) {
        let received = self.len() + piece.len();
        if let Some(mut long) = self.segmented.take() {
            if long.expected_bytes == expected && long.push(&piece).is_ok() {
                self.segmented = Some(long);
            } else {
                self.copied_bytes = long.concatenate(expected.max(received));
                // What of the piece was taken before it was found unfit is copied as well.
                let consumed = self.copied_bytes.len() + piece.len() - received;
                self.copied_bytes.extend_from_slice(piece.get(consumed..).unwrap_or_default());
            }
            return;
        }
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.copied_bytes.is_empty() {
            let first = std::mem::take(&mut self.first);
            // If nobody says how long it is, it ends here, as far as anybody knows.
            if expected >= MIN_SEGMENTED_BODY_BYTES && expected > received {
                self.segmented = Some(Box::new(SegmentedBodyBuilder::new(expected, self.side)));
                self.push(first, expected);
                return self.push(piece, expected);
            }
            self.copied_bytes.reserve_exact(expected.max(received));
            self.copied_bytes.extend_from_slice(&first);
        }
        self.copied_bytes.extend_from_slice(&piece);
    }

    pub fn len(&self) -> usize {
        self.first.len() + self.copied_bytes.len() + self.segmented.as_ref().map_or(0, |long| long.len())
    }

    pub fn finish(self) -> ReceivedBody {
        match self.segmented {
            Some(long) => long.finish(),
            None if self.copied_bytes.is_empty() => ReceivedBody::Whole(self.first),
            None => ReceivedBody::Whole(self.copied_bytes.into()),
        }
    }
}

/// A piece that is not inside a string, or too many short ones.
struct SegmentError;

impl SegmentedBodyBuilder {
    fn new(expected_bytes: usize, side: BodySide) -> Self {
        let before = Vec::with_capacity(2 * SEGMENT_EDGE_BYTES);
        Self {
            expected_bytes,
            before,
            middle: StringSegments::default(),
            after: Vec::with_capacity(SEGMENT_EDGE_BYTES),
            side,
            streaming_digest: None,
        }
    }

    fn len(&self) -> usize {
        self.before.len() + self.middle.len() + self.after.len()
    }

    /// Adds a piece; or as much of it as can be, from its beginning.
    fn push(&mut self, piece: &Bytes) -> Result<(), SegmentError> {
        let at = self.len();
        let split = |offset: usize| offset.saturating_sub(at).min(piece.len());
        let (begin, end) = (split(SEGMENT_EDGE_BYTES), split(self.expected_bytes - SEGMENT_EDGE_BYTES));
        self.before.extend_from_slice(piece.get(..begin).unwrap_or_default());
        let middle = piece.get(begin..end).unwrap_or_default();
        if !middle.is_empty() {
            let is_kept = middle.len() >= MIN_ZERO_COPY_CHUNK_BYTES;
            if !is_kept && self.middle.chunks().len() >= MAX_SMALL_CHUNKS + self.middle.len() / SMALL_CHUNK_BYTES {
                return Err(SegmentError);
            }
            let middle = if is_kept { piece.slice(begin..end) } else { Bytes::copy_from_slice(middle) };
            if self.middle.is_empty() && self.side == BodySide::Client {
                self.streaming_digest = StreamingDigest::start_after(&self.before);
            }
            self.middle.push(middle.clone()).map_err(|_| SegmentError)?;
            if let Some(digest) = &mut self.streaming_digest {
                digest.update(&middle);
            }
        }
        self.after.extend_from_slice(piece.get(end..).unwrap_or_default());
        Ok(())
    }

    /// All in one piece, with room for more.
    fn concatenate(&self, expected: usize) -> Vec<u8> {
        let mut all = Vec::new();
        all.reserve_exact(expected);
        all.extend_from_slice(&self.before);
        self.middle.chunks().iter().for_each(|piece| all.extend_from_slice(piece));
        all.extend_from_slice(&self.after);
        all
    }

    fn finish(self) -> ReceivedBody {
        match SegmentedText::new(self.before, self.middle, &self.after) {
            Ok(folded) => ReceivedBody::Segmented(Box::new(folded), self.streaming_digest.map(Arc::new)),
            Err((before, middle)) => {
                let long = Self { before, middle, streaming_digest: None, ..self };
                ReceivedBody::Whole(long.concatenate(long.len()).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken of a body that comes in pieces of so many bytes.
    fn gathered(body: &[u8], piece: usize, mut gathered: BodyBuffer, has_length: bool) -> ReceivedBody {
        let mut received = 0;
        for piece in body.chunks(piece) {
            received += piece.len();
            gathered.push(Bytes::copy_from_slice(piece), if has_length { body.len() } else { received });
            assert_eq!(gathered.len(), received);
        }
        gathered.finish()
    }

    fn is_folded(consumed: &ReceivedBody) -> bool {
        matches!(consumed, ReceivedBody::Segmented(..))
    }

    #[test]
    fn a_body_is_taken_as_it_came_whatever_is_in_it() {
        let long = |inside: &str| format!(r#"{{"a":1,"long":"{}","b":2}}"#, inside.repeat(300_000 / inside.len()));
        let odd = [long("é"), long("\\n"), long("\\\""), long("\",\""), long("x") + "é", "é".to_owned() + &long("x")];
        for body in odd.iter().map(String::as_bytes).chain([&[0xff; 300_000][..], b"short", b""]) {
            for piece in [1, 999, 7_000, 16 << 10, 64 << 10, 100_001, 299_000, 400_000] {
                for has_length in [true, false] {
                    let of_caller = gathered(body, piece, BodyBuffer::for_client(), has_length).into_bytes();
                    let of_upstream = gathered(body, piece, BodyBuffer::for_upstream(), has_length).into_bytes();
                    assert!(of_caller == body && of_upstream == body, "{} bytes by {piece}", body.len());
                }
            }
        }
    }

    #[test]
    fn pieces_are_kept_where_they_are_inside_a_string_and_not_too_many() {
        let body = format!(r#"{{"a":1,"long":"{}","b":2}}"#, "x".repeat(1 << 20));
        let folds = |body: &str, piece, has_length| {
            is_folded(&gathered(body.as_bytes(), piece, BodyBuffer::for_client(), has_length))
        };
        assert!(folds(&body, 64 << 10, true) && folds(&body, 300_000, true));
        assert!(!folds(&body, 1_000, true), "each would cost more than it has");
        assert!(!folds(&body, 64 << 10, false), "nobody knows where it ends");
        assert!(!folds(&body.replace("xxxx", "x\",\""), 64 << 10, true), "there is no long string");
        assert!(!folds(r#"{"a":"x"}"#, 2, true), "it is short");
    }

    #[test]
    fn a_long_piece_is_not_copied_and_a_short_one_keeps_no_buffer() {
        let body = format!(r#"{{"long":"{}"}}"#, "x".repeat(400_000));
        let pieces: Vec<Bytes> = body.as_bytes().chunks(120_000).map(Bytes::copy_from_slice).collect();
        let kept = |mut gathered: BodyBuffer| {
            pieces.iter().for_each(|piece| gathered.push(piece.clone(), body.len()));
            let ReceivedBody::Segmented(folded, _) = gathered.finish() else { return Vec::new() };
            let is_kept = |own: &Bytes| pieces.iter().any(|piece| piece.as_ptr_range().contains(&own.as_ptr()));
            folded.parts().1.iter().map(is_kept).collect()
        };
        assert_eq!(kept(BodyBuffer::for_client()), [true, true, true, false]);
        assert_eq!(kept(BodyBuffer::for_upstream()), [true, true, true, false]);
    }
}
