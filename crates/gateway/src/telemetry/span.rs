//! The two kinds of spans, and what is said in them.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{
    ProtocolGeneration, ServerMessage as Said, ServerResponsePayload, TraceParent, read_server_message,
};
use gatelodge_mutants::mutant;
use gatelodge_store::{CallId, CallOutcome, CallRecord, Clock, RecordKind as RowKind};
use jiff::Timestamp;

use super::{Spans, names};
use crate::call::{Ended, says_error};
use crate::request_context::RequestContext;
use crate::trace::Hop;
use crate::upstream::{SendError, Way};

/// Towards whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The caller.
    Server,
    /// An upstream.
    Client,
}

/// What an attribute says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
}

/// A span that has ended.
#[derive(Debug)]
pub(crate) struct Span {
    pub own: TraceParent,
    pub parent: Option<TraceParent>,
    pub link: Option<TraceParent>,
    pub kind: Kind,
    pub name: String,
    /// Nanoseconds since 1970.
    pub start: u64,
    pub end: u64,
    pub attributes: Vec<(&'static str, Value)>,
    pub is_error: bool,
}

impl Span {
    fn begin(own: TraceParent, kind: Kind, at: Timestamp, method: &str, about: Option<&str>) -> Self {
        let start = u64::try_from(at.as_nanosecond()).unwrap_or_default();
        let mut span = Self {
            own,
            parent: None,
            link: None,
            kind,
            name: method.to_owned(),
            start,
            end: start,
            attributes: Vec::with_capacity(20),
            is_error: false,
        };
        span.say(names::METHOD, method);
        if let (Some((name, is_in_name)), Some(about)) = (names::about(method), about) {
            span.say(name, about);
            if is_in_name {
                span.name = format!("{method} {about}");
            }
            if name == names::TOOL {
                span.say(names::OPERATION, names::EXECUTE_TOOL);
            }
        }
        span
    }

    fn say(&mut self, name: &'static str, text: impl Into<String>) {
        self.attributes.push((name, Value::Text(text.into())));
    }

    fn say_if<T: ToString>(&mut self, name: &'static str, text: Option<T>) {
        if let Some(text) = text {
            self.say(name, text.to_string());
        }
    }

    fn fail(&mut self, how: impl Into<String>) {
        self.is_error = true;
        self.say(names::ERROR_TYPE, how);
    }

    /// What a message says of how it went.
    fn answered(&mut self, message: &[u8]) {
        let Ok(Said::Response(reply)) = read_server_message(message, &JsonLimits::REPLY) else { return };
        match reply.payload() {
            ServerResponsePayload::Result(result) if says_error(result) => self.fail(names::TOOL_ERROR),
            ServerResponsePayload::Result(_) => {}
            ServerResponsePayload::Error(_) => {
                let code = reply.error().map_or("unknown", |error| error.code).to_owned();
                self.say(names::STATUS_CODE, code.clone());
                self.fail(code);
            }
        }
    }

    fn end_after(&mut self, started: Instant) {
        let length = u64::try_from(started.elapsed().as_nanos()).unwrap_or_default();
        self.end = self.start.saturating_add(length);
    }
}

/// Where the answer to a caller is seen.
pub(crate) type AnswerSlot = Arc<OnceLock<Bytes>>;

/// A request of a caller, while it is on its way. What is said of it is what the log says.
#[derive(Debug)]
pub(crate) struct ServerSpan {
    spans: Spans,
    own: TraceParent,
    parent: Option<TraceParent>,
    link: Option<TraceParent>,
    session: Option<String>,
    is_http: bool,
    answer: AnswerSlot,
}

impl ServerSpan {
    /// None if nobody records it.
    pub fn begin(visit: &RequestContext) -> Option<Self> {
        let trace = visit.trace.as_ref()?;
        Some(Self {
            spans: trace.spans.clone()?,
            own: trace.own,
            parent: trace.parent,
            link: trace.link,
            session: visit
                .session()
                .filter(|_| visit.generation() == ProtocolGeneration::Stateful)
                .map(|session| session.id().to_owned()),
            is_http: visit.is_over_http(),
            answer: AnswerSlot::default(),
        })
    }

    /// Where the answer is to be shown.
    pub fn answer(&self) -> AnswerSlot {
        Arc::clone(&self.answer)
    }

