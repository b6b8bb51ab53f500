//! Verification of a whole log: counts the rows, and finds the head and the first break in the chain.

use std::path::PathBuf;

use super::hash_chain::{ChainBreak, ChainHead, ChainVerifier, RowHash};
use super::prune_record::find_pruned_head;

/// Result of verifying a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// Number of verified rows.
    pub rows: u64,
    /// Head of the valid part of the chain: the last row before the break, or the newest row if there is no break.
    pub head: ChainHead,
    /// The first break in the chain, if any.
    pub chain_break: Option<ChainBreak>,
    /// Marker file written when a log with rows had no head file, in which case a truncation could not be detected. It
    /// stays until an operator removes it.
    pub missing_head_marker: Option<PathBuf>,
}

/// A verification in progress.
#[derive(Debug)]
pub(crate) struct ChainVerification {
    verifier: Option<ChainVerifier>,
    anchor: ChainHead,
    head: ChainHead,
    row_count: u64,
    chain_break: Option<ChainBreak>,
    /// The last pruned row, according to the newest row that records a pruning.
    pruned_through: ChainHead,
}

impl ChainVerification {
    /// Starts a verification after the anchor (the last pruned row). The rows are also compared with the heads in
    /// `known`.
    pub fn start(anchor: ChainHead, known: Vec<ChainHead>) -> Self {
        let (verifier, chain_break) = match ChainVerifier::start(anchor, known) {
            Ok(verifier) => (Some(verifier), None),
            Err(broken) => (None, Some(broken)),
        };
        Self { verifier, anchor, head: anchor, row_count: 0, chain_break, pruned_through: ChainHead::EMPTY }
    }

    /// Verifies the next row. Returns `false` if the chain is broken; the remaining rows then need not be verified.
    pub fn verify_row(&mut self, seq: u64, at: i64, body: &str, hash: RowHash) -> bool {
        let Some(verifier) = &mut self.verifier else { return false };
        match verifier.verify_row(seq, at, body, hash) {
            Ok(()) => {
                self.row_count += 1;
                self.head = ChainHead { seq, hash };
                true
            }
            Err(broken) => self.record_break(broken),
        }
    }

    /// Verifies the next row of the call log. If it records a pruning, remembers the last pruned row.
    pub fn verify_call_row(&mut self, seq: u64, at: i64, body: &str, hash: RowHash) -> bool {
        let holds = self.verify_row(seq, at, body, hash);
        if holds && let Some(through) = find_pruned_head(body) {
            self.pruned_through = through;
        }
        holds
    }

    /// Records a break in the chain at a row that cannot be read. Always returns `false`.
    pub fn record_unreadable(&mut self, seq: u64) -> bool {
        self.record_break(ChainBreak::Modified { seq })
    }

    fn record_break(&mut self, broken: ChainBreak) -> bool {
        self.chain_break.get_or_insert(broken);
        self.verifier = None;
        false
    }

    /// Ends the verification and returns the report.
    pub fn finish(mut self) -> ChainReport {
        if let Some(Err(broken)) = self.verifier.take().map(ChainVerifier::finish) {
            self.record_break(broken);
        }
        // Removing rows and moving the anchor without rewriting the chain leaves no matching row about a pruning.
        if self.pruned_through != self.anchor && self.chain_break.is_none() {
            let (recorded, found) = (self.pruned_through.seq, self.anchor.seq);
            self.chain_break = Some(match recorded == found {
                true => ChainBreak::Rewritten { seq: found },
                false => ChainBreak::Gap { expected: recorded + 1, found: found + 1 },
            });
        }
        ChainReport { rows: self.row_count, head: self.head, chain_break: self.chain_break, missing_head_marker: None }
    }
}
