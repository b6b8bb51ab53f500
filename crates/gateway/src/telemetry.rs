//! What we tell an OpenTelemetry collector, if anybody wants it: a span for each request of a caller, and one for each
//! request to an upstream. No call waits for it and none fails by it: what does not fit in the queue is dropped and
//! counted. Arguments, results and tokens are never told.

mod attribute_names;
mod otlp;
mod span;
mod span_exporter;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gatelodge_mutants::mutant;
use http::Uri;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};

pub(crate) use span::{CapturedReply, ClientSpan, ServerSpan};

use self::span::Span;
use self::span_exporter::SpanExporter;
use crate::upstream::InjectedHeader;

/// How long the last spans may take when the gateway stops.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Where spans are sent: a collector that takes OTLP over HTTP, in protobuf.
#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    /// The URL for traces, with its path.
    pub url: Uri,
    /// What is sent with each request.
    pub headers: Vec<InjectedHeader>,
    /// What is said of the gateway itself, `service.name` among it.
    pub resource_attributes: Vec<(String, String)>,
    /// Time for one request.
    pub timeout: Duration,
    /// How long spans wait for others to be sent with them.
    pub batch_delay: Duration,
    /// Spans that wait; more are dropped.
    pub queue_length: usize,
    /// Spans that are sent together.
    pub batch_size: usize,
}

impl TelemetryConfig {
    /// As OpenTelemetry has it where nothing else is said.
    pub fn with_url(url: Uri) -> Self {
        Self {
            url,
            headers: Vec::new(),
            resource_attributes: vec![("service.name".to_owned(), "gatelodge".to_owned())],
            timeout: Duration::from_secs(10),
            batch_delay: Duration::from_secs(5),
            queue_length: 2_048,
            batch_size: 512,
        }
    }
}

/// What goes through the queue.
enum ExportItem {
    Span(Box<Span>),
    /// All that came before is to be sent now.
    Flush(oneshot::Sender<()>),
}

/// The way to the collector; there is none unless it is configured.
pub(crate) struct Telemetry {
    span_sender: Option<SpanSender>,
    /// Taken when the gateway begins to run.
    exporter: Mutex<Option<SpanExporter>>,
}

/// Where finished spans go.
#[derive(Clone)]
pub(crate) struct SpanSender {
    queue: mpsc::Sender<ExportItem>,
    lost_spans: Counter,
}

impl Telemetry {
    pub fn new(config: Option<&TelemetryConfig>, lost: Counter) -> Self {
        let Some(config) = config else { return Self { span_sender: None, exporter: Mutex::default() } };
        let (queue, items) = mpsc::channel(config.queue_length.max(1));
        let exporter = SpanExporter::new(config.clone(), items, lost.clone());
        Self { span_sender: Some(SpanSender { queue, lost_spans: lost }), exporter: Mutex::new(Some(exporter)) }
    }

    pub fn is_enabled(&self) -> bool {
        self.span_sender.is_some()
    }

    pub fn span_sender(&self) -> Option<SpanSender> {
        self.span_sender.clone()
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
        let Some(spans) = &self.span_sender else { return };
        let (done, over) = oneshot::channel();
        let flushing = async {
            if spans.queue.send(ExportItem::Flush(done)).await.is_ok() {
                let _ = over.await;
            }
        };
        let _ = tokio::time::timeout(FINAL_FLUSH_TIMEOUT, flushing).await;
    }
}

impl SpanSender {
    fn push(&self, span: Span) {
        if self.queue.try_send(ExportItem::Span(Box::new(span))).is_err() {
            if mutant!("full-span-queue-blocks-call") {
                std::thread::sleep(Duration::from_secs(3));
            }
            self.lost_spans.inc();
        }
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("is_on", &self.is_enabled()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SpanSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("room", &self.queue.capacity()).finish_non_exhaustive()
    }
}
