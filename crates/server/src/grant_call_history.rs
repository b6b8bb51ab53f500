//! Collects the calls logged for a grant, as input for a policy draft. Reads the log once, backwards from its end, one page at a time.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{
    CallLogDraft, CallLogDraftBuilder, ClientRequestKind, Diagnostic, ObservedCall, is_policy_exempt,
};
use gatelodge_store::{CallId, CallLog, CallLogFilter, CallLogRow, CallOutcome, CallRecord, RecordKind, StoreError};
use jiff::Timestamp;

/// Number of log rows to read at a time.
const PAGE_ROWS: usize = 500;
/// Length of a name that was truncated in the log, including the `…` at its end.
const TRUNCATED_NAME_CHARS: usize = 513;

/// Query that selects the logged calls to collect.
#[derive(Debug)]
pub struct CallHistoryQuery<'a> {
    /// The grant's label or id.
    pub grant: &'a str,
    /// Only calls to this server.
    pub server: Option<&'a str>,
    /// Only calls from this time on.
    pub since: Option<Timestamp>,
}

/// The calls logged for a grant.
#[derive(Debug, Default)]
pub struct GrantCallHistory {
    /// Call history by server, limited to the servers and times that the query selects.
    pub servers: BTreeMap<String, ServerCallHistory>,
    /// All servers that the grant has ever called.
    pub called_servers: BTreeSet<String>,
    /// Ids of the grants that match the query. Several grants may have had the same label over time.
    pub grants: BTreeSet<String>,
    /// Whether the log has any rows for the grant.
    pub has_rows: bool,
    /// Time of the oldest row in the log, regardless of the grant.
    pub oldest: Option<Timestamp>,
    /// Number of rows that have been pruned from the log.
    pub pruned_rows: u64,
}

/// The calls that a grant made to one server.
#[derive(Debug, Default)]
pub struct ServerCallHistory {
    draft: CallLogDraftBuilder,
    /// Number of calls that were sent to the server.
    pub sent: u64,
    /// Number of calls that cannot be used for the draft, grouped by description and reason. For example, a call was
    /// refused, or the server could not be reached.
    pub left_out: BTreeMap<(String, String), u64>,
    /// Tools whose current definition has not been accepted. Until it is, no policy can allow calls to the tool.
    pub unaccepted: BTreeSet<String>,
}

/// Collects the calls that match the query. The log is read backwards, so that when the row of a call is reached, it is
/// already known from its outcome row whether the call was sent.
pub async fn collect_call_history(
    call_log: &dyn CallLog,
    query: &CallHistoryQuery<'_>,
) -> Result<GrantCallHistory, StoreError> {
    let mut usage = GrantCallHistory::default();
    let mut not_sent: HashSet<CallId> = HashSet::new();
    let mut before = Some(call_log.head().await?.seq.saturating_add(1));
    loop {
        let page = call_log.rows(CallLogFilter { before, limit: PAGE_ROWS, ..CallLogFilter::default() }).await?;
        let Some(first) = page.first() else { return Ok(usage) };
        before = Some(first.seq);
        for row in page.iter().rev() {
            let CallLogRow { record, .. } = row;
            usage.oldest = Some(usage.oldest.map_or(record.at, |oldest| oldest.min(record.at)));
            match record.kind {
                RecordKind::Pruned => usage.pruned_rows += record.count.unwrap_or_default(),
                RecordKind::Outcome if record.outcome == Some(CallOutcome::NotSent) => {
                    not_sent.insert(record.call);
                }
                RecordKind::Outcome | RecordKind::Unauthenticated => {}
                RecordKind::Intent | RecordKind::Refused | RecordKind::PolicyExempt => {
                    let is_unsent = not_sent.remove(&record.call);
                    usage.add(record, query, is_unsent);
                }
            }
        }
    }
}

