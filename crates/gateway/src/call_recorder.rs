//! Call records: an intent row before a call is sent and an outcome row after it, or a single row for a refusal.

mod argument_redaction;

use std::sync::Arc;
use std::time::Instant;

use gatelodge_json::JsonValue;
use gatelodge_mcp::ClientRequest;
use gatelodge_mutants::mutant;
use gatelodge_policy::Category;
use gatelodge_store::{CallId, CallOutcome, CallRecord, CallTimings, RecordKind};
use jiff::Timestamp;

use crate::body::arguments_digest::arguments_digest;
use crate::refusal::Refusal;
use crate::request_context::{ClientContext, RequestContext};
use crate::telemetry::{ClientReplyCell, ClientRequestSpan};
use crate::upstream::UpstreamSendError;

/// Limits on what a row stores: the number of characters in a name, URI or id, and the number of argument names.
const MAX_TEXT_CHARS: usize = 512;
const MAX_ARGUMENT_KEYS: usize = 64;

/// Collects the record of one call while it runs.
#[derive(Debug)]
pub(crate) struct CallRecorder {
    // Boxed because it is large and the recorder is moved often.
    record: Box<CallRecord>,
    started: Instant,
    timings: CallTimings,
    has_intent: bool,
    /// Span of the client's request, if tracing is enabled. It ends when the recorder is dropped.
    span: Option<Box<ClientRequestSpan>>,
}

impl CallRecorder {
    /// Starts the record of a client's request.
    pub fn start(ctx: &RequestContext, request: &ClientRequest<'_>, call: CallId, at: Timestamp) -> Self {
        let mut recorder = Self::for_request(ctx, call, at);
        recorder.set_request(request);
        recorder.span = ctx.trace.as_deref().and_then(|trace| {
            let session = ctx.session().map(|session| session.id());
            ClientRequestSpan::begin(trace, session, ctx.is_over_http()).map(Box::new)
        });
        recorder
    }

    /// Starts a record that contains the client and the server but no request.
    pub fn for_request(ctx: &RequestContext, call: CallId, at: Timestamp) -> Self {
        let mut recorder = Self::for_client(ctx.client(), call, at);
        recorder.record.server = Some(ctx.upstream.name().clone());
        if let Some(policy) = &ctx.server_access.policy {
            recorder.record.policy = Some(policy.name.clone());
            recorder.record.policy_version = Some(policy.version);
        }
        recorder
    }

    /// Starts a record for a request that is not about a single server.
    pub fn for_client(client: ClientContext<'_>, call: CallId, at: Timestamp) -> Self {
        let ClientContext { grant, address, protocol, trace } = client;
        let mut record = Box::new(CallRecord::new(RecordKind::PolicyExempt, call, at));
        record.grant = Some(grant.config.id.clone());
        record.label = Some(Arc::clone(&grant.config.label));
        record.revision = protocol.revision().map(|revision| revision.as_str().into());
        record.client = protocol.client_display_name();
        record.address = Some(Arc::clone(address));
        let trace = trace.filter(|_| !mutant!("call-record-without-trace"));
        record.trace = trace.map(|trace| trace.context.trace_id().into());
        Self { record, started: Instant::now(), timings: CallTimings::default(), has_intent: false, span: None }
    }

    pub fn set_request(&mut self, request: &ClientRequest<'_>) {
        self.record.method = Some(truncate(request.method().name()));
        self.record.request = Some(truncate(request.id().raw()));
    }

    /// Sets the target of a request that no server handles.
    pub fn set_target(&mut self, target: &str) {
        self.record.target = Some(truncate(target));
    }

    pub fn call_id(&self) -> CallId {
        self.record.call
    }

    /// Returns the cell that receives a copy of the reply for the span, if tracing is enabled.
    pub fn captured_reply(&self) -> Option<ClientReplyCell> {
        self.span.as_ref().map(|span| span.captured_reply())
    }

    pub fn started_at(&self) -> Timestamp {
        self.record.at
    }

    pub fn set_method(&mut self, method: &str) {
        self.record.method = Some(truncate(method));
    }

    /// Sets the target and the arguments. Stores the argument names and a hash, but the values only if `log_arguments`
    /// is set.
    pub fn set_subject(&mut self, ctx: &RequestContext, target: Option<&str>, arguments: Option<JsonValue<'_>>) {
        self.record.target = target.map(truncate);
        let Some(arguments) = arguments else { return };
        let mut keys: Vec<Arc<str>> = arguments
            .members()
            .take(MAX_ARGUMENT_KEYS)
            .filter_map(|(key, _)| key.as_str().map(|key| truncate(&key)))
            .collect();
        keys.sort_unstable();
        self.record.argument_keys = keys;
        self.record.arguments_digest = Some(arguments_digest(arguments, ctx.streaming_digest.as_deref()));
        if ctx.upstream.config().log_arguments {
            self.record.arguments =
                Some(argument_redaction::redacted_arguments(arguments, ctx.upstream.secret_redactor()).into());
        }
    }

