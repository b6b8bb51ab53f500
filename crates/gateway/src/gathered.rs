//! A body that is put together as it comes, as far as it must be.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_json::{JsonLimits, SegmentedText, StringSegments};
use gatelodge_mcp::{ClientMessage, MessageError, read_client_message, read_segmented_client_message};

use crate::digest::Begun;
use crate::http::listener::MAX_READ_BYTES;

/// Shorter bodies are copied: that costs less than to keep pieces.
const LONG: usize = 128 << 10;
/// What is read of a long body at its beginning and at its end. What is not in there is most often one string.
const EDGE: usize = 8 << 10;
/// A piece of a long body that is kept as it came. With it the buffer is kept that it came in, so shorter ones are copied:
/// no body takes more than four times its length.
const KEPT: usize = MAX_READ_BYTES / 4;
/// Pieces that may be short; the others have so many bytes at least, or each would cost more than it has.
const FEW: usize = 16;
const SHORT: usize = 4 << 10;

/// A body as it was taken.
#[derive(Debug)]
pub(crate) enum Taken {
    Whole(Bytes),
    /// With its middle apart; and the hash of what a caller wrote there, as far as it was begun.
    Folded(Box<SegmentedText>, Option<Arc<Begun>>),
}

impl Taken {
    /// Reads it as a message of a caller.
    pub fn read(&self, limits: &JsonLimits) -> Result<ClientMessage<'_>, MessageError> {
        match self {
            Self::Whole(bytes) => read_client_message(bytes, limits),
            Self::Folded(folded, _) => read_segmented_client_message(folded, limits),
        }
    }

    /// The whole of it in one piece.
    pub fn whole(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Folded(folded, _) => folded.into_string().into(),
        }
    }

    /// The same, borrowed.
    pub fn text(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Folded(folded, _) => folded.as_str().as_bytes(),
        }
    }

    /// The same, where it is still needed as it is.
    pub fn copied(&self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes.clone(),
            Self::Folded(folded, _) => Bytes::copy_from_slice(folded.as_str().as_bytes()),
        }
    }

    /// The text; or without the middle of a long string, if it was folded there: it has all members and all short strings.
    pub fn outline(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Folded(folded, _) => folded.outer_text().as_bytes(),
        }
    }
}

impl From<Bytes> for Taken {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl From<String> for Taken {
    fn from(text: String) -> Self {
        Self::Whole(text.into())
    }
}

/// The pieces that came. One that comes alone is not copied. Of others, those of a long body are kept as long as they can
/// be inside one string; else they are copied, at once, so that the buffers they came in can be used again.
#[derive(Debug)]
pub(crate) struct Gathered {
    first: Bytes,
    all: Vec<u8>,
    long: Option<Box<Long>>,
    of: Whose,
}

/// Whose body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Caller,
    Upstream,
}

/// A body of which the length is known.
#[derive(Debug)]
struct Long {
    expected: usize,
    before: Vec<u8>,
    middle: StringSegments,
    behind: Vec<u8>,
    of: Whose,
    begun: Option<Begun>,
}

impl Gathered {
    pub fn of_caller() -> Self {
        Self { first: Bytes::new(), all: Vec::new(), long: None, of: Whose::Caller }
    }

    pub fn of_upstream() -> Self {
        Self { of: Whose::Upstream, ..Self::of_caller() }
    }

    /// Adds a piece of a body that will be as long as `expected`, as far as its head says.
    pub fn push(&mut self, piece: Bytes, expected: usize) {
        let came = self.len() + piece.len();
        if let Some(mut long) = self.long.take() {
            if long.expected == expected && long.push(&piece).is_ok() {
                self.long = Some(long);
            } else {
                self.all = long.copied(expected.max(came));
                // What of the piece was taken before it was found unfit is copied as well.
                let taken = self.all.len() + piece.len() - came;
                self.all.extend_from_slice(piece.get(taken..).unwrap_or_default());
            }
            return;
        }
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.all.is_empty() {
            let first = std::mem::take(&mut self.first);
            // If nobody says how long it is, it ends here, as far as anybody knows.
            if expected >= LONG && expected > came {
                self.long = Some(Box::new(Long::new(expected, self.of)));
                self.push(first, expected);
                return self.push(piece, expected);
            }
            self.all.reserve_exact(expected.max(came));
            self.all.extend_from_slice(&first);
        }
        self.all.extend_from_slice(&piece);
    }

    pub fn len(&self) -> usize {
        self.first.len() + self.all.len() + self.long.as_ref().map_or(0, |long| long.len())
    }

    pub fn taken(self) -> Taken {
        match self.long {
            Some(long) => long.taken(),
            None if self.all.is_empty() => Taken::Whole(self.first),
            None => Taken::Whole(self.all.into()),
        }
    }
}

