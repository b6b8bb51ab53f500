//! Formats logged calls for the terminal.

use gatelodge_policy::format_seconds;
use gatelodge_store::{CallOutcome, CallRecord, RecordKind};

use crate::commands::time_text::local_time;
use crate::diagnostic_report::escape_for_terminal;

/// Formats a call on one line, followed by a line with the reason if it was refused or failed.
pub fn call_text(record: &CallRecord) -> String {
    let word = |text: Option<&str>| escape_for_terminal(text.unwrap_or("-"));
    let at = local_time(record.at);
    let server = record.server.as_ref().map_or("-", |server| server.as_str());
    let target = record.target.as_deref().or(record.method.as_deref());
    let (grant, target) = (word(record.label.as_deref()), word(target));
    let mut out = format!("{at}  {grant}  {server}/{target}  {}  {}\n", outcome_summary(record), record.call);
    if let Some(why) = reason_text(record) {
        out.push_str(&format!("  {}\n", escape_for_terminal(&why)));
    }
    out
}

/// Summarizes the outcome of a call in a few words.
fn outcome_summary(record: &CallRecord) -> String {
    let sent = || {
        let time = record.timings.map(|timings| format!(" in {:.1} ms", timings.upstream as f64 / 1_000.0));
        match record.outcome {
            Some(outcome) => format!("{}{}", outcome_text(outcome), time.unwrap_or_default()),
            None => "sent, no outcome".to_owned(),
        }
    };
    match record.kind {
        RecordKind::Refused => "REFUSED".to_owned(),
        RecordKind::Intent | RecordKind::Outcome if record.observed => format!("OBSERVED, {}", sent()),
        RecordKind::Intent | RecordKind::Outcome => sent(),
        RecordKind::PolicyExempt => "passed".to_owned(),
        RecordKind::Unauthenticated => format!("no valid token, {} requests", record.count.unwrap_or(1)),
        RecordKind::Pruned => format!("older rows removed through {}", record.through.as_deref().unwrap_or("-")),
    }
}

fn outcome_text(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Ok => "ok",
        CallOutcome::ToolError => "the tool failed",
        CallOutcome::Error => "the server returned an error",
        CallOutcome::NotSent => "not sent, charges released",
        CallOutcome::Timeout => "timed out",
        CallOutcome::NoValidResponse => "connection lost",
        CallOutcome::Cancelled => "cancelled",
    }
}

/// Explains why a call was refused, would have been refused, or failed: gives the code, the rule, the policy and the
/// message sent to the client.
fn reason_text(record: &CallRecord) -> Option<String> {
    let code = record.code.as_deref()?;
    let rule = record.rule.as_deref().map(|rule| format!(" by {rule}")).unwrap_or_default();
    let policy = record.policy.as_ref().map(|policy| {
        let version = record.policy_version.map(|version| format!(" version {version}")).unwrap_or_default();
        format!(" of `{policy}`{version}")
    });
    let message = record.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    // The message usually says it already. Older records say "room again in".
    let is_in_message = ["resets in", "room again"].iter().any(|words| message.contains(words));
    let retry = record.retry_after_seconds.filter(|_| !is_in_message);
    let retry = retry.map(|seconds| format!("; resets in {}", format_seconds(seconds))).unwrap_or_default();
    Some(format!("{code}{rule}{}{message}{retry}", policy.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use gatelodge_store::CallId;

    use super::*;

    #[test]
    fn call_refused_by_a_limit_says_once_when_the_limit_resets() {
        let at = "2026-11-15T12:00:00Z".parse().expect("a time");
        let mut record = CallRecord::new(RecordKind::Refused, CallId::new(at, [7; 10]), at);
        record.code = Some("limit".into());
        assert!(!call_text(&record).contains("resets in"));
        record.retry_after_seconds = Some(65_355);
        assert!(call_text(&record).ends_with("  limit; resets in 18 h 9 min\n"), "{}", call_text(&record));
        record.message = Some("2 per day, resets in 18 h 9 min".into());
        assert_eq!(call_text(&record).matches("resets in").count(), 1);
        record.message = Some("2 per day, room again in 65355 s".into());
        assert_eq!(call_text(&record).matches("resets in").count(), 0, "older records");
    }
}
