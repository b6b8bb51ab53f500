//! Errors of store operations.

/// An error from a store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, or is full, locked or read-only. A retry may succeed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The object does not exist.
    #[error("there is no {0}")]
    NotFound(String),
    /// The object already exists, or another object refers to it.
    #[error("{0}")]
    Conflict(String),
    /// Stored data cannot be read. An operator must repair it.
    #[error("stored data is corrupt: {0}")]
    Corrupt(String),
}
