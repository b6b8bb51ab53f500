//! Finding what a grant did: the log is read once, from its end, a page at a time.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use anyhow::Result;
use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::{ClientRequest, DraftBuilder, ObservedCall, is_always_allowed};
use gatelodge_store::{CallId, CallLogFilter, CallLogRow, CallOutcome, CallRecord, Ledger, RecordKind};
use jiff::Timestamp;

/// How many rows are read at a time.
const PAGE_ROWS: usize = 500;
/// A name of so many characters was cut by the log, which ends it with a `…`.
const TRUNCATED_NAME_CHARS: usize = 513;

/// Whose calls are wanted.
#[derive(Debug)]
pub struct UsageQuery<'a> {
    /// The grant's label or id.
    pub grant: &'a str,
    pub server: Option<&'a str>,
    pub since: Option<Timestamp>,
}

/// What the log says of a grant.
#[derive(Debug, Default)]
pub struct GrantUsage {
    /// By server, of those that are wanted.
    pub servers: BTreeMap<String, ServerUsage>,
    /// All servers that the grant called, at any time.
    pub called_servers: BTreeSet<String>,
    /// The ids of the grants; several may have had one label.
    pub grants: BTreeSet<String>,
    /// Whether any row is of the grant.
    pub has_rows: bool,
    /// The time of the oldest row that is kept, of anybody.
    pub oldest: Option<Timestamp>,
    /// How many rows were removed from the log.
    pub pruned_rows: u64,
}

/// What was found of one server.
#[derive(Debug, Default)]
pub struct ServerUsage {
    pub draft: DraftBuilder,
    /// How many calls were sent.
    pub sent: u64,
    /// What was not sent, or led nowhere: what it was, why, and how often.
    pub left_out: BTreeMap<(String, String), u64>,
    /// Tools whose definition somebody has to accept before any policy lets them pass.
    pub unaccepted: BTreeSet<String>,
}

/// Reads the log. An outcome has only the call's id; going back, it comes before its intent.
pub async fn collect_usage(ledger: &dyn Ledger, wanted: &UsageQuery<'_>) -> Result<GrantUsage> {
    let mut gathered = GrantUsage::default();
    let mut not_sent: HashSet<CallId> = HashSet::new();
    let mut before = Some(ledger.head().await?.seq.saturating_add(1));
    loop {
        let page = ledger.rows(CallLogFilter { before, limit: PAGE_ROWS, ..CallLogFilter::default() }).await?;
        let Some(first) = page.first() else { return Ok(gathered) };
        before = Some(first.seq);
        for row in page.iter().rev() {
            let CallLogRow { record, .. } = row;
            gathered.oldest = Some(gathered.oldest.map_or(record.at, |oldest| oldest.min(record.at)));
            match record.kind {
                RecordKind::Pruned => gathered.pruned_rows += record.count.unwrap_or_default(),
                RecordKind::Outcome if record.outcome == Some(CallOutcome::NotSent) => {
                    not_sent.insert(record.call);
                }
                RecordKind::Outcome | RecordKind::Unauthenticated => {}
                RecordKind::Intent | RecordKind::Refused | RecordKind::Unchecked => {
                    let is_unsent = not_sent.remove(&record.call);
                    gathered.add(record, wanted, is_unsent);
                }
            }
        }
    }
}

impl GrantUsage {
    fn add(&mut self, record: &CallRecord, wanted: &UsageQuery<'_>, is_unsent: bool) {
        let grant = record.grant.as_ref().map(|id| id.0.as_ref());
        if grant != Some(wanted.grant) && record.label.as_deref() != Some(wanted.grant) {
            return;
        }
        self.has_rows = true;
        let Some(server) = record.server.as_ref().map(|server| server.as_str()) else { return };
        let Some(method) = record.method.as_deref().filter(|method| is_policy_relevant(method, record.kind)) else {
            return;
        };
        self.called_servers.insert(server.to_owned());
        if wanted.server.is_some_and(|wanted| wanted != server) || wanted.since.is_some_and(|since| record.at < since) {
            return;
        }
        self.grants.extend(grant.map(str::to_owned));
        let found = self.servers.entry(server.to_owned()).or_default();
        match exclusion_reason(record, is_unsent) {
            Some(why) => *found.left_out.entry((call_description(record, method), why)).or_default() += 1,
            None => found.add_sent(record, method),
        }
    }
}

/// Whether a row is about something that a policy speaks of. Of what merely passed, that is what a server asked.
fn is_policy_relevant(method: &str, kind: RecordKind) -> bool {
    let is_asked = ClientRequest::of_method(method).is_some();
    match kind {
        RecordKind::Unchecked => is_asked,
        _ => !is_always_allowed(method) && method != "response" && (is_asked || !method.starts_with("notifications/")),
    }
}

/// Why a call is no reason to allow the next one.
fn exclusion_reason(record: &CallRecord, is_unsent: bool) -> Option<String> {
    let code = record.code.as_deref().unwrap_or("no reason given");
    let is_cut = record
        .target
        .as_ref()
        .is_some_and(|target| target.ends_with('…') && target.chars().count() >= TRUNCATED_NAME_CHARS);
    if record.kind == RecordKind::Refused {
        Some(format!("refused: {code}"))
    } else if is_unsent {
        Some("the server could not be reached".to_owned())
    } else if code == "not_offered" {
        Some("the server does not offer it".to_owned())
    } else if is_cut {
        Some("the log keeps only the beginning of its name".to_owned())
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

impl ServerUsage {
    fn add_sent(&mut self, record: &CallRecord, method: &str) {
        self.sent += 1;
        if let (Some("not_accepted" | "definition_changed"), Some(target)) = (record.code.as_deref(), &record.target) {
            self.unaccepted.insert(target.to_string());
        }
        let names: Vec<&str> = record.argument_keys.iter().map(AsRef::as_ref).collect();
        // What was too long for the log is cut, and no JSON any more.
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