impl GrantCallHistory {
    /// Returns the servers to which at least one call was sent. A draft is for one of them, because a policy applies to
    /// one server.
    pub fn servers_with_calls(&self) -> impl Iterator<Item = (&str, &ServerCallHistory)> {
        self.servers.iter().filter(|(_, history)| history.sent > 0).map(|(server, history)| (server.as_str(), history))
    }

    fn add(&mut self, record: &CallRecord, query: &CallHistoryQuery<'_>, is_unsent: bool) {
        let grant = record.grant.as_ref().map(|id| id.0.as_ref());
        if grant != Some(query.grant) && record.label.as_deref() != Some(query.grant) {
            return;
        }
        self.has_rows = true;
        let Some(server) = record.server.as_ref().map(|server| server.as_str()) else { return };
        let Some(method) = record.method.as_deref().filter(|method| is_policy_relevant(method, record.kind)) else {
            return;
        };
        self.called_servers.insert(server.to_owned());
        if query.server.is_some_and(|name| name != server) || query.since.is_some_and(|since| record.at < since) {
            return;
        }
        self.grants.extend(grant.map(str::to_owned));
        let usage = self.servers.entry(server.to_owned()).or_default();
        match exclusion_reason(record, is_unsent) {
            Some(why) => *usage.left_out.entry((call_description(record, method), why)).or_default() += 1,
            None => usage.add_sent(record, method),
        }
    }
}

/// Returns whether a policy can contain a rule for the message in a log row. If the message was forwarded without a
/// policy check, this is the case only for a server's request for input from the client.
fn is_policy_relevant(method: &str, kind: RecordKind) -> bool {
    let is_client_input = ClientRequestKind::of_method(method).is_some();
    match kind {
        RecordKind::PolicyExempt => is_client_input,
        _ => {
            !is_policy_exempt(method)
                && method != "response"
                && (is_client_input || !method.starts_with("notifications/"))
        }
    }
}

/// Returns why a call is excluded from the draft, or `None` if it is included.
fn exclusion_reason(record: &CallRecord, is_unsent: bool) -> Option<String> {
    let code = record.code.as_deref().unwrap_or("no reason given");
    let is_truncated = record
        .target
        .as_ref()
        .is_some_and(|target| target.ends_with('…') && target.chars().count() >= TRUNCATED_NAME_CHARS);
    if record.kind == RecordKind::Refused {
        Some(format!("refused: {code}"))
    } else if is_unsent {
        Some("the server could not be reached".to_owned())
    } else if code == "not_offered" {
        Some("the server does not offer it".to_owned())
    } else if is_truncated {
        Some("the log has only the beginning of its name".to_owned())
    } else {
        None
    }
}

fn call_description(record: &CallRecord, method: &str) -> String {
    match &record.target {
        Some(target) => format!("{method} {target}"),
        None => method.to_owned(),
    }
}

impl ServerCallHistory {
    /// Drafts the smallest policy that covers the calls that `grant` sent to `server`.
    ///
    /// # Errors
    /// Returns the errors of the draft if the calls do not fit into one policy.
    pub fn write_draft(&self, grant: &str, server: &str) -> Result<CallLogDraft, Vec<Diagnostic>> {
        self.draft.write(&format!("what `{grant}` did at `{server}`"))
    }

    fn add_sent(&mut self, record: &CallRecord, method: &str) {
        self.sent += 1;
        if let (Some("not_accepted" | "definition_changed"), Some(target)) = (record.code.as_deref(), &record.target) {
            self.unaccepted.insert(target.to_string());
        }
        let names: Vec<&str> = record.argument_keys.iter().map(AsRef::as_ref).collect();
        // Arguments that the log truncated are not valid JSON.
        let document = record.arguments.as_ref().and_then(|text| read(text.as_bytes(), &JsonLimits::REQUEST).ok());
        self.draft.add(&ObservedCall {
            method,
            target: record.target.as_deref(),
            at: record.at,
            argument_names: &names,
            arguments: document.as_ref().map(|document| document.root()),
            reason_code: record.code.as_deref().filter(|_| record.observed),
        });
    }
}
