//! A text on its way out.

use bytes::Bytes;

/// Shorter ones are copied: that costs less than another piece.
const SHORT: usize = 16 << 10;

/// A text in two pieces, the second behind the first: a long one need not be copied for what changes at its beginning.
#[derive(Debug, Clone, Default)]
pub(crate) struct Text {
    head: Bytes,
    rest: Bytes,
}

impl Text {
    pub fn in_two(head: String, rest: Bytes) -> Self {
        if rest.len() >= SHORT {
            return Self { head: head.into(), rest };
        }
        let mut whole = head.into_bytes();
        whole.extend_from_slice(&rest);
        Bytes::from(whole).into()
    }

    pub fn len(&self) -> usize {
        self.head.len() + self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole of it in one piece.
    pub fn whole(self) -> Bytes {
        match (self.head.is_empty(), self.rest.is_empty()) {
            (true, _) => self.rest,
            (_, true) => self.head,
            (false, false) => [self.head, self.rest].concat().into(),
        }
    }

    /// Takes from its beginning, at most so much; none at the end.
    pub fn next(&mut self, most: usize) -> Option<Bytes> {
        if self.head.is_empty() {
            self.head = std::mem::take(&mut self.rest);
        }
        let length = self.head.len().min(most);
        (length > 0).then(|| self.head.split_to(length))
    }
}

impl From<Bytes> for Text {
    fn from(head: Bytes) -> Self {
        Self { head, rest: Bytes::new() }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}
