//! What a walk along a whole log finds: its rows, its end, and the first place where it does not hold.

use crate::call_record::{CallRecord, RecordKind};
use crate::hash_chain::{ChainBreak, ChainHead, ChainVerifier, RowHash};
use crate::ledger::Verified;

/// A walk under way.
#[derive(Debug)]
pub(crate) struct Inspection {
    walk: Option<ChainVerifier>,
    anchor: ChainHead,
    head: ChainHead,
    rows: u64,
    broken: Option<ChainBreak>,
    /// What the newest row that tells of removed rows says: the last of them.
    through: ChainHead,
}

impl Inspection {
    /// Starts behind the last row that was removed, and holds the rows against heads that were kept.
    pub fn begin(anchor: ChainHead, known: Vec<ChainHead>) -> Self {
        let (walk, broken) = match ChainVerifier::start(anchor, known) {
            Ok(walk) => (Some(walk), None),
            Err(broken) => (None, Some(broken)),
        };
        Self { walk, anchor, head: anchor, rows: 0, broken, through: ChainHead::EMPTY }
    }

    /// Takes the next row. False if there is no need for a further one: the chain is broken.
    pub fn row(&mut self, seq: u64, at: i64, body: &str, hash: RowHash) -> bool {
        let Some(walk) = &mut self.walk else { return false };
        match walk.verify_row(seq, at, body, hash) {
            Ok(()) => {
                self.rows += 1;
                self.head = ChainHead { seq, hash };
                true
            }
            Err(broken) => self.broke(broken),
        }
    }

    /// Takes the next row of a call log, of which rows may have been removed.
    pub fn call_row(&mut self, seq: u64, at: i64, body: &str, hash: RowHash) -> bool {
        let holds = self.row(seq, at, body, hash);
        if holds && let Some(through) = removed_through(body) {
            self.through = through;
        }
        holds
    }

    /// Notes that a row cannot even be read.
    pub fn unreadable(&mut self, seq: u64) -> bool {
        self.broke(ChainBreak::Modified { seq })
    }

    fn broke(&mut self, broken: ChainBreak) -> bool {
        self.broken.get_or_insert(broken);
        self.walk = None;
        false
    }

    /// Ends the walk.
    pub fn finish(mut self) -> Verified {
        if let Some(Err(broken)) = self.walk.take().map(ChainVerifier::finish) {
            self.broke(broken);
        }
        // Whoever removes rows and moves the anchor cannot also make the chain say so without writing it anew.
        if self.through != self.anchor && self.broken.is_none() {
            let (told, found) = (self.through.seq, self.anchor.seq);
            self.broken = Some(match told == found {
                true => ChainBreak::Rewritten { seq: found },
                false => ChainBreak::Gap { expected: told + 1, found: found + 1 },
            });
        }
        Verified { rows: self.rows, head: self.head, broken: self.broken, missed_head: None }
    }
}

fn removed_through(body: &str) -> Option<ChainHead> {
    // Most rows are something else; those are not read.
    if !body.contains(r#""kind":"pruned""#) {
        return None;
    }
    let record: CallRecord = serde_json::from_str(body).ok()?;
    if record.kind == RecordKind::Pruned { record.through?.parse().ok() } else { None }
}
