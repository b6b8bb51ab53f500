//! Prometheus metrics. There are few labels with few values each, and none contains text from a client.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    code: &'static str,
}

/// All counters and gauges.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    calls_answered: Counter,
    calls_refused: Family<RefusalLabels, Counter>,
    sessions: Gauge,
    dropped_messages: Counter,
    pub lost_rows: Counter,
    pub lost_spans: Counter,
    pub refused_connections: Counter,
    pub unauthenticated: Counter,
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("gatelodge");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let calls_answered = counter("calls_answered", "Calls that an upstream answered");
        let dropped_messages = counter(
            "dropped_messages",
            "Messages of servers and clients that could not be assigned to a request or session",
        );
        let lost_rows = counter("lost_rows", "Rows of the call log that could not be written");
        let lost_spans = counter("lost_spans", "Spans that could not be sent to the telemetry collector");
        let refused_connections = counter("refused_connections", "Connections refused at the connection limit");
        let unauthenticated = counter("unauthenticated", "Requests without a valid token");
        let calls_refused = Family::default();
        registry.register("calls_refused", "Calls and messages refused, by code", calls_refused.clone());
        let sessions = Gauge::default();
        registry.register("sessions", "Sessions of stateful clients", sessions.clone());
        Self {
            registry,
            calls_answered,
            calls_refused,
            sessions,
            dropped_messages,
            lost_rows,
            lost_spans,
            refused_connections,
            unauthenticated,
        }
    }

    /// Returns the counter of messages that could not be assigned to a request or session.
    pub fn dropped_messages_counter(&self) -> Counter {
        self.dropped_messages.clone()
    }

    pub fn count_dropped_message(&self) {
        self.dropped_messages.inc();
    }

    pub fn count_answered_call(&self) {
        self.calls_answered.inc();
    }

    pub fn count_refusal(&self, code: &'static str) {
        self.calls_refused.get_or_create(&RefusalLabels { code }).inc();
    }

    pub fn render(&self, sessions: usize) -> String {
        self.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
