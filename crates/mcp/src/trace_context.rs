//! W3C trace context of a request, in `params._meta` or in HTTP headers.
//!
//! Invalid values are not forwarded, because a server would treat them as trace context.

use std::borrow::Cow;
use std::fmt;

use gatelodge_json::JsonValue;
use http::header::{HeaderMap, HeaderName};

use crate::client_message::ClientRequest;
use crate::message_rewrite::{TextEdit, removal_edits};
use crate::request_meta::RequestMeta;

/// Header with the span in which a request was sent.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Header with vendor-specific tracing state.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// Header with key-value pairs that an application passes to all services that handle a request.
pub const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// The specifications require values up to these sizes to be forwarded; longer values are dropped.
const MAX_TRACESTATE_BYTES: usize = 512;
const MAX_BAGGAGE_BYTES: usize = 8_192;
/// Length of a version 0 `traceparent` in bytes. Later versions may be longer, up to [`MAX_TRACEPARENT_BYTES`].
const VERSION_0_BYTES: usize = 55;
const MAX_TRACEPARENT_BYTES: usize = 256;
/// The flags defined by the `traceparent` version that we write: sampled, and random trace id.
const KNOWN_FLAGS: u8 = 0b11;

/// A `traceparent` value: a span of a trace.
///
/// ```
/// use gatelodge_mcp::TraceParent;
///
/// let own = TraceParent::read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").expect("valid");
/// assert!(own.is_sampled());
/// assert_eq!(own.with_span(1).to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01");
/// assert_eq!(TraceParent::read("not a trace parent"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace id, which is never zero.
    pub trace: u128,
    /// The span id, which is never zero.
    pub span: u64,
    flags: u8,
}

/// Trace context of a request, as its client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The client's span.
    pub parent: TraceParent,
    /// The `tracestate` value, if there is a valid one.
    pub state: Option<String>,
    /// The `baggage` value, if there is a valid one.
    pub baggage: Option<String>,
}

impl TraceParent {
    /// Makes the first span of a new trace, with the sampled flag set.
    pub fn root(trace: u128, span: u64) -> Self {
        Self { trace, span, flags: KNOWN_FLAGS }
    }

    /// Parses a `traceparent` value; `None` if it is invalid.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '-');
        let (version, trace) = (parse_hex(parts.next()?, 2)?, parse_hex(parts.next()?, 32)?);
        let (span, flags) = (parse_hex(parts.next()?, 16)?, parse_hex(parts.next()?, 2)?);
        let is_whole = match version {
            0 => text.len() == VERSION_0_BYTES,
            // Extensions of a later version are not forwarded: we write the version that we know.
            1..0xff => text.len() <= MAX_TRACEPARENT_BYTES,
            _ => false,
        };
        let (span, flags) = (u64::try_from(span).ok()?, u8::try_from(flags).ok()? & KNOWN_FLAGS);
        (is_whole && trace != 0 && span != 0).then_some(Self { trace, span, flags })
    }

    /// Makes another span of the same trace, with the same flags.
    pub fn with_span(&self, span: u64) -> Self {
        Self { span, ..*self }
    }

    /// Returns whether the sampled flag is set, which means that the caller records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The trace id in hexadecimal.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

fn parse_hex(text: &str, length: usize) -> Option<u128> {
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() == length && is_hex { u128::from_str_radix(text, 16).ok() } else { None }
}

/// Returns whether a value may be forwarded: it is neither empty nor too long, and is valid in a header.
fn is_valid_text(text: &str, max: usize) -> bool {
    !text.is_empty() && text.len() <= max && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

impl TraceContext {
    /// The trace context in HTTP headers; `None` if there is no valid `traceparent`.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let (first, second) = (parents.next()?, parents.next());
        let parent = TraceParent::read(first.to_str().ok()?).filter(|_| second.is_none())?;
        let joined = |name: HeaderName, max: usize| {
            let values: Option<Vec<&str>> = headers.get_all(name).iter().map(|value| value.to_str().ok()).collect();
            Some(values?.join(",")).filter(|text| is_valid_text(text, max))
        };
        Some(Self {
            parent,
            state: joined(TRACESTATE, MAX_TRACESTATE_BYTES),
            baggage: joined(BAGGAGE, MAX_BAGGAGE_BYTES),
        })
    }
}

