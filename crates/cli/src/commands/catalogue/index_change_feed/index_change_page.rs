//! Reads the change feed one page at a time.

use std::io;
use std::path::Path;

use gatelodge_catalogue::RiskLevel;
use serde_json::Value;

use super::feed_lines;
use crate::diagnostic_report::escape_for_terminal;

/// A page of events that follow a cursor.
#[derive(Debug)]
pub struct IndexChangePage {
    /// The events. Strings that come from packages are escaped.
    pub events: Vec<Value>,
    /// Cursor for the next page.
    pub cursor: u64,
    /// Whether there are more events after this page.
    pub has_more: bool,
    /// Number of events after the requested cursor that have already been dropped from the feed.
    pub left_out: u64,
}

/// Error for a cursor beyond the newest event.
#[derive(Debug, thiserror::Error)]
#[error(
    "the cursor is {cursor}, but the last event here is {newest}: the cursor is from a different change feed; start again with 0"
)]
pub struct FeedCursorRangeError {
    cursor: u64,
    newest: u64,
}

/// Reads up to `limit` events that come after `cursor` and have a risk level of `least` or higher.
pub fn events_after(
    log: &Path,
    cursor: u64,
    least: RiskLevel,
    limit: usize,
) -> io::Result<Result<IndexChangePage, FeedCursorRangeError>> {
    let mut page = IndexChangePage { events: Vec::new(), cursor, has_more: false, left_out: 0 };
    let (mut first, mut newest): (Option<u64>, u64) = (None, 0);
    for line in feed_lines(log)? {
        let line = line?;
        // Most lines are at or before the cursor; parsing their number is enough.
        let number = line.strip_prefix("{\"cursor\":").and_then(|rest| rest.split(',').next()?.parse().ok());
        if let Some(own) = number.filter(|own| *own <= cursor) {
            first.get_or_insert(own);
            newest = newest.max(own);
            continue;
        }
        let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(own) = event.get("cursor").and_then(Value::as_u64) else { continue };
        first.get_or_insert(own);
        newest = newest.max(own);
        if own <= cursor {
            continue;
        }
        if page.events.len() == limit {
            page.has_more = true;
            break;
        }
        page.cursor = own;
        let level = event.get("level").and_then(Value::as_str).unwrap_or_default();
        if RiskLevel::ALL.into_iter().any(|known| known.as_str() == level && known >= least) {
            page.events.push(escape_event(event));
        }
    }
    if cursor > newest {
        return Ok(Err(FeedCursorRangeError { cursor, newest }));
    }
    // Cursors have no gaps, so the dropped events are those before the first stored one.
    page.left_out = first.unwrap_or_default().saturating_sub(1).saturating_sub(cursor);
    Ok(Ok(page))
}

/// Escapes the strings in an event that come from a package.
fn escape_event(mut event: Value) -> Value {
    for name in ["package", "version", "tool"] {
        if let Some(Value::String(text)) = event.get_mut(name) {
            *text = escape_for_terminal(text);
        }
    }
    event
}
