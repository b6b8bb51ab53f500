//! Rows that a database could not take yet, oldest first: bounded by their number and by their size.

use std::collections::VecDeque;

use super::writer_request::AppendRequest;

/// The most rows that are kept for a database that cannot take them.
const MAX_PENDING_ROWS: usize = 100_000;
/// The most bytes that their texts may have together.
const MAX_PENDING_BYTES: usize = 64 * 1024 * 1024;

/// What waits.
#[derive(Debug, Default)]
pub(super) struct PendingRows {
    rows: VecDeque<AppendRequest>,
    /// The sum of their texts.
    bytes: usize,
}

impl PendingRows {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds the newest.
    pub fn push_back(&mut self, keep: AppendRequest) {
        self.bytes += keep.row.body.len();
        self.rows.push_back(keep);
    }

    /// Puts one back that is older than all others.
    pub fn push_front(&mut self, keep: AppendRequest) {
        self.bytes += keep.row.body.len();
        self.rows.push_front(keep);
    }

    /// Takes the oldest out.
    pub fn pop_front(&mut self) -> Option<AppendRequest> {
        let keep = self.rows.pop_front()?;
        self.bytes -= keep.row.body.len();
        Some(keep)
    }

    /// Drops the newest beyond the bounds, and tells how many.
    pub fn trim(&mut self) -> u64 {
        let mut lost = 0;
        while (self.rows.len() > MAX_PENDING_ROWS || self.bytes > MAX_PENDING_BYTES)
            && let Some(keep) = self.rows.pop_back()
        {
            self.bytes -= keep.row.body.len();
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
    fn few_big_rows_are_as_bounded_as_many_small_ones() {
        let mut pending = PendingRows::default();
        (0..100).for_each(|_| pending.push_back(row(MAX_PENDING_BYTES / 64)));
        assert_eq!((pending.trim(), pending.len()), (36, 64));
        assert_eq!(pending.trim(), 0);
        while pending.pop_front().is_some() {}
        assert_eq!(pending.bytes, 0);
        (0..MAX_PENDING_ROWS + 5).for_each(|_| pending.push_front(row(1)));
        assert_eq!((pending.trim(), pending.len()), (5, MAX_PENDING_ROWS));
    }
}
