//! What a walk along a whole log finds: its rows, its end, and the first place where it does not hold.

use crate::call_record::{CallRecord, RecordKind};
use crate::hash_chain::{ChainBreak, ChainHead, ChainVerifier, RowHash};
use crate::ledger::ChainReport;

/// A walk under way.
#[derive(Debug)]
pub(crate) struct ChainInspection {
    verifier: Option<ChainVerifier>,
    anchor: ChainHead,
    head: ChainHead,
    row_count: u64,
    chain_break: Option<ChainBreak>,
    /// What the newest row that tells of removed rows says: the last of them.
    pruned_through: ChainHead,
}

impl ChainInspection {
    /// Starts behind the last row that was removed, and holds the rows against heads that were kept.
    pub fn start(anchor: ChainHead, known: Vec<ChainHead>) -> Self {
        let (verifier, chain_break) = match ChainVerifier::start(anchor, known) {
            Ok(walk) => (Some(walk), None),
            Err(broken) => (None, Some(broken)),
        };
        Self { verifier, anchor, head: anchor, row_count: 0, chain_break, pruned_through: ChainHead::EMPTY }
    }

    /// Takes the next row. False if there is no need for a further one: the chain is broken.
    pub fn verify_row(&mut self, seq: u64, at: i64, body: &str, hash: RowHash) -> bool {
        let Some(walk) = &mut self.verifier else { return false };
        match walk.verify_row(seq, at, body, hash) {
            Ok(()) => {
                self.row_count += 1;
                self.head = ChainHead { seq, hash };
                true
            }
            Err(broken) => self.record_break(broken),
        }
    }

    /// Takes the next row of a call log, of which rows may have been removed.
    pub fn verify_call_row(&mut self, seq: u64, at: i64, body: &str, hash: RowHash) -> bool {
        let holds = self.verify_row(seq, at, body, hash);
        if holds && let Some(through) = find_pruned_head(body) {
            self.pruned_through = through;
        }
        holds
    }

    /// Notes that a row cannot even be read.
    pub fn record_unreadable(&mut self, seq: u64) -> bool {
        self.record_break(ChainBreak::Modified { seq })
    }

    fn record_break(&mut self, broken: ChainBreak) -> bool {
        self.chain_break.get_or_insert(broken);
        self.verifier = None;
        false
    }

    /// Ends the walk.
    pub fn finish(mut self) -> ChainReport {
        if let Some(Err(broken)) = self.verifier.take().map(ChainVerifier::finish) {
            self.record_break(broken);
        }
        // Whoever removes rows and moves the anchor cannot also make the chain say so without writing it anew.
        if self.pruned_through != self.anchor && self.chain_break.is_none() {
            let (told, found) = (self.pruned_through.seq, self.anchor.seq);
            self.chain_break = Some(match told == found {
                true => ChainBreak::Rewritten { seq: found },
                false => ChainBreak::Gap { expected: told + 1, found: found + 1 },
            });
        }
        ChainReport { rows: self.row_count, head: self.head, chain_break: self.chain_break, missing_head_marker: None }
    }
}

fn find_pruned_head(body: &str) -> Option<ChainHead> {
    // Most rows are something else; those are not read.
    if !body.contains(r#""kind":"pruned""#) {
        return None;
    }
    let record: CallRecord = serde_json::from_str(body).ok()?;
    if record.kind == RecordKind::Pruned { record.through?.parse().ok() } else { None }
}
