//! The hash chain of a log: each row's hash covers the row and the hash before it.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash(pub [u8; 32]);

impl Hash {
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

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// The end of a chain: the last row and its hash. Whoever keeps it elsewhere can tell later that nothing before it
/// was changed. Written as `SEQ:HASH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Head {
    /// The number of the last row; 0 for an empty log.
    pub seq: u64,
    /// Its hash.
    pub hash: Hash,
}

impl Head {
    /// The head of an empty log.
    pub const EMPTY: Self = Self { seq: 0, hash: Hash::ZERO };

    /// The end after one more row.
    pub(crate) fn followed_by(&self, at: i64, body: &str) -> Self {
        let seq = self.seq + 1;
        Self { seq, hash: self.hash.next(seq, at, body) }
    }
}

/// A text that is no head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a head is written as a number, a colon and 64 hexadecimal digits")]
pub struct ParseHeadError;

impl FromStr for Head {
    type Err = ParseHeadError;

    fn from_str(text: &str) -> Result<Self, ParseHeadError> {
        let (seq, hash) = text.trim().split_once(':').ok_or(ParseHeadError)?;
        let bytes = HEXLOWER.decode(hash.as_bytes()).map_err(|_| ParseHeadError)?;
        let hash = Hash(bytes.try_into().map_err(|_| ParseHeadError)?);
        Ok(Self { seq: seq.parse().map_err(|_| ParseHeadError)?, hash })
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl TryFrom<String> for Head {
    type Error = ParseHeadError;

    fn try_from(text: String) -> Result<Self, ParseHeadError> {
        text.parse()
    }
}

impl From<Head> for String {
    fn from(head: Head) -> Self {
        head.to_string()
    }
}

/// Where a chain does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Break {
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
    Changed {
        /// Which row.
        seq: u64,
    },
    /// Rows that were there are gone from the end.
    #[error("the log ends at row {end}, but it once had row {known}: its end was cut off")]
    Cut {
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
pub(crate) struct Walk {
    end: Head,
    known: Vec<Head>,
}

impl Walk {
    /// Starts behind `anchor`, and holds the rows against heads that were kept elsewhere.
    pub fn from(anchor: Head, known: Vec<Head>) -> Result<Self, Break> {
        let walk = Self { end: anchor, known };
        walk.hold()?;
        Ok(walk)
    }

    /// Takes the next row.
    pub fn step(&mut self, seq: u64, at: i64, body: &str, hash: Hash) -> Result<(), Break> {
        let expected = self.end.seq + 1;
        if seq != expected {
            return Err(Break::Gap { expected, found: seq });
        }
        if self.end.hash.next(seq, at, body) != hash {
            return Err(Break::Changed { seq });
        }
        self.end = Head { seq, hash };
        self.hold()
    }

    fn hold(&self) -> Result<(), Break> {
        let differs = |head: &&Head| head.seq == self.end.seq && head.hash != self.end.hash;
        match self.known.iter().find(differs) {
            Some(head) => Err(Break::Rewritten { seq: head.seq }),
            None => Ok(()),
        }
    }

    /// Ends the walk: whatever is known to have been there must have come by.
    pub fn finish(self) -> Result<Head, Break> {
        match self.known.iter().map(|head| head.seq).max() {
            Some(known) if known > self.end.seq => Err(Break::Cut { end: self.end.seq, known }),
            _ => Ok(self.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(bodies: &[&str]) -> Vec<(u64, i64, String, Hash)> {
        let mut rows = Vec::new();
        let mut hash = Hash::ZERO;
        for (seq, body) in (1..).zip(bodies) {
            hash = hash.next(seq, 7, body);
            rows.push((seq, 7, (*body).to_owned(), hash));
        }
        rows
    }

    fn walk(rows: &[(u64, i64, String, Hash)], known: Vec<Head>) -> Result<Head, Break> {
        let mut walk = Walk::from(Head::EMPTY, known)?;
        for (seq, at, body, hash) in rows {
            walk.step(*seq, *at, body, *hash)?;
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
        assert_eq!(walk(&changed, vec![]), Err(Break::Changed { seq: 2 }));
        let mut later = rows.clone();
        later[1].1 = 8;
        assert_eq!(walk(&later, vec![]), Err(Break::Changed { seq: 2 }));
        let dropped = [rows[0].clone(), rows[2].clone()];
        assert_eq!(walk(&dropped, vec![]), Err(Break::Gap { expected: 2, found: 3 }));
        let swapped = [rows[1].clone(), rows[0].clone(), rows[2].clone()];
        assert_eq!(walk(&swapped, vec![]), Err(Break::Gap { expected: 1, found: 2 }));
        assert_eq!(walk(&rows[..2], vec![head]), Err(Break::Cut { end: 2, known: 3 }));
        let other = chain(&["a", "b", "d"]);
        assert_eq!(walk(&other, vec![head]), Err(Break::Rewritten { seq: 3 }));
        assert!(walk(&rows, vec![head, Head::EMPTY]).is_ok());
    }
}
