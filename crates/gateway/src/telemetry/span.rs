//! Spans of client requests and upstream requests, and their attributes.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{Revision, ServerMessage, ServerResponsePayload, TraceParent, read_server_message};
use gatelodge_mutants::mutant;
use gatelodge_store::{CallId, CallOutcome, CallRecord, Clock, RecordKind, ServerName};
use http::Uri;
use jiff::Timestamp;

use super::{RequestTrace, SpanSender, UpstreamSpanContext, attribute_names};
use crate::body::tool_result::is_tool_error;

/// Kind of a span, in OpenTelemetry's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A request received from a client.
    Server,
    /// A request sent to an upstream.
    Client,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttributeValue {
    Text(String),
    Number(u64),
}

/// A span. All its values are set before it is queued for export.
#[derive(Debug)]
pub(crate) struct Span {
    pub context: TraceParent,
    pub parent: Option<TraceParent>,
    pub link: Option<TraceParent>,
    pub kind: SpanKind,
    pub name: String,
    /// Start and end in nanoseconds since the Unix epoch.
    pub start: u64,
    pub end: u64,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    pub is_error: bool,
}

impl Span {
    fn begin(own: TraceParent, kind: SpanKind, at: Timestamp, method: &str, about: Option<&str>) -> Self {
        let start = u64::try_from(at.as_nanosecond()).unwrap_or_default();
        let mut span = Self {
            context: own,
            parent: None,
            link: None,
            kind,
            name: method.to_owned(),
            start,
            end: start,
            attributes: Vec::with_capacity(20),
            is_error: false,
        };
        span.set_attribute(attribute_names::METHOD, method);
        if let (Some((name, is_in_name)), Some(about)) = (attribute_names::target_attribute(method), about) {
            span.set_attribute(name, about);
            if is_in_name {
                span.name = format!("{method} {about}");
            }
            if name == attribute_names::TOOL {
                span.set_attribute(attribute_names::OPERATION, attribute_names::EXECUTE_TOOL);
            }
        }
        span
    }

    fn set_attribute(&mut self, name: &'static str, text: impl Into<String>) {
        self.attributes.push((name, AttributeValue::Text(text.into())));
    }

    fn set_attribute_if_some<T: ToString>(&mut self, name: &'static str, text: Option<T>) {
        if let Some(text) = text {
            self.set_attribute(name, text.to_string());
        }
    }

    fn set_error(&mut self, how: impl Into<String>) {
        self.is_error = true;
        self.set_attribute(attribute_names::ERROR_TYPE, how);
    }

    /// Sets the error status from a JSON-RPC response.
    fn set_reply_status(&mut self, message: &[u8]) {
        let Ok(ServerMessage::Response(reply)) = read_server_message(message, &JsonLimits::REPLY) else { return };
        match reply.payload() {
            ServerResponsePayload::Result(result) if is_tool_error(result) => {
                self.set_error(attribute_names::TOOL_ERROR)
            }
            ServerResponsePayload::Result(_) => {}
            ServerResponsePayload::Error(_) => {
                let code = reply.error().map_or("unknown", |error| error.code).to_owned();
                self.set_attribute(attribute_names::STATUS_CODE, code.clone());
                self.set_error(code);
            }
        }
    }

    fn set_end(&mut self, started: Instant) {
        let length = u64::try_from(started.elapsed().as_nanos()).unwrap_or_default();
        self.end = self.start.saturating_add(length);
    }
}

/// Receives a copy of the reply to a client.
pub(crate) type ClientReplyCell = Arc<OnceLock<Bytes>>;

/// The span of a client request in progress. Its attributes come from the call record.
#[derive(Debug)]
pub(crate) struct ClientRequestSpan {
    span_sender: SpanSender,
    context: TraceParent,
    parent: Option<TraceParent>,
    link: Option<TraceParent>,
    session: Option<String>,
    is_http: bool,
    captured_reply: ClientReplyCell,
}

impl ClientRequestSpan {
    /// Starts the span; returns `None` if the trace is not exported.
    pub fn begin(trace: &RequestTrace, session: Option<&str>, is_http: bool) -> Option<Self> {
        Some(Self {
            span_sender: trace.span_sender.clone()?,
            context: trace.context,
            parent: trace.parent,
            link: trace.link,
            session: session.map(str::to_owned),
            is_http,
            captured_reply: ClientReplyCell::default(),
        })
    }

    /// Returns the cell that receives the reply.
    pub fn captured_reply(&self) -> ClientReplyCell {
        Arc::clone(&self.captured_reply)
    }

    /// Ends the span with the values of the call record.
    pub fn end(self, row: &CallRecord, is_allowed: bool, started: Instant) {
        let method = row.method.as_deref().unwrap_or_default();
        let mut span = Span::begin(self.context, SpanKind::Server, row.at, method, row.target.as_deref());
        (span.parent, span.link) = (self.parent, self.link);
        span.set_attribute_if_some(attribute_names::PROTOCOL_VERSION, row.revision.as_deref());
        span.set_attribute_if_some(attribute_names::SESSION, self.session);
        span.set_attribute_if_some(attribute_names::REQUEST_ID, row.request.as_deref().map(|id| id.trim_matches('"')));
        span.set_attribute(
            attribute_names::TRANSPORT,
            if self.is_http { attribute_names::TCP } else { attribute_names::PIPE },
        );
        if self.is_http {
            span.set_attribute(attribute_names::PROTOCOL, attribute_names::HTTP);
            span.set_attribute_if_some(attribute_names::CLIENT_ADDRESS, row.address.as_deref());
        }
        set_decision_attributes(&mut span, row, is_allowed);
        if mutant!("tool-result-in-span")
            && let Some(reply) = self.captured_reply.get()
        {
            span.set_attribute("gen_ai.tool.call.result", String::from_utf8_lossy(reply));
        }
        match self.captured_reply.get() {
            Some(reply) => span.set_reply_status(reply),
            None if row.outcome == Some(CallOutcome::Cancelled) => span.set_error(attribute_names::CANCELLED),
            None => {}
        }
        span.set_end(started);
        self.span_sender.push(span);
    }
}

