//! Writes rows of the call log, and says in the debug log what became of a call.

use gatelodge_store::{CallRecord, RecordKind};
use tracing::{error, info, warn};

use super::GatewayServices;
use crate::call_recorder::CallRecorder;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;

impl GatewayServices {
    /// Starts a record that contains the client and the server but no request.
    pub(crate) fn new_recorder(&self, ctx: &RequestContext) -> CallRecorder {
        CallRecorder::for_request(ctx, self.new_call_id(), self.clock.now())
    }

    /// Counts a refusal and writes its row.
    pub(crate) async fn record_refusal(&self, recorder: &mut CallRecorder, refusal: &Refusal) {
        self.metrics.count_refusal(refusal.code());
        self.write_row(recorder.refusal_row(refusal)).await;
    }

    /// Writes a row. No reply waits for the write; a failure is logged and counted.
    pub(crate) async fn write_row(&self, mut record: CallRecord) {
        if record.kind == RecordKind::Outcome {
            record.at = self.clock.now();
        }
        log_row(&record);
        let call = record.call;
        if let Err(error) = self.ledger.write(&record).await {
            self.metrics.lost_rows.inc();
            error!(call.id = %call, error = %error, "cannot write the record of call {call}: {error}");
        }
    }

    /// Records a rejected message. The message itself is not stored, because it could contain anything.
    pub(crate) async fn record_rejection(&self, mut recorder: CallRecorder, code: i64, message: &str) {
        self.metrics.count_refusal("rejected");
        self.write_row(recorder.rejection_row(code, message)).await;
    }

    /// Writes one row per address for the failures since the previous call.
    pub(crate) async fn write_auth_failures(&self) {
        for (address, count) in self.auth_failures.take_counts() {
            self.metrics.unauthenticated.inc_by(count);
            let mut record = CallRecord::new(RecordKind::Unauthenticated, self.new_call_id(), self.clock.now());
            record.address = Some(address);
            record.count = Some(count);
            self.write_row(record).await;
        }
    }
}

fn log_row(record: &CallRecord) {
    let call = record.call;
    let server = record.server.as_ref().map(|server| server.as_str()).unwrap_or_default();
    let target =
        record.target.as_deref().or(record.method.as_deref()).map(gatelodge_mcp::quote_excerpt).unwrap_or_default();
    let grant = record.label.as_deref().unwrap_or_default();
    let place = place_text(&target, server);
    let code = record.code.as_deref().unwrap_or_default();
    match (record.kind, code) {
        (RecordKind::Refused, "store_unavailable" | "busy") => {
            warn!(call.id = %call, server.name = server, grant.label = grant, code, "call {call} {place} refused: {code}");
        }
        (RecordKind::Refused, "upstream_unreachable" | "upstream_timeout" | "upstream_gone") => {
            let why = refusal_description(code, None);
            warn!(call.id = %call, server.name = server, grant.label = grant, code, "call {call} of `{grant}` {place} was {why}");
        }
        (RecordKind::Refused, _) => {
            let rule = record.rule.as_deref();
            let why = refusal_description(code, rule);
            info!(call.id = %call, server.name = server, grant.label = grant, code, rule.name = rule, "call {call} of `{grant}` {place} was {why}");
        }
        (RecordKind::Outcome, code) if !code.is_empty() => {
            warn!(call.id = %call, code, "call {call} ended without a response: {code}");
        }
        _ => {}
    }
}

/// Says where a call was to go. A request may have no target, and a message of the aggregate endpoint no server.
fn place_text(target: &str, server: &str) -> String {
    match (target, server) {
        ("", server) => format!("to `{server}`"),
        (target, "") => format!("to {target}"),
        (target, server) => format!("to {target} on `{server}`"),
    }
}

/// Describes a refusal for the log. An upstream failure is not called a denial, and its details appear only in the call
/// record.
fn refusal_description(code: &str, rule: Option<&str>) -> String {
    match (code, rule) {
        ("upstream_unreachable", _) => "not sent: the server cannot be reached".to_owned(),
        // A handshake or a list may have been sent, so nothing is said about that.
        ("upstream_timeout", _) => "given up: the server did not answer in time".to_owned(),
        ("cancelled", _) => "not sent: the client cancelled it".to_owned(),
        ("upstream_gone", _) => "given up: the server's response cannot be used".to_owned(),
        (_, Some(rule)) => format!("denied by {rule} ({code})"),
        (_, None) => format!("refused ({code})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_server_is_not_described_as_a_denial() {
        assert_eq!(refusal_description("upstream_unreachable", None), "not sent: the server cannot be reached");
        assert_eq!(refusal_description("denied", Some("/tools/wipe")), "denied by /tools/wipe (denied)");
        assert_eq!(refusal_description("rejected", None), "refused (rejected)");
        assert!(!refusal_description("upstream_timeout", None).contains("not sent"));
    }

    #[test]
    fn an_empty_name_is_left_out() {
        assert_eq!(place_text("`add`", "files"), "to `add` on `files`");
        assert_eq!(place_text("", "files"), "to `files`");
        assert_eq!(place_text("`tools/list`", ""), "to `tools/list`");
    }
}
