//! Finding the newest calls: the log is read once, from its end, a page at a time, and no further than needed.

use std::collections::HashMap;

use anyhow::Result;
use gatelodge_store::{CallId, CallLogFilter, CallLogRow, CallRecord, Ledger, RecordKind};

use crate::cli::CallsArgs;

/// How many rows are read at a time.
const PAGE_ROWS: usize = 500;

/// Which calls are wanted.
#[derive(Debug)]
pub struct CallQuery {
    filter: CallLogFilter,
    /// Also what no rule speaks of.
    includes_passed: bool,
    /// How many at most.
    max_calls: usize,
}

/// A call: its first row, and the one that says how it ended.
#[derive(Debug)]
pub struct LoggedCall {
    pub row: CallLogRow,
    pub outcome: Option<CallLogRow>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct CallQueryResult {
    /// The calls, oldest first.
    pub calls: Vec<LoggedCall>,
    /// The number of the last row that was looked at.
    pub last_seq: u64,
    /// How many rows were read for it.
    pub rows_read: usize,
}

impl CallQuery {
    pub fn of(args: &CallsArgs) -> Self {
        let filter = CallLogFilter {
            grant: args.grant.clone(),
            server: args.server.clone(),
            target: args.tool.clone(),
            call: args.call.clone(),
            refused_only: args.refused,
            ..CallLogFilter::default()
        };
        Self { filter, includes_passed: args.all, max_calls: args.last }
    }

    /// Whatever a filter admits.
    #[cfg(test)]
    pub fn all(filter: CallLogFilter) -> Self {
        Self { filter, includes_passed: true, max_calls: usize::MAX }
    }

    /// Whether a call that begins with this row is wanted.
    pub fn matches(&self, row: &CallLogRow) -> bool {
        (self.includes_passed || row.record.kind != RecordKind::Unchecked) && self.filter.admits(row)
    }
}

/// Finds the newest calls. An outcome has only the call's id; going back, it comes before its intent, and waits there.
pub async fn newest_calls(ledger: &dyn Ledger, wanted: &CallQuery) -> Result<CallQueryResult> {
    let mut found = CallQueryResult { last_seq: ledger.head().await?.seq, ..CallQueryResult::default() };
    // Outcomes whose intents are further back: no more than there were calls in flight at that moment.
    let mut outcomes: HashMap<CallId, CallLogRow> = HashMap::new();
    let mut before = Some(found.last_seq.saturating_add(1));
    while found.calls.len() < wanted.max_calls {
        let page = ledger.rows(CallLogFilter { before, limit: PAGE_ROWS, ..CallLogFilter::default() }).await?;
        found.rows_read += page.len();
        before = page.first().map(|row| row.seq);
        if before.is_none() {
            // Of these the intents are removed already.
            let alone = outcomes.into_values().filter(|row| wanted.matches(row));
            found.calls.extend(alone.map(|row| LoggedCall { row, outcome: None }));
            break;
        }
        for row in page.into_iter().rev() {
            if row.record.kind == RecordKind::Outcome {
                outcomes.insert(row.record.call, row);
                continue;
            }
            let outcome = outcomes.remove(&row.record.call);
            if wanted.matches(&row) && found.calls.len() < wanted.max_calls {
                found.calls.push(LoggedCall { row, outcome });
            }
        }
    }
    found.calls.sort_by_key(|call| std::cmp::Reverse(call.row.seq));
    found.calls.truncate(wanted.max_calls);
    found.calls.reverse();
    Ok(found)
}

impl LoggedCall {
    /// The call in one record: what it was, and how it ended.
    pub fn merged_record(&self) -> CallRecord {
        let mut record = self.row.record.clone();
        if let Some(CallLogRow { record: outcome, .. }) = &self.outcome {
            record.outcome = outcome.outcome;
            record.timings = outcome.timings;
            if outcome.code.is_some() {
                (record.code, record.message) = (outcome.code.clone(), outcome.message.clone());
            }
        }
        record
    }

    pub fn is_open(&self) -> bool {
        self.row.record.kind == RecordKind::Intent && self.outcome.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gatelodge_store::{CallOutcome, ManualClock, MemoryStore};
    use jiff::Timestamp;

    use super::*;

    const CALLS: usize = 20_000;

    /// A log in which each call has two rows, and calls overlap: the outcome of one stands behind the next two intents.
    async fn filled() -> MemoryStore {
        let at: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
        let store = MemoryStore::new(Arc::new(ManualClock::at(at)));
        let id = |number: usize| {
            let mut random = [0; 10];
            random[..8].copy_from_slice(&number.to_be_bytes());
            CallId::new(at, random)
        };
        for number in 0..CALLS + 2 {
            if number < CALLS {
                let mut intent = CallRecord::new(RecordKind::Intent, id(number), at);
                intent.label = Some(if number % 1_000 == 3 { "rare" } else { "often" }.into());
                store.write(&intent).await.expect("written");
            }
            if number >= 2 {
                let outcome = CallRecord {
                    outcome: Some(CallOutcome::Ok),
                    ..CallRecord::new(RecordKind::Outcome, id(number - 2), at)
                };
                store.write(&outcome).await.expect("written");
            }
        }
        store
    }

    fn wanted(last: usize) -> CallQuery {
        CallQuery { filter: CallLogFilter::default(), includes_passed: false, max_calls: last }
    }

    #[tokio::test]
    async fn the_newest_calls_are_found_without_reading_the_log() {
        let store = filled().await;
        let found = newest_calls(&store, &wanted(50)).await.expect("calls");
        assert_eq!(found.calls.len(), 50);
        assert!(found.calls.iter().all(|call| !call.is_open()), "each has its outcome");
        assert!(found.calls.is_sorted_by_key(|call| call.row.seq));
        assert_eq!(found.calls.last().expect("a call").outcome.as_ref().expect("an end").seq, found.last_seq);
        assert!(found.rows_read <= PAGE_ROWS, "{} rows", found.rows_read);
    }

    #[tokio::test]
    async fn however_many_calls_are_asked_for_each_row_is_read_once() {
        let store = filled().await;
        let filter = CallLogFilter { grant: Some("rare".into()), ..CallLogFilter::default() };
        let found = newest_calls(&store, &CallQuery { filter, ..wanted(1_000) }).await.expect("calls");
        assert_eq!(found.calls.len(), CALLS / 1_000);
        assert!(found.calls.iter().all(|call| !call.is_open()), "each has its outcome");
        assert_eq!(found.rows_read, 2 * CALLS);
    }
}
