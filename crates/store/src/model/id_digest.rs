//! Hashes of session and task ids. Only the hash is stored, so that someone who can read the store cannot use the ids.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The hash under which a session or task is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdDigest([u8; 32]);

impl IdDigest {
    /// Hashes an id, together with any other values that are needed to make it unique, such as the name of its server.
    pub fn of(parts: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            // Each part is prefixed by its length, so that different lists of parts never have the same input.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        Self(hasher.finalize().into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Creates a hash from its stored form.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for IdDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for IdDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_parts_have_different_hashes() {
        assert_eq!(IdDigest::of(&["a", "b"]), IdDigest::of(&["a", "b"]));
        assert_ne!(IdDigest::of(&["ab"]), IdDigest::of(&["a", "b"]));
        assert_ne!(IdDigest::of(&["a", ""]), IdDigest::of(&["", "a"]));
    }
}
