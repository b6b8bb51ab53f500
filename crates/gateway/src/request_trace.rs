//! Which trace a request belongs to, and our spans in it. A caller's trace is continued whether or not we record it.

use gatelodge_mcp::{ClientMessage, TraceContext, TraceParent};
use gatelodge_mutants::mutant;
use http::header::{HeaderMap, HeaderValue};

use crate::telemetry::{SpanSender, Telemetry};

/// A request's place in a trace.
#[derive(Debug, Clone)]
pub(crate) struct RequestTrace {
    /// The caller's span; none if the trace begins here.
    pub parent: Option<TraceParent>,
    /// What the HTTP head says, where the message says another.
    pub link: Option<TraceParent>,
    /// Our span towards the caller.
    pub context: TraceParent,
    trace_state: Option<HeaderValue>,
    baggage: Option<HeaderValue>,
    /// Where our spans go; none if nobody records them.
    pub span_sender: Option<SpanSender>,
}

/// One request to an upstream, in a span of ours.
#[derive(Debug, Clone)]
pub(crate) struct UpstreamSpanContext {
    /// Our span towards the upstream.
    pub context: TraceParent,
    pub trace_state: Option<HeaderValue>,
    pub baggage: Option<HeaderValue>,
    /// What it asks for, and of whom: a name or a URI.
    pub method: String,
    pub target: Option<String>,
}

impl RequestTrace {
    /// Finds the caller's span: in the message, else in the head. Where there is none, a trace begins here only if it
    /// is recorded. What the message names and nobody can read is not made up for by the head.
    pub fn of(message: &ClientMessage<'_>, headers: Option<&HeaderMap>, telemetry: &Telemetry) -> Option<Self> {
        let in_head = headers.and_then(TraceContext::from_headers);
        let (context, link) = match message {
            ClientMessage::Request(request)
                if request.meta().has_trace_parent()
                    && !(mutant!("invalid-trace-replaced-by-header") && request.meta().trace_context().is_none()) =>
            {
                (request.meta().trace_context(), in_head)
            }
            _ => (in_head, None),
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
        // INVARIANT: both were found fit for a head.
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

    /// A span below ours, for one request to an upstream.
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

/// Without randomness there is no id that nobody else has; then the trace ends here.
fn random_span_id() -> Option<u64> {
    getrandom::u64().ok().filter(|span| *span != 0)
}

fn random_trace_id() -> Option<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(u128::from_be_bytes(bytes)).filter(|trace| *trace != 0)
}
