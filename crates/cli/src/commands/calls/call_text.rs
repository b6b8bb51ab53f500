//! Formats logged calls for the terminal.

use gatelodge_policy::format_seconds;
use gatelodge_store::{CallOutcome, CallRecord, RecordKind};

use crate::commands::time_text::local_time;
use crate::diagnostic_report::{count_noun, escape_for_terminal};

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
        let time = record.timings.map(|timings| format!(" in {}", time_text(timings.upstream)));
        match record.outcome {
            Some(CallOutcome::NoValidResponse) => {
                format!("{}{}", invalid_response_text(record), time.unwrap_or_default())
            }
            Some(outcome) => format!("{}{}", outcome_text(outcome), time.unwrap_or_default()),
            None => "sent, no outcome".to_owned(),
        }
    };
    match record.kind {
        RecordKind::Refused => "REFUSED".to_owned(),
        RecordKind::Intent | RecordKind::Outcome if record.observed => format!("OBSERVED, {}", sent()),
        RecordKind::Intent | RecordKind::Outcome => sent(),
        RecordKind::PolicyExempt => "passed".to_owned(),
        RecordKind::Unauthenticated => {
            format!("no valid token, {}", count_noun(record.count.unwrap_or(1) as usize, "request"))
        }
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

/// Says what was wrong with the response. The row has only one outcome for it, so the HTTP status and the message tell.
fn invalid_response_text(record: &CallRecord) -> String {
    let message = record.message.as_deref().unwrap_or_default();
    let is_unreadable = message.contains("response cannot be read")
        || (message.contains("the response ") && !message.contains("ended early"));
    let status = record.upstream_status.filter(|status| *status >= 300).or_else(|| written_status(message));
    match status {
        Some(status @ (401 | 403)) => format!("credential rejected (HTTP status {status})"),
        Some(status) => format!("server error (HTTP status {status})"),
        None if is_unreadable => "unreadable response".to_owned(),
        None => outcome_text(CallOutcome::NoValidResponse).to_owned(),
    }
}

/// Finds the status in a message such as `the server answered with HTTP status 500`.
fn written_status(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("HTTP status ")?;
    rest.get(..3)?.parse().ok()
}

/// Formats microseconds: `3.2 ms`, from a second on `12.5 s`, from a minute on `4 min 50 s`.
fn time_text(microseconds: u64) -> String {
    match microseconds {
        0..1_000_000 => format!("{:.1} ms", microseconds as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.1} s", microseconds as f64 / 1e6),
        _ => format_seconds(microseconds / 1_000_000),
    }
}

/// Explains why a call was refused, would have been refused, or failed: gives the code, the rule, the policy and the
/// message sent to the client.
fn reason_text(record: &CallRecord) -> Option<String> {
    let code = record.code.as_deref()?;
    let rule = record.rule.as_deref().map(|rule| format!(" by {rule}")).unwrap_or_default();
    let policy = record.policy.as_ref().map(|policy| {
        let version = record.policy_version.map(|version| format!(" version {version}")).unwrap_or_default();
        if rule.is_empty() { format!(" (policy `{policy}`{version})") } else { format!(" of `{policy}`{version}") }
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
    use gatelodge_store::{CallId, PolicyVersionNumber};

    use super::*;

    #[test]
    fn an_unusable_response_is_described_by_its_status_or_message() {
        let at = "2026-11-15T12:00:00Z".parse().expect("a time");
        let mut record = CallRecord::new(RecordKind::Outcome, CallId::new(at, [7; 10]), at);
        record.outcome = Some(CallOutcome::NoValidResponse);
        record.upstream_status = Some(200);
        for (message, text) in [
            ("HTTP status 500", "server error (HTTP status 500)"),
            ("HTTP status 401", "credential rejected (HTTP status 401)"),
            ("the response cannot be read: unexpected end of text", "unreadable response"),
            ("the response is neither JSON nor an event stream", "unreadable response"),
            ("the response ended early: connection reset", "connection lost"),
            ("connection closed before message completed", "connection lost"),
        ] {
            record.message = Some(message.into());
            assert_eq!(outcome_summary(&record), text);
        }
        record.upstream_status = Some(503);
        assert_eq!(outcome_summary(&record), "server error (HTTP status 503)");
    }

    #[test]
    fn long_times_are_not_in_milliseconds() {
        assert_eq!(time_text(3_240), "3.2 ms");
        assert_eq!(time_text(12_500_000), "12.5 s");
        assert_eq!(time_text(290_001_400), "4 min 50 s");
    }

    #[test]
    fn a_policy_without_a_deciding_rule_is_named_in_parentheses() {
        let at = "2026-11-15T12:00:00Z".parse().expect("a time");
        let mut record = CallRecord::new(RecordKind::Refused, CallId::new(at, [7; 10]), at);
        record.code = Some("not_listed".into());
        record.policy = Some("files".parse().expect("a name"));
        record.policy_version = Some(PolicyVersionNumber(3));
        assert!(call_text(&record).ends_with("\n  not_listed (policy `files` version 3)\n"), "{}", call_text(&record));
        record.rule = Some("/default".into());
        let text = call_text(&record);
        assert!(text.ends_with("\n  not_listed by /default of `files` version 3\n"), "{text}");
    }

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
