//! The trace that a request belongs to, and the gateway's spans in it. A client's trace is propagated whether or not
//! spans are exported.

use gatelodge_mcp::{ClientMessage, TraceContext, TraceParent};
use gatelodge_mutants::mutant;
use http::header::{HeaderMap, HeaderValue};

use super::{OtlpTraceExport, SpanSender};

/// Position of a request in a trace.
#[derive(Debug, Clone)]
pub(crate) struct RequestTrace {
    /// The client's span; `None` if the trace starts here.
    pub parent: Option<TraceParent>,
    /// The trace context from the HTTP headers, if it differs from the one in the message.
    pub link: Option<TraceParent>,
    /// The gateway's server span.
    pub context: TraceParent,
    trace_state: Option<HeaderValue>,
    baggage: Option<HeaderValue>,
    /// Exports spans; `None` if the trace is not exported.
    pub span_sender: Option<SpanSender>,
}

/// Trace context of one request to an upstream.
#[derive(Debug, Clone)]
pub(crate) struct UpstreamSpanContext {
    /// The gateway's client span for the request.
    pub context: TraceParent,
    pub trace_state: Option<HeaderValue>,
    pub baggage: Option<HeaderValue>,
    /// The request's method.
    pub method: String,
    /// Name or URI that the request is about.
    pub target: Option<String>,
}

impl RequestTrace {
    /// Reads the client's span from the message or, if it has none, from the headers. Without a client span, a trace is
    /// started only if spans are exported. An invalid context in the message is not replaced by the one in the headers.
    pub fn of(message: &ClientMessage<'_>, headers: Option<&HeaderMap>, telemetry: &OtlpTraceExport) -> Option<Self> {
        let header_context = headers.and_then(TraceContext::from_headers);
        let (context, link) = match message {
            ClientMessage::Request(request)
                if request.meta().has_trace_parent()
                    && !(mutant!("invalid-trace-replaced-by-header") && request.meta().trace_context().is_none()) =>
            {
                (request.meta().trace_context(), header_context)
            }
            _ => (header_context, None),
        };
        let is_request = matches!(message, ClientMessage::Request(_));
        let own = match &context {
            Some(context) => context.parent.with_span(random_span_id()?),
            None if telemetry.is_enabled() && is_request => TraceParent::root(random_trace_id()?, random_span_id()?),
            None => return None,
        };
        let parent = context.as_ref().map(|context| context.parent);
        let link = link.map(|context| context.parent).filter(|link| Some(*link) != parent);
        let (state, baggage) = context.map(|context| (context.state, context.baggage)).unwrap_or_default();
        // INVARIANT: `TraceContext` accepts only text that is valid in a header.
        let value = |text: Option<String>| text.and_then(|text| HeaderValue::try_from(text).ok());
        let spans = telemetry.span_sender().filter(|_| own.is_sampled() || mutant!("unsampled-trace-exported"));
        Some(Self {
            parent,
            link,
            context: own,
            trace_state: value(state),
            baggage: value(baggage),
            span_sender: spans,
        })
    }

    /// Returns a child span for one request to an upstream.
    pub fn upstream_span(&self, method: &str, about: Option<&str>) -> Option<UpstreamSpanContext> {
        Some(UpstreamSpanContext {
            context: match self.parent {
                Some(parent) if mutant!("client-span-forwarded") => parent,
                _ => self.context.with_span(random_span_id()?),
            },
            trace_state: self.trace_state.clone(),
            baggage: self.baggage.clone(),
            method: method.to_owned(),
            target: about.map(str::to_owned),
        })
    }
}

/// Returns a random span id, or `None` if no random bytes are available. The trace then ends here, because ids must be
/// unique.
fn random_span_id() -> Option<u64> {
    getrandom::u64().ok().filter(|span| *span != 0)
}

fn random_trace_id() -> Option<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(u128::from_be_bytes(bytes)).filter(|trace| *trace != 0)
}
