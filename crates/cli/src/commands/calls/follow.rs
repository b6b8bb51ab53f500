//! `calls --follow`: calls as they come. Only rows behind the last look are read.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use gatelodge_store::{CallLogRow, RecordKind};

use super::gather::{Call, Gathered, Wanted};
use super::{tell, tell_row};
use crate::admin_context::AdminContext;
use crate::stdout_output;

/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// After so many looks a call is shown without its outcome.
const PATIENCE: u32 = 8;
/// The most calls whose outcomes are waited for; beyond, the oldest is forgotten.
const MAX_OPEN: usize = 4_096;

/// Calls without an outcome so far, oldest first.
struct Open {
    calls: VecDeque<Waiting>,
    json: bool,
}

struct Waiting {
    row: CallLogRow,
    looks: u32,
    is_told: bool,
}

/// Shows calls until interrupted, beginning behind what was found.
pub async fn follow(desk: &AdminContext, wanted: &Wanted, json: bool, found: Gathered) -> Result<()> {
    let mut seen = found.newest;
    let mut open = Open { calls: VecDeque::new(), json };
    let told = found.calls.into_iter().filter(Call::is_open);
    told.for_each(|call| open.add(Waiting { row: call.row, looks: 0, is_told: true }));
    let mut looks = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
        }
        loop {
            let page = desk.stores.ledger.page_after(seen).await?;
            let Some(last) = page.last() else { break };
            seen = last.seq;
            for row in &page {
                open.take(row.parse_call_row()?, wanted)?;
            }
        }
        open.look()?;
        if stdout_output::is_stdout_closed() {
            return Ok(());
        }
    }
}

impl Open {
    /// Takes the next row of the log.
    fn take(&mut self, row: CallLogRow, wanted: &Wanted) -> Result<()> {
        if row.record.kind == RecordKind::Outcome {
            return self.settle(row, wanted);
        }
        if !wanted.admits(&row) {
            return Ok(());
        }
        // The outcome is a moment behind, and the two are shown together.
        if row.record.kind != RecordKind::Intent {
            return tell_row(&row, self.json);
        }
        self.add(Waiting { row, looks: 0, is_told: false });
        Ok(())
    }

    /// Shows how a call ended that is wanted, or was shown before.
    fn settle(&mut self, outcome: CallLogRow, wanted: &Wanted) -> Result<()> {
        let place = self.calls.iter().position(|waiting| waiting.row.record.call == outcome.record.call);
        match place.and_then(|place| self.calls.remove(place)) {
            Some(waiting) => tell(&Call { row: waiting.row, outcome: Some(outcome) }, self.json),
            None if wanted.admits(&outcome) => tell_row(&outcome, self.json),
            None => Ok(()),
        }
    }

    fn add(&mut self, waiting: Waiting) {
        self.calls.push_back(waiting);
        if self.calls.len() > MAX_OPEN {
            self.calls.pop_front();
        }
    }

    /// Shows what has waited long enough.
    fn look(&mut self) -> Result<()> {
        for waiting in self.calls.iter_mut().filter(|waiting| !waiting.is_told) {
            waiting.looks += 1;
            if waiting.looks >= PATIENCE {
                waiting.is_told = true;
                tell_row(&waiting.row, self.json)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use gatelodge_store::{CallId, CallLogFilter, CallOutcome, CallRecord};

    use super::*;

    fn row(seq: u64, kind: RecordKind, number: u8) -> CallLogRow {
        let at = "2026-11-15T12:00:00Z".parse().expect("a time");
        CallLogRow { seq, record: CallRecord::new(kind, CallId::new(at, [number; 10]), at) }
    }

    #[test]
    fn a_call_waits_for_its_outcome_and_is_forgotten_with_it() {
        let wanted = Wanted::all(CallLogFilter { grant: Some("ci".into()), ..CallLogFilter::default() });
        let mut open = Open { calls: VecDeque::new(), json: false };
        let mut mine = row(1, RecordKind::Intent, 1);
        mine.record.label = Some("ci".into());
        open.take(mine, &wanted).expect("taken");
        open.take(row(2, RecordKind::Intent, 2), &wanted).expect("not wanted");
        assert_eq!(open.calls.len(), 1, "only what is wanted is waited for");
        (1..PATIENCE).for_each(|_| open.look().expect("a look"));
        assert!(!open.calls[0].is_told);
        open.look().expect("a look");
        assert!(open.calls[0].is_told, "shown without its outcome");
        let mut outcome = row(3, RecordKind::Outcome, 1);
        outcome.record.outcome = Some(CallOutcome::Ok);
        open.take(outcome, &wanted).expect("settled");
        assert!(open.calls.is_empty());
    }

    #[test]
    fn calls_that_never_end_are_bounded() {
        let wanted = Wanted::all(CallLogFilter::default());
        let mut open = Open { calls: VecDeque::new(), json: true };
        for seq in 1..=MAX_OPEN as u64 + 10 {
            open.add(Waiting { row: row(seq, RecordKind::Intent, 0), looks: 0, is_told: true });
        }
        assert_eq!((open.calls.len(), open.calls[0].row.seq), (MAX_OPEN, 11));
        assert!(wanted.admits(&row(1, RecordKind::Intent, 0)));
    }
}
