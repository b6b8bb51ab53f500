//! `calls --follow`: prints calls as they are logged, by polling the log for new rows.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use gatelodge_store::{CallLogRow, RecordKind};

use super::call_query::{CallQuery, CallQueryResult, LoggedCall};
use super::{print_call, print_row};
use crate::stdout_output;
use crate::store_command_context::StoreCommandContext;

/// Interval at which the call log is polled.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Number of polls after which a call is printed even though its outcome has not been logged.
const MAX_POLLS_WITHOUT_OUTCOME: u32 = 8;
/// Maximum number of calls to keep while their outcome is pending; beyond that, the oldest is dropped.
const MAX_UNFINISHED_CALLS: usize = 4_096;

/// Calls whose outcome has not been logged yet, oldest first.
struct CallOutcomeWaitQueue {
    calls: VecDeque<UnfinishedCall>,
    json: bool,
}

struct UnfinishedCall {
    row: CallLogRow,
    polls: u32,
    is_printed: bool,
}

/// Prints new calls until interrupted. `found` is the result of the initial query; only rows that were logged after it
/// are read.
pub async fn follow_calls(
    ctx: &StoreCommandContext,
    query: &CallQuery,
    json: bool,
    found: CallQueryResult,
) -> Result<()> {
    let mut seen = found.last_seq;
    let mut open = CallOutcomeWaitQueue { calls: VecDeque::new(), json };
    let printed = found.calls.into_iter().filter(LoggedCall::is_open);
    printed.for_each(|call| open.add_unfinished(UnfinishedCall { row: call.row, polls: 0, is_printed: true }));
    let mut polls = tokio::time::interval(LOG_POLL_INTERVAL);
    loop {
        tokio::select! {
            _ = polls.tick() => {}
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
        }
        loop {
            let page = ctx.stores.call_log.page_after(seen).await?;
            let Some(last) = page.last() else { break };
            seen = last.seq;
            for row in &page {
                open.add_row(row.parse_call_row()?, query)?;
            }
        }
        open.print_overdue()?;
        if stdout_output::is_stdout_closed() {
            return Ok(());
        }
    }
}

impl CallOutcomeWaitQueue {
    /// Prints a new log row if it matches the query. A call that has just been sent is queued instead, to be printed
    /// together with its outcome.
    fn add_row(&mut self, row: CallLogRow, query: &CallQuery) -> Result<()> {
        if row.record.kind == RecordKind::Outcome {
            return self.print_outcome(row, query);
        }
        if !query.matches(&row) {
            return Ok(());
        }
        // The outcome usually follows within milliseconds; both are printed as one call.
        if row.record.kind != RecordKind::Intent {
            return print_row(&row, self.json);
        }
        self.add_unfinished(UnfinishedCall { row, polls: 0, is_printed: false });
        Ok(())
    }

    /// Prints an outcome together with its call if the call is in the queue. Otherwise prints the outcome alone if it
    /// matches the query.
    fn print_outcome(&mut self, outcome: CallLogRow, query: &CallQuery) -> Result<()> {
        let place = self.calls.iter().position(|waiting| waiting.row.record.call == outcome.record.call);
        match place.and_then(|place| self.calls.remove(place)) {
            Some(waiting) => print_call(&LoggedCall { row: waiting.row, outcome: Some(outcome) }, self.json),
            None if query.matches(&outcome) => print_row(&outcome, self.json),
            None => Ok(()),
        }
    }

    fn add_unfinished(&mut self, waiting: UnfinishedCall) {
        self.calls.push_back(waiting);
        if self.calls.len() > MAX_UNFINISHED_CALLS {
            self.calls.pop_front();
        }
    }

    /// Prints the calls whose outcome has been pending for too long.
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
    fn call_waits_for_its_outcome_and_is_then_dropped() {
        let query = CallQuery::all(CallLogFilter { grant: Some("ci".into()), ..CallLogFilter::default() });
        let mut open = CallOutcomeWaitQueue { calls: VecDeque::new(), json: false };
        let mut mine = row(1, RecordKind::Intent, 1);
        mine.record.label = Some("ci".into());
        open.add_row(mine, &query).expect("taken");
        open.add_row(row(2, RecordKind::Intent, 2), &query).expect("not wanted");
        assert_eq!(open.calls.len(), 1, "only matching calls wait");
        (1..MAX_POLLS_WITHOUT_OUTCOME).for_each(|_| open.print_overdue().expect("a poll"));
        assert!(!open.calls[0].is_printed);
        open.print_overdue().expect("a poll");
        assert!(open.calls[0].is_printed, "shown without its outcome");
        let mut outcome = row(3, RecordKind::Outcome, 1);
        outcome.record.outcome = Some(CallOutcome::Ok);
        open.add_row(outcome, &query).expect("settled");
        assert!(open.calls.is_empty());
    }

    #[test]
    fn number_of_unfinished_calls_is_limited() {
        let query = CallQuery::all(CallLogFilter::default());
        let mut open = CallOutcomeWaitQueue { calls: VecDeque::new(), json: true };
        for seq in 1..=MAX_UNFINISHED_CALLS as u64 + 10 {
            open.add_unfinished(UnfinishedCall { row: row(seq, RecordKind::Intent, 0), polls: 0, is_printed: true });
        }
        assert_eq!((open.calls.len(), open.calls[0].row.seq), (MAX_UNFINISHED_CALLS, 11));
        assert!(query.matches(&row(1, RecordKind::Intent, 0)));
    }
}