impl<'d> RequestMeta<'d> {
    /// Returns whether the client sent a `traceparent` in `_meta`, valid or not.
    pub fn has_trace_parent(&self) -> bool {
        self.get(TRACEPARENT.as_str()).is_some()
    }

    /// The trace context in `_meta`; `None` if there is no valid `traceparent`.
    pub fn trace_context(&self) -> Option<TraceContext> {
        let parent = TraceParent::read(&self.get(TRACEPARENT.as_str())?.as_str()?)?;
        let valid = |name: HeaderName, max| valid_text(self.get(name.as_str())?, max).map(Cow::into_owned);
        Some(TraceContext {
            parent,
            state: valid(TRACESTATE, MAX_TRACESTATE_BYTES),
            baggage: valid(BAGGAGE, MAX_BAGGAGE_BYTES),
        })
    }
}

fn valid_text(value: JsonValue<'_>, max: usize) -> Option<Cow<'_, str>> {
    value.as_str().filter(|text| is_valid_text(text, max))
}

impl ClientRequest<'_> {
    /// Returns the edits to `_meta` for forwarding a request: they replace the client's span with `own` and remove
    /// invalid values, but add nothing. If `own` is `None`, the client's span is removed, and `tracestate` with it,
    /// since it has no meaning on its own.
    pub(crate) fn trace_edits(&self, own: Option<&TraceParent>) -> Vec<TextEdit<'static>> {
        let meta = self.meta();
        let Some(object) = meta.value() else { return Vec::new() };
        let traceparent = meta.get(TRACEPARENT.as_str());
        let own = own.filter(|_| meta.trace_context().is_some());
        let is_invalid = |name: &str, max| meta.get(name).is_some_and(|value| valid_text(value, max).is_none());
        let is_removed = traceparent.is_some() && own.is_none();
        let is_gone = |name: &str| match name {
            "traceparent" => is_removed,
            "tracestate" => is_removed || is_invalid(name, MAX_TRACESTATE_BYTES),
            "baggage" => is_invalid(name, MAX_BAGGAGE_BYTES),
            _ => false,
        };
        let mut edits = removal_edits(object, is_gone);
        if let (Some(traceparent), Some(own)) = (traceparent, own) {
            edits.push(TextEdit { span: traceparent.span(), replacement: format!("\"{own}\"").into() });
        }
        edits
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa01c902b7-01";

    #[test]
    fn a_traceparent_is_written_as_it_was_read() {
        let parent = TraceParent::read(GOOD).expect("one");
        assert_eq!(parent.to_string(), GOOD);
        assert!(parent.is_sampled());
        assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.with_span(1).to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01");
    }

    #[test]
    fn a_later_version_is_forwarded_as_the_version_we_know() {
        for later in [GOOD.replacen("00", "cc", 1), format!("{}-what-comes", GOOD.replacen("00", "01", 1))] {
            assert_eq!(TraceParent::read(&later).expect("one").to_string(), GOOD, "{later}");
        }
        let flags = GOOD.replace("-01", "-ff");
        assert_eq!(TraceParent::read(&flags).expect("one").to_string(), GOOD.replace("-01", "-03"));
    }

    #[test]
    fn an_invalid_traceparent_is_none() {
        let long = format!("01{}-{}", GOOD.get(2..).unwrap_or_default(), "x".repeat(300));
        for text in [
            "",
            "00-1",
            &GOOD.to_uppercase(),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            &GOOD.replace("00f067aa01c902b7", "0000000000000000"),
            &GOOD.replace("00f067aa01c902b7", "+0f067aa01c902b7"),
            &format!("{GOOD}-more"),
            &format!(" {GOOD}"),
            &format!("{GOOD} "),
            &GOOD.replace('-', "_"),
            &long,
        ] {
            assert_eq!(TraceParent::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_repeated_traceparent_is_refused_and_tracestate_headers_are_joined() {
        let mut headers = HeaderMap::new();
        headers.append(TRACESTATE, HeaderValue::from_static("a=1"));
        assert_eq!(TraceContext::from_headers(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        headers.append(TRACESTATE, HeaderValue::from_static("b=2"));
        let found = TraceContext::from_headers(&headers).expect("one");
        assert_eq!((found.state.as_deref(), found.baggage), (Some("a=1,b=2"), None));
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert_eq!(TraceContext::from_headers(&headers), None);
    }
}
