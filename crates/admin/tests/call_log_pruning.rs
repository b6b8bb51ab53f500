//! Pruning of the call log by an administrator.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use gatelodge_admin::{Administration, FileEntryNames, PruneCallsError, PrunedCalls};
use gatelodge_store::{Clock, ManualClock, Store};

#[tokio::test]
async fn pruning_nothing_is_not_logged_and_a_date_before_all_dates_is_refused() {
    let now = "2026-11-15T12:00:00Z".parse().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(now));
    let (stores, file_entries) = (Store::memory(Arc::clone(&clock)), FileEntryNames::default());
    let administration = Administration { stores, clock, file_entries, author: "ada".to_owned() };
    let before = "2026-11-15T11:59:00Z".parse().unwrap();
    let pruned = administration.prune_calls(Duration::from_secs(60)).await.unwrap();
    assert_eq!(pruned, PrunedCalls { rows: 0, before });
    let error = administration.prune_calls(Duration::from_secs(1 << 40)).await.unwrap_err();
    assert!(matches!(error, PruneCallsError::DateOutOfRange), "{error}");
    assert!(administration.stores.admin_log.recent(1).await.unwrap().is_empty());
}
