//! What we tell an OpenTelemetry collector, if anybody wants it: a span for each request of a caller, and one for each
//! request to an upstream. No call waits for it and none fails by it: what does not fit in the queue is dropped and
//! counted. Arguments, results and tokens are never told.

mod export;
mod names;
mod otlp;
mod span;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gatelodge_mutants::mutant;
use http::Uri;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};

pub(crate) use span::{AnswerSlot, ClientSpan, ServerSpan};

use self::export::Exporter;
use self::span::Span;
use crate::upstream::InjectedHeader;

/// How long the last spans may take when the gateway stops.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where spans are sent: a collector that takes OTLP over HTTP, in protobuf.
#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    /// The URL for traces, with its path.
    pub url: Uri,
    /// What is sent with each request.
    pub headers: Vec<InjectedHeader>,
    /// What is said of the gateway itself, `service.name` among it.
    pub resource: Vec<(String, String)>,
    /// Time for one request.
    pub timeout: Duration,
    /// How long spans wait for others to be sent with them.
    pub delay: Duration,
    /// Spans that wait; more are dropped.
    pub queue: usize,
    /// Spans that are sent together.
    pub batch: usize,
}

impl TelemetryConfig {
    /// As OpenTelemetry has it where nothing else is said.
    pub fn to(url: Uri) -> Self {
        Self {
            url,
            headers: Vec::new(),
            resource: vec![("service.name".to_owned(), "gatelodge".to_owned())],
            timeout: Duration::from_secs(10),
            delay: Duration::from_secs(5),
            queue: 2_048,
            batch: 512,
        }
    }
}

/// What goes through the queue.
enum Item {
    Span(Box<Span>),
    /// All that came before is to be sent now.
    Flush(oneshot::Sender<()>),
}

/// The way to the collector; there is none unless it is configured.
pub(crate) struct Telemetry {
    spans: Option<Spans>,
    /// Taken when the gateway begins to run.
    exporter: Mutex<Option<Exporter>>,
}

/// Where finished spans go.
#[derive(Clone)]
pub(crate) struct Spans {
    queue: mpsc::Sender<Item>,
    lost: Counter,
}

impl Telemetry {
    pub fn new(config: Option<&TelemetryConfig>, lost: Counter) -> Self {
        let Some(config) = config else { return Self { spans: None, exporter: Mutex::default() } };
        let (queue, items) = mpsc::channel(config.queue.max(1));
        let exporter = Exporter::new(config.clone(), items, lost.clone());
        Self { spans: Some(Spans { queue, lost }), exporter: Mutex::new(Some(exporter)) }
    }

    pub fn is_on(&self) -> bool {
        self.spans.is_some()
    }

    pub fn spans(&self) -> Option<Spans> {
        self.spans.clone()
    }

    /// Begins to send.
    pub fn start(&self) {
        let exporter = self.exporter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(exporter) = exporter {
            tokio::spawn(exporter.run());
        }
    }

    /// Sends what waits, as far as that is quickly done.
    pub async fn flush(&self) {
        let Some(spans) = &self.spans else { return };
        let (done, over) = oneshot::channel();
        let flushing = async {
            if spans.queue.send(Item::Flush(done)).await.is_ok() {
                let _ = over.await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, flushing).await;
    }
}

impl Spans {
    fn push(&self, span: Span) {
        if self.queue.try_send(Item::Span(Box::new(span))).is_err() {
            if mutant!("full-span-queue-blocks-call") {
                std::thread::sleep(Duration::from_secs(3));
            }
            self.lost.inc();
        }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("is_on", &self.is_on()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("room", &self.queue.capacity()).finish_non_exhaustive()
    }
}
