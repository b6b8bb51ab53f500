//! OpenTelemetry export, if configured: one span per client request and one per upstream request.
//!
//! No call waits for the export or fails because of it: spans that do not fit into the queue are dropped and counted.
//! Arguments, results and tokens are never exported.

mod attribute_names;
mod auth_failures;
mod metrics;
mod otlp_encoder;
mod request_trace;
mod span;
mod span_exporter;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mutants::mutant;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};

use self::span::Span;
use self::span_exporter::SpanExporter;
use crate::settings::OtlpTraceConfig;

pub(crate) use auth_failures::AuthFailureCounter;
pub(crate) use metrics::Metrics;
pub(crate) use request_trace::{RequestTrace, UpstreamSpanContext};
pub(crate) use span::{ClientReplyCell, ClientRequestSpan, SpanOutcome, UpstreamRequestSpan, UpstreamSpanTarget};

/// How long shutdown waits for the last spans to be exported.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

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

    /// Starts the export task. `connect` returns the function that posts one encoded batch to the collector.
    pub fn start<P, R>(&self, connect: impl FnOnce(&OtlpTraceConfig) -> P)
    where
        P: Fn(Bytes) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), String>> + Send + 'static,
    {
        let exporter = self.exporter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(exporter) = exporter {
            let post = connect(exporter.config());
            tokio::spawn(exporter.run(post));
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
