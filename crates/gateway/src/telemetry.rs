//! OpenTelemetry export, if configured: one span per client request and one per upstream request.
//!
//! No call waits for the export or fails because of it: spans that do not fit into the queue are dropped and counted.
//! Arguments, results and tokens are never exported.

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

pub(crate) use span::{ClientReplyCell, ClientRequestSpan, UpstreamRequestSpan};

use self::span::Span;
use self::span_exporter::SpanExporter;
use crate::upstream::InjectedHeader;

/// How long shutdown waits for the last spans to be exported.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// An OTLP collector that accepts protobuf over HTTP.
#[derive(Debug, Clone)]
pub struct OtlpTraceConfig {
    /// The collector's URL for traces, including the path.
    pub url: Uri,
    /// Headers sent with each request.
    pub headers: Vec<InjectedHeader>,
    /// The gateway's resource attributes, including `service.name`.
    pub resource_attributes: Vec<(String, String)>,
    /// Timeout for one export request.
    pub timeout: Duration,
    /// How long a span may wait for its batch to fill.
    pub batch_delay: Duration,
    /// Maximum length of the queue. Further spans are dropped.
    pub queue_length: usize,
    /// Maximum number of spans per batch.
    pub batch_size: usize,
}

impl OtlpTraceConfig {
    /// Returns a configuration for the collector at `url`, with OpenTelemetry's defaults for everything else.
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

/// An item in the export queue.
enum ExportItem {
    Span(Box<Span>),
    /// Asks the export task to export everything queued so far and then send the signal.
    Flush(oneshot::Sender<()>),
}

/// Exports spans to a collector; disabled unless configured.
pub(crate) struct OtlpTraceExport {
    span_sender: Option<SpanSender>,
    /// The exporter, moved into its own task when the gateway starts.
    exporter: Mutex<Option<SpanExporter>>,
}

/// Queues finished spans for export.
#[derive(Clone)]
pub(crate) struct SpanSender {
    queue: mpsc::Sender<ExportItem>,
    lost_spans: Counter,
}

impl OtlpTraceExport {
    pub fn new(config: Option<&OtlpTraceConfig>, lost_spans: Counter) -> Self {
        let Some(config) = config else { return Self { span_sender: None, exporter: Mutex::default() } };
        let (queue, items) = mpsc::channel(config.queue_length.max(1));
        let exporter = SpanExporter::new(config.clone(), items, lost_spans.clone());
        Self { span_sender: Some(SpanSender { queue, lost_spans }), exporter: Mutex::new(Some(exporter)) }
    }

    pub fn is_enabled(&self) -> bool {
        self.span_sender.is_some()
    }

    pub fn span_sender(&self) -> Option<SpanSender> {
        self.span_sender.clone()
    }

    /// Starts the export task.
    pub fn start(&self) {
        let exporter = self.exporter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(exporter) = exporter {
            tokio::spawn(exporter.run());
        }
    }

    /// Exports queued spans, for a limited time.
    pub async fn flush(&self) {
        let Some(spans) = &self.span_sender else { return };
        let (done, finished) = oneshot::channel();
        let flushing = async {
            if spans.queue.send(ExportItem::Flush(done)).await.is_ok() {
                let _ = finished.await;
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

impl fmt::Debug for OtlpTraceExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("is_enabled", &self.is_enabled()).finish_non_exhaustive()
    }
}

impl fmt::Debug for SpanSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanSender").field("capacity", &self.queue.capacity()).finish_non_exhaustive()
    }
}
