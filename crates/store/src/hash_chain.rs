//! The hash chain of a log: each row's hash covers the row and the hash before it.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowHash(pub [u8; 32]);

impl RowHash {
    /// What stands before the first row.
    pub const ZERO: Self = Self([0; 32]);

    /// The hash of a row that follows the one with this hash.
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

/// The end of a chain: the last row and its hash. Whoever keeps it elsewhere can tell later that nothing before it
/// was changed. Written as `SEQ:HASH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChainHead {
    /// The number of the last row; 0 for an empty log.
    pub seq: u64,
    /// Its hash.
    pub hash: RowHash,
}

impl ChainHead {
    /// The head of an empty log.
    pub const EMPTY: Self = Self { seq: 0, hash: RowHash::ZERO };

    /// The end after one more row.
    pub(crate) fn next(&self, at: i64, body: &str) -> Self {
        let seq = self.seq + 1;
        Self { seq, hash: self.hash.next(seq, at, body) }
    }
}

/// A text that is no head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a head is written as a number, a colon and 64 hexadecimal digits")]
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

/// Where a chain does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    /// A row is missing, or two have changed places.
    #[error("row {expected} is missing: row {found} stands in its place")]
    Gap {
        /// The row that should be here.
        expected: u64,
        /// The one that is.
        found: u64,
    },
    /// The row, or the hash of the one before it, is not what it was when it was written.
    #[error("row {seq} was changed after it was written")]
    Modified {
        /// Which row.
        seq: u64,
    },
    /// Rows that were there are gone from the end.
    #[error("the log ends at row {end}, but it once had row {known}: its end was cut off")]
    Truncated {
        /// The last row.
        end: u64,
        /// A row that was there.
        known: u64,
    },
    /// A row has another hash than a head that was kept says.
    #[error("row {seq} has another hash than the kept head says: the log was written anew")]
    Rewritten {
        /// Which row.
        seq: u64,
    },
}

/// Walks a chain, row by row.
#[derive(Debug)]
pub(crate) struct ChainVerifier {
    head: ChainHead,
    known_heads: Vec<ChainHead>,
}

impl ChainVerifier {
    /// Starts behind `anchor`, and holds the rows against heads that were kept elsewhere.
    pub fn start(anchor: ChainHead, known: Vec<ChainHead>) -> Result<Self, ChainBreak> {
        let walk = Self { head: anchor, known_heads: known };
        walk.check_known_heads()?;
        Ok(walk)
    }

    /// Takes the next row.
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

    /// Ends the walk: whatever is known to have been there must have come by.
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

    fn walk(rows: &[(u64, i64, String, RowHash)], known: Vec<ChainHead>) -> Result<ChainHead, ChainBreak> {
        let mut walk = ChainVerifier::start(ChainHead::EMPTY, known)?;
        for (seq, at, body, hash) in rows {
            walk.verify_row(*seq, *at, body, *hash)?;
        }
        walk.finish()
    }

    #[test]
    fn whatever_is_done_to_a_row_is_found() {
        let rows = chain(&["a", "b", "c"]);
        let head = walk(&rows, vec![]).expect("a whole chain");
        assert_eq!(head.to_string().parse(), Ok(head));

        let mut changed = rows.clone();
        changed[1].2 = "B".into();
        assert_eq!(walk(&changed, vec![]), Err(ChainBreak::Modified { seq: 2 }));
        let mut later = rows.clone();
        later[1].1 = 8;
        assert_eq!(walk(&later, vec![]), Err(ChainBreak::Modified { seq: 2 }));
        let dropped = [rows[0].clone(), rows[2].clone()];
        assert_eq!(walk(&dropped, vec![]), Err(ChainBreak::Gap { expected: 2, found: 3 }));
        let swapped = [rows[1].clone(), rows[0].clone(), rows[2].clone()];
        assert_eq!(walk(&swapped, vec![]), Err(ChainBreak::Gap { expected: 1, found: 2 }));
        assert_eq!(walk(&rows[..2], vec![head]), Err(ChainBreak::Truncated { end: 2, known: 3 }));
        let other = chain(&["a", "b", "d"]);
        assert_eq!(walk(&other, vec![head]), Err(ChainBreak::Rewritten { seq: 3 }));
        assert!(walk(&rows, vec![head, ChainHead::EMPTY]).is_ok());
    }
}
