//! Rows of the call log, and filters for them.

use serde::Serialize;

use super::{CallRecord, RecordKind};

/// A row in the call log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallLogRow {
    /// Sequence number of the row.
    pub seq: u64,
    /// The call record.
    #[serde(flatten)]
    pub record: CallRecord,
}

/// Filter for rows in the call log.
#[derive(Debug, Clone, Default)]
pub struct CallLogFilter {
    /// Only rows after this sequence number.
    pub after: Option<u64>,
    /// Only rows before this sequence number.
    pub before: Option<u64>,
    /// Only rows for the grant with this id or label.
    pub grant: Option<String>,
    /// Only rows for this server.
    pub server: Option<String>,
    /// Only rows about this tool, resource or prompt.
    pub target: Option<String>,
    /// Only rows for this call.
    pub call: Option<String>,
    /// Only calls that were refused, or would have been refused.
    pub refused_only: bool,
    /// Maximum number of rows; the newest are returned.
    pub limit: usize,
}

impl CallLogFilter {
    /// Returns whether the filter matches a row, regardless of `limit`.
    pub fn admits(&self, row: &CallLogRow) -> bool {
        let CallRecord { kind, call, grant, label, server, target, observed, .. } = &row.record;
        let is = |wanted: &Option<String>, own: Option<&str>| match wanted {
            Some(wanted) => own == Some(wanted.as_str()),
            None => true,
        };
        let grant_id = grant.as_ref().map(|id| id.0.as_ref());
        self.after.is_none_or(|after| row.seq > after)
            && self.before.is_none_or(|before| row.seq < before)
            && (is(&self.grant, grant_id) || is(&self.grant, label.as_deref()))
            && is(&self.server, server.as_ref().map(|name| name.as_str()))
            && is(&self.target, target.as_deref())
            && is(&self.call, Some(call.as_str()))
            && (!self.refused_only || *kind == RecordKind::Refused || *observed)
    }
}