    pub fn set_definition(&mut self, fingerprint: Option<Arc<str>>, category: Category) {
        self.record.definition = fingerprint;
        self.record.category = Some(category);
    }

    /// Records the rule that allowed the call.
    pub fn record_allowed(&mut self, rule: Option<&Arc<str>>) {
        self.record.rule = rule.cloned();
        self.timings.decide = self.elapsed();
    }

    /// Records a denial that is not enforced because the grant is in observe mode.
    pub fn record_observed_denial(&mut self, refusal: &Refusal) {
        self.record.observed = true;
        self.set_refusal(refusal);
    }

    fn set_refusal(&mut self, refusal: &Refusal) {
        self.record.code = Some(refusal.code().into());
        self.record.rule = refusal.rule().map(Into::into);
        self.record.counter = refusal.counter().map(Into::into);
        self.record.retry_after_seconds = refusal.retry_after_seconds();
        let mut message = refusal.message();
        // Some messages contain the detail already.
        if let Some(detail) = refusal.detail().filter(|detail| !message.contains(detail.as_str())) {
            message = format!("{message}: {detail}");
        }
        self.record.message = Some(message.into());
    }

    /// Returns the intent row, which is written before anything is sent. The kind of the record is set again for each
    /// later row.
    pub fn intent_row(&mut self) -> &CallRecord {
        if !mutant!("intent-kind-not-set") {
            self.record.kind = RecordKind::Intent;
        }
        &self.record
    }

    /// Records that the intent row is durable.
    pub fn mark_reserved(&mut self) {
        self.has_intent = true;
        self.timings.reserve = self.elapsed() - self.timings.decide;
    }

    /// Returns the outcome row, or the only row of a call that has no intent row.
    pub fn outcome_row(&mut self, outcome: CallOutcome, status: Option<u16>) -> CallRecord {
        self.timings.upstream = self.elapsed().saturating_sub(self.timings.decide + self.timings.reserve);
        let mut record = if self.has_intent {
            // The intent row has the details; both rows share the call id.
            CallRecord::new(RecordKind::Outcome, self.record.call, self.record.at)
        } else {
            // The kind is already `Intent` if writing the intent row failed.
            CallRecord { kind: RecordKind::PolicyExempt, ..CallRecord::clone(&self.record) }
        };
        self.record.outcome = Some(outcome);
        record.outcome = Some(outcome);
        record.upstream_status = status;
        record.timings = Some(self.timings);
        record
    }

    /// Returns the outcome row of a suspended call that was never resumed. Its intent row was written by another
    /// recorder.
    pub fn abandoned_row(&mut self) -> CallRecord {
        CallRecord { kind: RecordKind::Outcome, ..self.outcome_row(CallOutcome::Cancelled, None) }
    }

    /// Returns the outcome row of a sent call that got no usable response.
    pub fn failure_row(&mut self, refusal: &Refusal, outcome: CallOutcome) -> CallRecord {
        let mut record = self.outcome_row(outcome, None);
        record.code = Some(refusal.code().into());
        record.message = refusal.detail().map(Into::into);
        record
    }

    /// Returns the row of a refused call.
    pub fn refusal_row(&mut self, refusal: &Refusal) -> CallRecord {
        self.set_refusal(refusal);
        self.record.kind = RecordKind::Refused;
        self.timings.decide = self.elapsed();
        self.record.timings = Some(self.timings);
        CallRecord::clone(&self.record)
    }

    /// Returns the row of a call that the client cancelled before it was sent.
    pub fn cancelled_row(&mut self) -> CallRecord {
        self.record.outcome = Some(CallOutcome::Cancelled);
        self.refusal_row(&Refusal::Upstream(UpstreamSendError::ClientGone))
    }

    /// Returns the row for a message that is not a valid request.
    pub fn rejection_row(&mut self, code: i64, message: &str) -> CallRecord {
        self.record.kind = RecordKind::Refused;
        self.record.code = Some("rejected".into());
        self.record.message = Some(format!("{code}: {message}").into());
        CallRecord::clone(&self.record)
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        if let Some(span) = self.span.take() {
            span.end(&self.record, self.has_intent, self.started);
        }
    }
}

/// Truncates a client-supplied string for a row: refused requests cost a client nothing and must not fill the disk.
fn truncate(text: &str) -> Arc<str> {
    // Shortcut: almost all texts have fewer bytes than that.
    let is_long = text.len() > MAX_TEXT_CHARS && !mutant!("log-text-length-unlimited");
    let beyond = if is_long { text.char_indices().nth(MAX_TEXT_CHARS) } else { None };
    match beyond {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}
