//! Finds the newest calls in the log. Reads it backwards from the end, one page at a time, until enough calls are
//! found.

use std::collections::HashMap;

use anyhow::Result;
use gatelodge_store::{CallId, CallLog, CallLogFilter, CallLogRow, CallRecord, RecordKind};

use crate::cli::CallsArgs;

/// Number of log rows to read at a time.
const PAGE_ROWS: usize = 500;

/// Filter and limit for logged calls.
#[derive(Debug)]
pub struct CallQuery {
    filter: CallLogFilter,
    /// Whether to include calls that were not checked against any rule.
    includes_policy_exempt: bool,
    /// Maximum number of calls to return.
    max_calls: usize,
}

/// A logged call. The outcome of a call that was sent is logged in a separate row, and may not have been logged yet.
#[derive(Debug)]
pub struct LoggedCall {
    pub row: CallLogRow,
    pub outcome: Option<CallLogRow>,
}

/// Result of [`newest_calls`].
#[derive(Debug, Default)]
pub struct CallQueryResult {
    /// The calls that were found, oldest first.
    pub calls: Vec<LoggedCall>,
    /// Sequence number of the newest log row when the query started.
    pub last_seq: u64,
    /// Number of log rows that were read to answer the query.
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
        Self { filter, includes_policy_exempt: args.all, max_calls: args.last }
    }

    /// Creates a query for all calls that match `filter`.
    #[cfg(test)]
    pub fn all(filter: CallLogFilter) -> Self {
        Self { filter, includes_policy_exempt: true, max_calls: usize::MAX }
    }

    /// Returns whether the query matches a call whose first row is `row`.
    pub fn matches(&self, row: &CallLogRow) -> bool {
        (self.includes_policy_exempt || row.record.kind != RecordKind::PolicyExempt) && self.filter.admits(row)
    }
}

/// Finds the newest calls. A sent call has an intent row, followed by an outcome row. Since the log is read backwards,
/// the outcome is read first, and is kept in memory until the intent with the same call id is found.
pub async fn newest_calls(call_log: &dyn CallLog, query: &CallQuery) -> Result<CallQueryResult> {
    let mut found = CallQueryResult { last_seq: call_log.head().await?.seq, ..CallQueryResult::default() };
    // Outcomes with an intent further back; at most as many as there were calls in flight at that moment.
    let mut outcomes: HashMap<CallId, CallLogRow> = HashMap::new();
    let mut before = Some(found.last_seq.saturating_add(1));
    while found.calls.len() < query.max_calls {
        let page = call_log.rows(CallLogFilter { before, limit: PAGE_ROWS, ..CallLogFilter::default() }).await?;
        found.rows_read += page.len();
        before = page.first().map(|row| row.seq);
        if before.is_none() {
            // The intents of these outcomes were pruned.
            let orphans = outcomes.into_values().filter(|row| query.matches(row));
            found.calls.extend(orphans.map(|row| LoggedCall { row, outcome: None }));
            break;
        }
        for row in page.into_iter().rev() {
            if row.record.kind == RecordKind::Outcome {
                outcomes.insert(row.record.call, row);
                continue;
            }
            let outcome = outcomes.remove(&row.record.call);
            if query.matches(&row) && found.calls.len() < query.max_calls {
                found.calls.push(LoggedCall { row, outcome });
            }
        }
    }
    found.calls.sort_by_key(|call| std::cmp::Reverse(call.row.seq));
    found.calls.truncate(query.max_calls);
    found.calls.reverse();
    Ok(found)
}

impl LoggedCall {
    /// Returns a single record for the call: the record in `row`, updated with the outcome if there is one.
    pub fn merged_record(&self) -> CallRecord {
        let mut record = self.row.record.clone();
        if let Some(CallLogRow { record: outcome, .. }) = &self.outcome {
            record.outcome = outcome.outcome;
            record.timings = outcome.timings;
            record.upstream_status = outcome.upstream_status;
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

    use gatelodge_store::{CallOutcome, Ledger, ManualClock, MemoryStore};
    use jiff::Timestamp;

    use super::*;

    const CALLS: usize = 20_000;

    /// Creates a log of overlapping calls with two rows each. The outcome of a call follows the intents of the next two
    /// calls.
    async fn filled_store() -> MemoryStore {
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

    fn query_last(last: usize) -> CallQuery {
        CallQuery { filter: CallLogFilter::default(), includes_policy_exempt: false, max_calls: last }
    }

    #[tokio::test]
    async fn newest_calls_are_found_without_reading_the_whole_log() {
        let store = filled_store().await;
        let found = newest_calls(&store, &query_last(50)).await.expect("calls");
        assert_eq!(found.calls.len(), 50);
        assert!(found.calls.iter().all(|call| !call.is_open()), "each has its outcome");
        assert!(found.calls.is_sorted_by_key(|call| call.row.seq));
        assert_eq!(found.calls.last().expect("a call").outcome.as_ref().expect("an end").seq, found.last_seq);
        assert!(found.rows_read <= PAGE_ROWS, "{} rows", found.rows_read);
    }

    #[tokio::test]
    async fn large_query_reads_each_row_once() {
        let store = filled_store().await;
        let filter = CallLogFilter { grant: Some("rare".into()), ..CallLogFilter::default() };
        let found = newest_calls(&store, &CallQuery { filter, ..query_last(1_000) }).await.expect("calls");
        assert_eq!(found.calls.len(), CALLS / 1_000);
        assert!(found.calls.iter().all(|call| !call.is_open()), "each has its outcome");
        assert_eq!(found.rows_read, 2 * CALLS);
    }

    #[test]
    fn merged_record_has_the_outcome_of_the_second_row() {
        let at = Timestamp::UNIX_EPOCH;
        let id = CallId::new(at, [1; 10]);
        let row = |seq, record| CallLogRow { seq, record };
        let intent = CallRecord::new(RecordKind::Intent, id, at);
        let mut outcome = CallRecord::new(RecordKind::Outcome, id, at);
        (outcome.outcome, outcome.upstream_status) = (Some(CallOutcome::Error), Some(503));
        let call = LoggedCall { row: row(1, intent), outcome: Some(row(2, outcome)) };
        let merged = call.merged_record();
        assert_eq!((merged.kind, merged.outcome), (RecordKind::Intent, Some(CallOutcome::Error)));
        assert_eq!(merged.upstream_status, Some(503));
    }
}
