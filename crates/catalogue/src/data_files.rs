//! Names of the catalogue's files in the data directory. Programs that read or write them take the names from here.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The index in use.
pub const INDEX_FILE: &str = "index.glx";
/// The change events of all updates of the index, one per line.
pub const CHANGES_FILE: &str = "catalogue-changes.jsonl";

/// The identity of an index file: the first 16 hexadecimal digits of its SHA-256.
pub fn index_hash(index: &[u8]) -> String {
    HEXLOWER.encode(Sha256::digest(index).get(..8).unwrap_or_default())
}

/// The change events that replace [`CHANGES_FILE`] once the index with this hash is in use.
pub fn pending_changes_file(hash: &str) -> String {
    format!("{CHANGES_FILE}.for-{hash}")
}
