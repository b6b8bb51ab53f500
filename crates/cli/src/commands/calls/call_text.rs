//! A call as people read it.

use gatelodge_store::{CallOutcome, CallRecord, RecordKind};

use crate::diagnostic_report::escape_for_terminal;

/// A call on one line, and why on the next.
pub fn call_text(record: &CallRecord) -> String {
    let word = |text: Option<&str>| escape_for_terminal(text.unwrap_or("-"));
    let at = record.at.strftime("%Y-%m-%d %H:%M:%S");
    let server = record.server.as_ref().map_or("-", |server| server.as_str());
    let target = record.target.as_deref().or(record.method.as_deref());
    let (who, what) = (word(record.label.as_deref()), word(target));
    let mut out = format!("{at}Z  {who}  {server}/{what}  {}  {}\n", outcome_summary(record), record.call);
    if let Some(why) = reason_text(record) {
        out.push_str(&format!("  {}\n", escape_for_terminal(&why)));
    }
    out
}

/// How the call went, in a few words.
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
        RecordKind::Unchecked => "passed".to_owned(),
        RecordKind::Unauthenticated => format!("no valid token, {} requests", record.count.unwrap_or(1)),
        RecordKind::Pruned => format!("older rows removed through {}", record.through.as_deref().unwrap_or("-")),
    }
}

fn outcome_text(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Ok => "ok",
        CallOutcome::ToolError => "the tool failed",
        CallOutcome::Error => "the server gave an error",
        CallOutcome::NotSent => "not sent, charges given back",
        CallOutcome::Timeout => "no answer in time",
        CallOutcome::ConnectionLost => "the connection broke",
        CallOutcome::Cancelled => "cancelled",
    }
}

/// Why it was refused, would have been, or failed: code, rule, and what the caller was told.
fn reason_text(record: &CallRecord) -> Option<String> {
    let code = record.code.as_deref()?;
    let rule = record.rule.as_deref().map(|rule| format!(" by {rule}")).unwrap_or_default();
    let policy = record.policy.as_ref().map(|policy| {
        let version = record.policy_version.map(|version| format!(" version {version}")).unwrap_or_default();
        format!(" of `{policy}`{version}")
    });
    let message = record.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    // What the caller was told says it already, in words; it is not said twice.
    let untold = record.retry_after_seconds.filter(|_| !message.contains("room again"));
    let room = untold.map(|seconds| format!("; room again in {seconds} s")).unwrap_or_default();
    Some(format!("{code}{rule}{}{message}{room}", policy.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use gatelodge_store::CallId;

    use super::*;

    #[test]
    fn a_call_stopped_by_a_limit_says_when_there_is_room() {
        let at = "2026-11-15T12:00:00Z".parse().expect("a time");
        let mut record = CallRecord::new(RecordKind::Refused, CallId::new(at, [7; 10]), at);
        record.code = Some("limit".into());
        assert!(!call_text(&record).contains("room again"));
        record.retry_after_seconds = Some(3_600);
        assert!(call_text(&record).ends_with("  limit; room again in 3600 s\n"), "{}", call_text(&record));
        record.message = Some("2 per day, room again in 3600 s".into());
        assert_eq!(call_text(&record).matches("room again").count(), 1);
    }
}
