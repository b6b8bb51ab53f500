//! `calls --follow`: calls as they come. Only rows behind the last look are read.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use gatelodge_store::{CallLogRow, RecordKind};

use super::call_query::{CallQuery, CallQueryResult, LoggedCall};
use super::{print_call, print_row};
use crate::admin_context::AdminContext;
use crate::stdout_output;

/// How often the log is looked at.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// After so many looks a call is shown without its outcome.
const MAX_POLLS_WITHOUT_OUTCOME: u32 = 8;
/// The most calls whose outcomes are waited for; beyond, the oldest is forgotten.
const MAX_UNFINISHED_CALLS: usize = 4_096;

/// Calls without an outcome so far, oldest first.
struct UnfinishedCallList {
    calls: VecDeque<UnfinishedCall>,
    json: bool,
}

struct UnfinishedCall {
    row: CallLogRow,
    polls: u32,
    is_printed: bool,
}

/// Shows calls until interrupted, beginning behind what was found.
pub async fn follow_calls(desk: &AdminContext, wanted: &CallQuery, json: bool, found: CallQueryResult) -> Result<()> {
    let mut seen = found.last_seq;
    let mut open = UnfinishedCallList { calls: VecDeque::new(), json };
    let told = found.calls.into_iter().filter(LoggedCall::is_open);
    told.for_each(|call| open.add_unfinished(UnfinishedCall { row: call.row, polls: 0, is_printed: true }));
    let mut looks = tokio::time::interval(LOG_POLL_INTERVAL);
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
                open.add_row(row.parse_call_row()?, wanted)?;
            }
        }
        open.print_overdue()?;
        if stdout_output::is_stdout_closed() {
            return Ok(());
        }
    }
}

impl UnfinishedCallList {
    /// Takes the next row of the log.
    fn add_row(&mut self, row: CallLogRow, wanted: &CallQuery) -> Result<()> {
        if row.record.kind == RecordKind::Outcome {
            return self.print_outcome(row, wanted);
        }
        if !wanted.matches(&row) {
            return Ok(());
        }
        // The outcome is a moment behind, and the two are shown together.
        if row.record.kind != RecordKind::Intent {
            return print_row(&row, self.json);
        }
        self.add_unfinished(UnfinishedCall { row, polls: 0, is_printed: false });
        Ok(())
    }

    /// Shows how a call ended that is wanted, or was shown before.
    fn print_outcome(&mut self, outcome: CallLogRow, wanted: &CallQuery) -> Result<()> {
        let place = self.calls.iter().position(|waiting| waiting.row.record.call == outcome.record.call);
        match place.and_then(|place| self.calls.remove(place)) {
            Some(waiting) => print_call(&LoggedCall { row: waiting.row, outcome: Some(outcome) }, self.json),
            None if wanted.matches(&outcome) => print_row(&outcome, self.json),
            None => Ok(()),
        }
    }

    fn add_unfinished(&mut self, waiting: UnfinishedCall) {
        self.calls.push_back(waiting);
        if self.calls.len() > MAX_UNFINISHED_CALLS {
            self.calls.pop_front();
        }
    }

    /// Shows what has waited long enough.
    fn print_overdue(&mut self) -> Result<()> {
        for waiting in self.calls.iter_mut().filter(|waiting| !waiting.is_printed) {
            waiting.polls += 1;
            if waiting.polls >= MAX_POLLS_WITHOUT_OUTCOME {
                waiting.is_printed = true;
                print_row(&waiting.row, self.json)?;
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
        let wanted = CallQuery::all(CallLogFilter { grant: Some("ci".into()), ..CallLogFilter::default() });
        let mut open = UnfinishedCallList { calls: VecDeque::new(), json: false };
        let mut mine = row(1, RecordKind::Intent, 1);
        mine.record.label = Some("ci".into());
        open.add_row(mine, &wanted).expect("taken");
        open.add_row(row(2, RecordKind::Intent, 2), &wanted).expect("not wanted");
        assert_eq!(open.calls.len(), 1, "only what is wanted is waited for");
        (1..MAX_POLLS_WITHOUT_OUTCOME).for_each(|_| open.print_overdue().expect("a look"));
        assert!(!open.calls[0].is_printed);
        open.print_overdue().expect("a look");
        assert!(open.calls[0].is_printed, "shown without its outcome");
        let mut outcome = row(3, RecordKind::Outcome, 1);
        outcome.record.outcome = Some(CallOutcome::Ok);
        open.add_row(outcome, &wanted).expect("settled");
        assert!(open.calls.is_empty());
    }

    #[test]
    fn calls_that_never_end_are_bounded() {
        let wanted = CallQuery::all(CallLogFilter::default());
        let mut open = UnfinishedCallList { calls: VecDeque::new(), json: true };
        for seq in 1..=MAX_UNFINISHED_CALLS as u64 + 10 {
            open.add_unfinished(UnfinishedCall { row: row(seq, RecordKind::Intent, 0), polls: 0, is_printed: true });
        }
        assert_eq!((open.calls.len(), open.calls[0].row.seq), (MAX_UNFINISHED_CALLS, 11));
        assert!(wanted.matches(&row(1, RecordKind::Intent, 0)));
    }
}
