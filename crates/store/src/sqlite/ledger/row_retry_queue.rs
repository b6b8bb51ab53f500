//! Rows that the database could not accept so far, oldest first, limited in number and size.

use std::collections::VecDeque;

use super::writer_request::AppendRequest;

/// Maximum number of pending rows.
const MAX_PENDING_ROWS: usize = 100_000;
/// Maximum total size of the bodies of pending rows.
const MAX_PENDING_BYTES: usize = 64 * 1024 * 1024;

/// The pending rows.
#[derive(Debug, Default)]
pub(super) struct RowRetryQueue {
    rows: VecDeque<AppendRequest>,
    /// Total size of the bodies.
    bytes: usize,
}

impl RowRetryQueue {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row that is newer than all others.
    pub fn push_back(&mut self, append: AppendRequest) {
        self.bytes += append.row.body.len();
        self.rows.push_back(append);
    }

    /// Puts back a row that is older than all others.
    pub fn push_front(&mut self, append: AppendRequest) {
        self.bytes += append.row.body.len();
        self.rows.push_front(append);
    }

    /// Removes the oldest row.
    pub fn pop_front(&mut self) -> Option<AppendRequest> {
        let append = self.rows.pop_front()?;
        self.bytes -= append.row.body.len();
        Some(append)
    }

    /// Drops the newest rows beyond the limits, and returns their number.
    pub fn trim(&mut self) -> u64 {
        let mut lost = 0;
        while (self.rows.len() > MAX_PENDING_ROWS || self.bytes > MAX_PENDING_BYTES)
            && let Some(append) = self.rows.pop_back()
        {
            self.bytes -= append.row.body.len();
            lost += 1;
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::writer_request::EncodedRow;
    use super::*;

    fn row(bytes: usize) -> AppendRequest {
        AppendRequest { row: EncodedRow { at: 0, body: "x".repeat(bytes) }, refunds: Vec::new() }
    }

    #[test]
    fn large_rows_are_limited_by_size_and_small_ones_by_number() {
        let mut pending = RowRetryQueue::default();
        (0..100).for_each(|_| pending.push_back(row(MAX_PENDING_BYTES / 64)));
        assert_eq!((pending.trim(), pending.len()), (36, 64));
        assert_eq!(pending.trim(), 0);
        while pending.pop_front().is_some() {}
        assert_eq!(pending.bytes, 0);
        (0..MAX_PENDING_ROWS + 5).for_each(|_| pending.push_front(row(1)));
        assert_eq!((pending.trim(), pending.len()), (5, MAX_PENDING_ROWS));
    }
}
