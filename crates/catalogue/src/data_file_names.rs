//! Names of the catalogue's files in the data directory. All programs that read or write these files use these names.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Name of the file that contains the index in use.
pub const INDEX_FILE: &str = "index.glx";
/// Name of the file that contains the change events from all index updates, one per line.
pub const CHANGES_FILE: &str = "catalogue-changes.jsonl";

/// Returns the hash that identifies an index file: the first 16 hexadecimal digits of its SHA-256.
pub fn index_hash(index: &[u8]) -> String {
    HEXLOWER.encode(Sha256::digest(index).get(..8).unwrap_or_default())
}

/// Returns the name of the file that holds the new content of [`CHANGES_FILE`] until the index with this hash is in
/// use.
pub fn pending_changes_file(hash: &str) -> String {
    format!("{CHANGES_FILE}.for-{hash}")
}
