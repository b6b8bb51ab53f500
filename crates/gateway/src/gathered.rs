//! A body that is put together as it comes.

use bytes::Bytes;

/// The pieces that came. One that comes alone is not copied; others are, at once, so that the buffers they came in can be
/// used again.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    first: Bytes,
    all: Vec<u8>,
}

impl Gathered {
    /// Adds a piece of a body that will be as long as `expected`, as far as its head says.
    pub fn push(&mut self, piece: Bytes, expected: usize) {
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve_exact(expected.max(self.first.len() + piece.len()));
            self.all.extend_from_slice(&self.first);
            self.first = Bytes::new();
        }
        self.all.extend_from_slice(&piece);
    }

    pub fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    pub fn whole(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}