    /// Ends it with the row of the log.
    pub fn end(self, row: &CallRecord, is_allowed: bool, started: Instant) {
        let method = row.method.as_deref().unwrap_or_default();
        let mut span = Span::begin(self.own, Kind::Server, row.at, method, row.target.as_deref());
        (span.parent, span.link) = (self.parent, self.link);
        span.say_if(names::PROTOCOL_VERSION, row.revision.as_deref());
        span.say_if(names::SESSION, self.session);
        span.say_if(names::REQUEST_ID, row.request.as_deref().map(|id| id.trim_matches('"')));
        span.say(names::TRANSPORT, if self.is_http { names::TCP } else { names::PIPE });
        if self.is_http {
            span.say(names::PROTOCOL, names::HTTP);
            span.say_if(names::CLIENT_ADDRESS, row.address.as_deref());
        }
        decided(&mut span, row, is_allowed);
        if mutant!("tool-result-in-span")
            && let Some(answer) = self.answer.get()
        {
            span.say("gen_ai.tool.call.result", String::from_utf8_lossy(answer));
        }
        match self.answer.get() {
            Some(answer) => span.answered(answer),
            None if row.outcome == Some(CallOutcome::Cancelled) => span.fail(names::CANCELLED),
            None => {}
        }
        span.end_after(started);
        self.spans.push(span);
    }
}

/// What only we can say: who asked, and what the policy made of it.
fn decided(span: &mut Span, row: &CallRecord, is_allowed: bool) {
    span.say(names::CALL, row.call.as_str());
    span.say_if(names::GRANT, row.label.as_deref());
    span.say_if(names::SERVER, row.server.as_ref());
    span.say_if(names::POLICY, row.policy.as_ref());
    if let Some(version) = row.policy_version {
        span.attributes.push((names::POLICY_VERSION, Value::Number(u64::from(version.0))));
    }
    let decision = match row.kind {
        RowKind::Refused => Some("refused"),
        _ if row.observed => Some("observed"),
        _ if is_allowed => Some("allowed"),
        _ => None,
    };
    span.say_if(names::DECISION, decision);
    span.say_if(names::CODE, row.code.as_deref());
    span.say_if(names::RULE, row.rule.as_deref());
    span.say_if(names::LIMIT, row.counter.as_deref());
}

/// A request to an upstream, while it is on its way. Dropped before its end, it took too long.
#[derive(Debug)]
pub(crate) struct ClientSpan {
    spans: Spans,
    span: Option<Span>,
    started: Instant,
}

impl ClientSpan {
    /// None if nobody records it.
    pub fn begin(visit: &RequestContext, hop: Option<&Hop>, call: CallId, clock: &dyn Clock) -> Option<Self> {
        let (trace, hop) = (visit.trace.as_ref()?, hop?);
        let spans = trace.spans.clone()?;
        let mut span = Span::begin(hop.own, Kind::Client, clock.now(), &hop.method, hop.about.as_deref());
        span.parent = Some(trace.own);
        span.say_if(names::PROTOCOL_VERSION, visit.revision());
        span.say(names::REQUEST_ID, call.as_str());
        span.say_if(names::SERVER, Some(visit.upstream.name()));
        match &visit.upstream.config().way {
            Way::Child(_) => span.say(names::TRANSPORT, names::PIPE),
            Way::Http(to) => {
                span.say(names::TRANSPORT, names::TCP);
                span.say(names::PROTOCOL, names::HTTP);
                span.say_if(names::SERVER_ADDRESS, to.url.host());
                let usual = if to.url.scheme_str() == Some("https") { 443 } else { 80 };
                let port = to.url.port_u16().unwrap_or(usual);
                span.attributes.push((names::SERVER_PORT, Value::Number(u64::from(port))));
            }
        }
        Some(Self { spans, span: Some(span), started: Instant::now() })
    }

    /// Ends it with what came of it.
    pub fn end(mut self, ended: Result<&Ended, &SendError>) {
        self.finish(|span| match ended {
            Ok(Ended::Answer(message, _)) => span.answered(message.outline()),
            // The call waits for its client; this part of it went well.
            Ok(Ended::Asked(_)) => {}
            Ok(Ended::Cancelled) => span.fail(names::CANCELLED),
            Err(fault) => span.fail(fault.word()),
        });
    }

    /// Ends that of a stream, which either side may end in order.
    pub fn end_stream(mut self, fault: Option<&SendError>) {
        self.finish(|span| fault.into_iter().for_each(|fault| span.fail(fault.word())));
    }

    fn finish(&mut self, say: impl FnOnce(&mut Span)) {
        if let Some(mut span) = self.span.take() {
            say(&mut span);
            span.end_after(self.started);
            self.spans.push(span);
        }
    }
}

impl Drop for ClientSpan {
    fn drop(&mut self) {
        self.finish(|span| span.fail(names::TIMEOUT));
    }
}