/// Sets the attributes for the grant and the policy decision.
fn set_decision_attributes(span: &mut Span, row: &CallRecord, is_allowed: bool) {
    span.set_attribute(attribute_names::CALL, row.call.as_str());
    span.set_attribute_if_some(attribute_names::GRANT, row.label.as_deref());
    span.set_attribute_if_some(attribute_names::SERVER, row.server.as_ref());
    span.set_attribute_if_some(attribute_names::POLICY, row.policy.as_ref());
    if let Some(version) = row.policy_version {
        span.attributes.push((attribute_names::POLICY_VERSION, AttributeValue::Number(u64::from(version.0))));
    }
    let decision = match row.kind {
        RecordKind::Refused => Some("refused"),
        _ if row.observed => Some("observed"),
        _ if is_allowed => Some("allowed"),
        _ => None,
    };
    span.set_attribute_if_some(attribute_names::DECISION, decision);
    span.set_attribute_if_some(attribute_names::CODE, row.code.as_deref());
    span.set_attribute_if_some(attribute_names::RULE, row.rule.as_deref());
    span.set_attribute_if_some(attribute_names::LIMIT, row.counter.as_deref());
}

/// Attributes of an upstream request that are known when it starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpstreamSpanTarget<'a> {
    pub revision: Option<Revision>,
    pub server: &'a ServerName,
    /// URL of an HTTP server; `None` for a process.
    pub url: Option<&'a Uri>,
}

/// Outcome of an upstream request, as far as its span shows it.
#[derive(Debug)]
pub(crate) enum SpanOutcome<'a> {
    /// The upstream responded; contains the message.
    Response(&'a [u8]),
    /// The call waits for client input; this request succeeded.
    InputRequired,
    Cancelled,
    /// There is no usable response; contains the error type.
    Error(String),
}

/// The span of an upstream request in progress. Dropping it before it has ended records a timeout.
#[derive(Debug)]
pub(crate) struct UpstreamRequestSpan {
    span_sender: SpanSender,
    span: Option<Span>,
    started: Instant,
}

impl UpstreamRequestSpan {
    /// Starts the span; returns `None` if the trace is not exported.
    pub fn begin(
        trace: &RequestTrace,
        target: &UpstreamSpanTarget<'_>,
        span_context: &UpstreamSpanContext,
        call: CallId,
        clock: &dyn Clock,
    ) -> Option<Self> {
        let spans = trace.span_sender.clone()?;
        let mut span = Span::begin(
            span_context.context,
            SpanKind::Client,
            clock.now(),
            &span_context.method,
            span_context.target.as_deref(),
        );
        span.parent = Some(trace.context);
        span.set_attribute_if_some(attribute_names::PROTOCOL_VERSION, target.revision);
        span.set_attribute(attribute_names::REQUEST_ID, call.as_str());
        span.set_attribute_if_some(attribute_names::SERVER, Some(target.server));
        match target.url {
            None => span.set_attribute(attribute_names::TRANSPORT, attribute_names::PIPE),
            Some(url) => {
                span.set_attribute(attribute_names::TRANSPORT, attribute_names::TCP);
                span.set_attribute(attribute_names::PROTOCOL, attribute_names::HTTP);
                span.set_attribute_if_some(attribute_names::SERVER_ADDRESS, url.host());
                let default_port = if url.scheme_str() == Some("https") { 443 } else { 80 };
                let port = url.port_u16().unwrap_or(default_port);
                span.attributes.push((attribute_names::SERVER_PORT, AttributeValue::Number(u64::from(port))));
            }
        }
        Some(Self { span_sender: spans, span: Some(span), started: Instant::now() })
    }

    /// Ends the span with the outcome of the request.
    pub fn end(mut self, outcome: SpanOutcome<'_>) {
        self.finish(|span| match outcome {
            SpanOutcome::Response(message) => span.set_reply_status(message),
            SpanOutcome::InputRequired => {}
            SpanOutcome::Cancelled => span.set_error(attribute_names::CANCELLED),
            SpanOutcome::Error(error_type) => span.set_error(error_type),
        });
    }

    /// Ends the span of a stream. `error_type` is `None` if either side ended the stream normally.
    pub fn end_stream(mut self, error_type: Option<String>) {
        self.finish(|span| error_type.into_iter().for_each(|error_type| span.set_error(error_type)));
    }

    fn finish(&mut self, set_status: impl FnOnce(&mut Span)) {
        if let Some(mut span) = self.span.take() {
            set_status(&mut span);
            span.set_end(self.started);
            self.span_sender.push(span);
        }
    }
}

impl Drop for UpstreamRequestSpan {
    fn drop(&mut self) {
        self.finish(|span| span.set_error(attribute_names::TIMEOUT));
    }
}
