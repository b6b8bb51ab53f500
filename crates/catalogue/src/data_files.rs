//! Names of the catalogue's files in the data directory. Programs that read or write them take the names from here.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The active index.
pub const INDEX_FILE: &str = "index.glx";
/// Change events of all index updates, one per line.
pub const CHANGES_FILE: &str = "catalogue-changes.jsonl";

/// Returns the identity of an index file: the first 16 hexadecimal digits of its SHA-256.
pub fn index_hash(index: &[u8]) -> String {
    HEXLOWER.encode(Sha256::digest(index).get(..8).unwrap_or_default())
}

/// Returns the file of change events that replaces [`CHANGES_FILE`] once the index with this hash is active.
pub fn pending_changes_file(hash: &str) -> String {
    format!("{CHANGES_FILE}.for-{hash}")
}
