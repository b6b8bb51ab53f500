//! The hash chain of a log: each row's hash covers the row and the preceding hash.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A SHA-256 hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowHash(pub [u8; 32]);

impl RowHash {
    /// The hash that precedes the first row.
    pub const ZERO: Self = Self([0; 32]);

    /// Returns the hash of the next row, which covers that row and this hash.
    pub(crate) fn next(&self, seq: u64, at: i64, body: &str) -> Self {
        let mut digest = Sha256::new();
        digest.update(self.0);
        digest.update(seq.to_be_bytes());
        digest.update(at.to_be_bytes());
        digest.update(body.as_bytes());
        Self(digest.finalize().into())
    }
}

impl fmt::Display for RowHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// Head of a hash chain: the number and hash of the newest row. A copy kept elsewhere can later prove that no earlier
/// row was changed. Written as `SEQ:HASH`.
///
/// ```
/// use gatelodge_store::ChainHead;
///
/// let text = ChainHead::EMPTY.to_string();
/// assert_eq!(text, format!("0:{}", "0".repeat(64)));
/// assert_eq!(text.parse(), Ok(ChainHead::EMPTY));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChainHead {
    /// Sequence number of the newest row; 0 for an empty log.
    pub seq: u64,
    /// Hash of the newest row.
    pub hash: RowHash,
}

impl ChainHead {
    /// The head of an empty log.
    pub const EMPTY: Self = Self { seq: 0, hash: RowHash::ZERO };

    /// Returns the head after one more row.
    pub(crate) fn next(&self, at: i64, body: &str) -> Self {
        let seq = self.seq + 1;
        Self { seq, hash: self.hash.next(seq, at, body) }
    }
}

/// Error returned when a string is not a valid `SEQ:HASH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chain head consists of a number, a colon and 64 hexadecimal digits")]
pub struct ParseChainHeadError;

impl FromStr for ChainHead {
    type Err = ParseChainHeadError;

    fn from_str(text: &str) -> Result<Self, ParseChainHeadError> {
        let (seq, hash) = text.trim().split_once(':').ok_or(ParseChainHeadError)?;
        let bytes = HEXLOWER.decode(hash.as_bytes()).map_err(|_| ParseChainHeadError)?;
        let hash = RowHash(bytes.try_into().map_err(|_| ParseChainHeadError)?);
        Ok(Self { seq: seq.parse().map_err(|_| ParseChainHeadError)?, hash })
    }
}

impl fmt::Display for ChainHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl TryFrom<String> for ChainHead {
    type Error = ParseChainHeadError;

    fn try_from(text: String) -> Result<Self, ParseChainHeadError> {
        text.parse()
    }
}

impl From<ChainHead> for String {
    fn from(head: ChainHead) -> Self {
        head.to_string()
    }
}

/// The first inconsistency in a hash chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    /// A row is missing, or two rows were swapped.
    #[error("row {expected} is missing: row {found} is in its place")]
    Gap {
        /// The expected sequence number.
        expected: u64,
        /// The sequence number that was found.
        found: u64,
    },
    /// The row or the preceding hash was changed after it was written.
    #[error("row {seq} was changed after it was written")]
    Modified {
        /// Sequence number of the row.
        seq: u64,
    },
    /// Rows are missing from the end.
    #[error("the log ends at row {end}, but a known head has row {known}: rows were removed from its end")]
    Truncated {
        /// Sequence number of the last row.
        end: u64,
        /// Sequence number of the known head.
        known: u64,
    },
    /// The hash of a row differs from the hash in a known head.
    #[error("the hash of row {seq} differs from the known head: the log was rewritten")]
    Rewritten {
        /// Sequence number of the row.
        seq: u64,
    },
}

/// Verifies a chain row by row.
#[derive(Debug)]
pub(crate) struct ChainVerifier {
    head: ChainHead,
    known_heads: Vec<ChainHead>,
}

impl ChainVerifier {
    /// Starts a verification after `anchor`. The rows are also compared with heads known from elsewhere.
    pub fn start(anchor: ChainHead, known: Vec<ChainHead>) -> Result<Self, ChainBreak> {
        let verifier = Self { head: anchor, known_heads: known };
        verifier.check_known_heads()?;
        Ok(verifier)
    }

    /// Verifies the next row.
    pub fn verify_row(&mut self, seq: u64, at: i64, body: &str, hash: RowHash) -> Result<(), ChainBreak> {
        let expected = self.head.seq + 1;
        if seq != expected {
            return Err(ChainBreak::Gap { expected, found: seq });
        }
        if self.head.hash.next(seq, at, body) != hash {
            return Err(ChainBreak::Modified { seq });
        }
        self.head = ChainHead { seq, hash };
        self.check_known_heads()
    }

    fn check_known_heads(&self) -> Result<(), ChainBreak> {
        let differs = |head: &&ChainHead| head.seq == self.head.seq && head.hash != self.head.hash;
        match self.known_heads.iter().find(differs) {
            Some(head) => Err(ChainBreak::Rewritten { seq: head.seq }),
            None => Ok(()),
        }
    }

    /// Ends the verification and checks that every known head was reached.
    pub fn finish(self) -> Result<ChainHead, ChainBreak> {
        match self.known_heads.iter().map(|head| head.seq).max() {
            Some(known) if known > self.head.seq => Err(ChainBreak::Truncated { end: self.head.seq, known }),
            _ => Ok(self.head),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(bodies: &[&str]) -> Vec<(u64, i64, String, RowHash)> {
        let mut rows = Vec::new();
        let mut hash = RowHash::ZERO;
        for (seq, body) in (1..).zip(bodies) {
            hash = hash.next(seq, 7, body);
            rows.push((seq, 7, (*body).to_owned(), hash));
        }
        rows
    }

    fn verify(rows: &[(u64, i64, String, RowHash)], known: Vec<ChainHead>) -> Result<ChainHead, ChainBreak> {
        let mut verifier = ChainVerifier::start(ChainHead::EMPTY, known)?;
        for (seq, at, body, hash) in rows {
            verifier.verify_row(*seq, *at, body, *hash)?;
        }
        verifier.finish()
    }

    #[test]
    fn any_tampering_with_a_row_is_found() {
        let rows = chain(&["a", "b", "c"]);
        let head = verify(&rows, vec![]).expect("a whole chain");
        assert_eq!(head.to_string().parse(), Ok(head));

        let mut changed = rows.clone();
        changed[1].2 = "B".into();
        assert_eq!(verify(&changed, vec![]), Err(ChainBreak::Modified { seq: 2 }));
        let mut later = rows.clone();
        later[1].1 = 8;
        assert_eq!(verify(&later, vec![]), Err(ChainBreak::Modified { seq: 2 }));
        let dropped = [rows[0].clone(), rows[2].clone()];
        assert_eq!(verify(&dropped, vec![]), Err(ChainBreak::Gap { expected: 2, found: 3 }));
        let swapped = [rows[1].clone(), rows[0].clone(), rows[2].clone()];
        assert_eq!(verify(&swapped, vec![]), Err(ChainBreak::Gap { expected: 1, found: 2 }));
        assert_eq!(verify(&rows[..2], vec![head]), Err(ChainBreak::Truncated { end: 2, known: 3 }));
        let other = chain(&["a", "b", "d"]);
        assert_eq!(verify(&other, vec![head]), Err(ChainBreak::Rewritten { seq: 3 }));
        assert!(verify(&rows, vec![head, ChainHead::EMPTY]).is_ok());
    }
}