/// A piece that is not inside a string, or too many short ones.
struct Unfit;

impl Long {
    fn new(expected: usize, of: Whose) -> Self {
        let before = Vec::with_capacity(2 * EDGE);
        Self { expected, before, middle: StringSegments::default(), behind: Vec::with_capacity(EDGE), of, begun: None }
    }

    fn len(&self) -> usize {
        self.before.len() + self.middle.len() + self.behind.len()
    }

    /// Adds a piece; or as much of it as can be, from its beginning.
    fn push(&mut self, piece: &Bytes) -> Result<(), Unfit> {
        let at = self.len();
        let split = |offset: usize| offset.saturating_sub(at).min(piece.len());
        let (begin, end) = (split(EDGE), split(self.expected - EDGE));
        self.before.extend_from_slice(piece.get(..begin).unwrap_or_default());
        let middle = piece.get(begin..end).unwrap_or_default();
        if !middle.is_empty() {
            let is_kept = middle.len() >= KEPT;
            if !is_kept && self.middle.chunks().len() >= FEW + self.middle.len() / SHORT {
                return Err(Unfit);
            }
            let middle = if is_kept { piece.slice(begin..end) } else { Bytes::copy_from_slice(middle) };
            if self.middle.is_empty() && self.of == Whose::Caller {
                self.begun = Begun::after(&self.before);
            }
            self.middle.push(middle.clone()).map_err(|_| Unfit)?;
            if let Some(begun) = &mut self.begun {
                begun.update(&middle);
            }
        }
        self.behind.extend_from_slice(piece.get(end..).unwrap_or_default());
        Ok(())
    }

    /// All in one piece, with room for more.
    fn copied(&self, expected: usize) -> Vec<u8> {
        let mut all = Vec::new();
        all.reserve_exact(expected);
        all.extend_from_slice(&self.before);
        self.middle.chunks().iter().for_each(|piece| all.extend_from_slice(piece));
        all.extend_from_slice(&self.behind);
        all
    }

    fn taken(self) -> Taken {
        match SegmentedText::new(self.before, self.middle, &self.behind) {
            Ok(folded) => Taken::Folded(Box::new(folded), self.begun.map(Arc::new)),
            Err((before, middle)) => {
                let long = Self { before, middle, begun: None, ..self };
                Taken::Whole(long.copied(long.len()).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken of a body that comes in pieces of so many bytes.
    fn gathered(body: &[u8], piece: usize, mut gathered: Gathered, has_length: bool) -> Taken {
        let mut came = 0;
        for piece in body.chunks(piece) {
            came += piece.len();
            gathered.push(Bytes::copy_from_slice(piece), if has_length { body.len() } else { came });
            assert_eq!(gathered.len(), came);
        }
        gathered.taken()
    }

    fn is_folded(taken: &Taken) -> bool {
        matches!(taken, Taken::Folded(..))
    }

    #[test]
    fn a_body_is_taken_as_it_came_whatever_is_in_it() {
        let long = |inside: &str| format!(r#"{{"a":1,"long":"{}","b":2}}"#, inside.repeat(300_000 / inside.len()));
        let odd = [long("é"), long("\\n"), long("\\\""), long("\",\""), long("x") + "é", "é".to_owned() + &long("x")];
        for body in odd.iter().map(String::as_bytes).chain([&[0xff; 300_000][..], b"short", b""]) {
            for piece in [1, 999, 7_000, 16 << 10, 64 << 10, 100_001, 299_000, 400_000] {
                for has_length in [true, false] {
                    let of_caller = gathered(body, piece, Gathered::of_caller(), has_length).whole();
                    let of_upstream = gathered(body, piece, Gathered::of_upstream(), has_length).whole();
                    assert!(of_caller == body && of_upstream == body, "{} bytes by {piece}", body.len());
                }
            }
        }
    }

    #[test]
    fn pieces_are_kept_where_they_are_inside_a_string_and_not_too_many() {
        let body = format!(r#"{{"a":1,"long":"{}","b":2}}"#, "x".repeat(1 << 20));
        let folds = |body: &str, piece, has_length| {
            is_folded(&gathered(body.as_bytes(), piece, Gathered::of_caller(), has_length))
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
        let kept = |mut gathered: Gathered| {
            pieces.iter().for_each(|piece| gathered.push(piece.clone(), body.len()));
            let Taken::Folded(folded, _) = gathered.taken() else { return Vec::new() };
            let is_kept = |own: &Bytes| pieces.iter().any(|piece| piece.as_ptr_range().contains(&own.as_ptr()));
            folded.parts().1.iter().map(is_kept).collect()
        };
        assert_eq!(kept(Gathered::of_caller()), [true, true, true, false]);
        assert_eq!(kept(Gathered::of_upstream()), [true, true, true, false]);
    }
}
