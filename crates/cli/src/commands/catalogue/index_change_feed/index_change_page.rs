//! Events behind a cursor, as whoever follows them gets them.

use std::io;
use std::path::Path;

use gatelodge_catalogue::RiskLevel;
use serde_json::Value;

use super::feed_lines;
use crate::diagnostic_report::escape_for_terminal;

/// Some events.
#[derive(Debug)]
pub struct IndexChangePage {
    /// The events, with their foreign texts made visible.
    pub events: Vec<Value>,
    /// The cursor for the next ones.
    pub cursor: u64,
    /// Whether there are next ones.
    pub has_more: bool,
    /// How many behind the cursor that was given are not kept any more.
    pub left_out: u64,
}

/// A cursor that lies ahead of all events.
#[derive(Debug, thiserror::Error)]
#[error(
    "the cursor is {cursor}, and the last event here is {newest}: these are other changes than those it was told with; begin again with 0"
)]
pub struct CursorAheadError {
    cursor: u64,
    newest: u64,
}

/// The events behind a cursor that are of a level at least.
pub fn events_after(
    log: &Path,
    cursor: u64,
    least: RiskLevel,
    limit: usize,
) -> io::Result<Result<IndexChangePage, CursorAheadError>> {
    let mut page = IndexChangePage { events: Vec::new(), cursor, has_more: false, left_out: 0 };
    let (mut first, mut newest): (Option<u64>, u64) = (None, 0);
    for line in feed_lines(log)? {
        let line = line?;
        // Most lines lie before the cursor, and need not be read further than their number.
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
        return Ok(Err(CursorAheadError { cursor, newest }));
    }
    // Numbers have no gaps, so what was dropped is what lies before the first that is kept.
    page.left_out = first.unwrap_or_default().saturating_sub(1).saturating_sub(cursor);
    Ok(Ok(page))
}

/// An event with its foreign texts made visible.
fn escape_event(mut event: Value) -> Value {
    for name in ["package", "version", "tool"] {
        if let Some(Value::String(text)) = event.get_mut(name) {
            *text = escape_for_terminal(text);
        }
    }
    event
}
