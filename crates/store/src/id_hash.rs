//! Hashes of ids that others gave or were given: what is kept of them, so that who reads the store cannot use them.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The hash by which a session or a task is found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdHash([u8; 32]);

impl IdHash {
    /// The hash of an id, and of whatever it takes to tell it from others like it.
    pub fn of(parts: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            // With its length, so that no two lists of parts are one text.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        Self(hasher.finalize().into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A hash that was kept.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for IdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for IdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        assert_eq!(IdHash::of(&["a", "b"]), IdHash::of(&["a", "b"]));
        assert_ne!(IdHash::of(&["ab"]), IdHash::of(&["a", "b"]));
        assert_ne!(IdHash::of(&["a", ""]), IdHash::of(&["", "a"]));
    }
}
