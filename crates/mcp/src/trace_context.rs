//! Trace context, as W3C writes it: which span a request belongs to, in `params._meta` or in an HTTP head.
//!
//! What is no such text is not passed on under its name: a server would take it for one.

use std::borrow::Cow;
use std::fmt;

use gatelodge_json::JsonValue;
use http::header::{HeaderMap, HeaderName};

use crate::client_message::ClientRequest;
use crate::message_rewrite::{TextEdit, removal_edits};
use crate::request_meta::RequestMeta;

/// The span that a request was sent in.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What tracing systems say of it to one another.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// What an application says to all who work for the request.
pub const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// The most bytes that have to be passed on; more is not.
const MAX_TRACESTATE_BYTES: usize = 512;
const MAX_BAGGAGE_BYTES: usize = 8_192;
/// The length of the first version. Later ones may be longer, within reason.
const VERSION_0_BYTES: usize = 55;
const MAX_TRACEPARENT_BYTES: usize = 256;
/// The flags that the version we write knows: sampled, and that the trace's id is random.
const KNOWN_FLAGS: u8 = 0b11;

/// A span of a trace: `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace, not zero.
    pub trace: u128,
    /// The span, not zero.
    pub span: u64,
    flags: u8,
}

/// Where a request comes from, as its caller says: a span, and what is told along with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The caller's span.
    pub parent: TraceParent,
    /// `tracestate`.
    pub state: Option<String>,
    /// `baggage`.
    pub baggage: Option<String>,
}

impl TraceParent {
    /// The first span of a trace of our own, which is sampled.
    pub fn root(trace: u128, span: u64) -> Self {
        Self { trace, span, flags: KNOWN_FLAGS }
    }

    /// Reads the text; none if it is not one.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '-');
        let (version, trace) = (parse_hex(parts.next()?, 2)?, parse_hex(parts.next()?, 32)?);
        let (span, flags) = (parse_hex(parts.next()?, 16)?, parse_hex(parts.next()?, 2)?);
        let is_whole = match version {
            0 => text.len() == VERSION_0_BYTES,
            // What a later version adds is not passed on: we write the one we know.
            1..0xff => text.len() <= MAX_TRACEPARENT_BYTES,
            _ => false,
        };
        let (span, flags) = (u64::try_from(span).ok()?, u8::try_from(flags).ok()? & KNOWN_FLAGS);
        (is_whole && trace != 0 && span != 0).then_some(Self { trace, span, flags })
    }

    /// Another span of the same trace, recorded if this one is.
    pub fn with_span(&self, span: u64) -> Self {
        Self { span, ..*self }
    }

    /// Whether those before us record the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The trace's id as it is written.
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

/// Whether a text is fit to be told to others: short, and such that a head can hold it.
fn is_valid_text(text: &str, max: usize) -> bool {
    !text.is_empty() && text.len() <= max && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

impl TraceContext {
    /// What the head of an HTTP request says; none if it names no span, or none that can be read.
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
    /// Whether the caller names a span here, be it one that can be read or not.
    pub fn has_trace_parent(&self) -> bool {
        self.get(TRACEPARENT.as_str()).is_some()
    }

    /// The caller's span, and what is told along with it; none if it names none, or none that can be read.
    pub fn trace_context(&self) -> Option<TraceContext> {
        let parent = TraceParent::read(&self.get(TRACEPARENT.as_str())?.as_str()?)?;
        let fit = |name: HeaderName, max| valid_text(self.get(name.as_str())?, max).map(Cow::into_owned);
        Some(TraceContext {
            parent,
            state: fit(TRACESTATE, MAX_TRACESTATE_BYTES),
            baggage: fit(BAGGAGE, MAX_BAGGAGE_BYTES),
        })
    }
}

fn valid_text(value: JsonValue<'_>, max: usize) -> Option<Cow<'_, str>> {
    value.as_str().filter(|text| is_valid_text(text, max))
}

impl ClientRequest<'_> {
    /// What changes in `_meta` when the request goes on in `own`, a span of ours: it takes the place of the caller's.
    /// Nothing is added, and what cannot be read is left out; without a span, `tracestate` means nothing.
    pub(crate) fn trace_edits(&self, own: Option<&TraceParent>) -> Vec<TextEdit<'static>> {
        let meta = self.meta();
        let Some(object) = meta.value() else { return Vec::new() };
        let place = meta.get(TRACEPARENT.as_str());
        let own = own.filter(|_| meta.trace_context().is_some());
        let is_unfit = |name: &str, max| meta.get(name).is_some_and(|value| valid_text(value, max).is_none());
        let is_lost = place.is_some() && own.is_none();
        let gone = |name: &str| match name {
            "traceparent" => is_lost,
            "tracestate" => is_lost || is_unfit(name, MAX_TRACESTATE_BYTES),
            "baggage" => is_unfit(name, MAX_BAGGAGE_BYTES),
            _ => false,
        };
        let mut edits = removal_edits(object, gone);
        if let (Some(place), Some(own)) = (place, own) {
            edits.push(TextEdit { span: place.span(), replacement: format!("\"{own}\"").into() });
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
    fn a_span_is_read_and_written_alike() {
        let parent = TraceParent::read(GOOD).expect("one");
        assert_eq!(parent.to_string(), GOOD);
        assert!(parent.is_sampled());
        assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.with_span(1).to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01");
    }

    #[test]
    fn a_later_version_goes_on_as_the_one_we_know() {
        for later in [GOOD.replacen("00", "cc", 1), format!("{}-what-comes", GOOD.replacen("00", "01", 1))] {
            assert_eq!(TraceParent::read(&later).expect("one").to_string(), GOOD, "{later}");
        }
        let flags = GOOD.replace("-01", "-ff");
        assert_eq!(TraceParent::read(&flags).expect("one").to_string(), GOOD.replace("-01", "-03"));
    }

    #[test]
    fn what_is_no_span_is_none() {
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
    fn a_head_names_one_span_and_may_have_more_lines_of_the_rest() {
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
