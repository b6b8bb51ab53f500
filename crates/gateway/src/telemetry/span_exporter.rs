//! The task that exports spans. Calls pass spans to it only through a queue.

use bytes::Bytes;
use gatelodge_mutants::mutant;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::span::Span;
use super::{ExportItem, otlp};
use crate::message_body::MessageBody;
use crate::settings::OtlpTraceConfig;
use crate::upstream::{HttpConnectionPool, new_connection_pool, root_cause};

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
/// Maximum number of bytes read from a collector's response, which is normally only a few bytes long.
const MAX_COLLECTOR_RESPONSE_BYTES: usize = 64 << 10;

pub(super) struct SpanExporter {
    config: OtlpTraceConfig,
    /// The queue to which calls add spans. It is closed when the gateway is dropped, and the task then ends.
    items: mpsc::Receiver<ExportItem>,
    connection_pool: HttpConnectionPool,
    lost_spans: Counter,
    is_failing: bool,
}

impl SpanExporter {
    pub fn new(config: OtlpTraceConfig, items: mpsc::Receiver<ExportItem>, lost_spans: Counter) -> Self {
        let connection_pool = new_connection_pool(config.timeout);
        Self { config, items, connection_pool, lost_spans, is_failing: false }
    }

    pub async fn run(mut self) {
        while let Some(first) = self.items.recv().await {
            let (batch, flush_done) = self.collect_batch(first).await;
            if !batch.is_empty() {
                self.send(&batch).await;
            }
            if let Some(done) = flush_done {
                let _ = done.send(());
            }
        }
    }

    /// Collects spans until the batch is full, the batch delay has passed, or a flush is requested.
    async fn collect_batch(&mut self, first: ExportItem) -> (Vec<Box<Span>>, Option<oneshot::Sender<()>>) {
        let mut batch = Vec::new();
        let mut next = Some(first);
        let mut waited = std::pin::pin!(tokio::time::sleep(self.config.batch_delay));
        loop {
            match next {
                Some(ExportItem::Span(span)) => batch.push(span),
                Some(ExportItem::Flush(done)) => return (batch, Some(done)),
                None => return (batch, None),
            }
            if batch.len() >= self.config.batch_size {
                return (batch, None);
            }
            next = tokio::select! {
                item = self.items.recv() => item,
                () = &mut waited => return (batch, None),
            };
        }
    }

    /// Sends a batch once. Failed batches are dropped: keeping them for an unreachable collector would need unbounded
    /// memory.
    async fn send(&mut self, batch: &[Box<Span>]) {
        let body = otlp::encode(&self.config.resource_attributes, batch);
        let sending = tokio::time::timeout(self.config.timeout, self.post(body.into())).await;
        let count = batch.len();
        match sending.unwrap_or_else(|_| Err("timed out".to_owned())) {
            Ok(()) if self.is_failing => {
                self.is_failing = false;
                info!("the telemetry collector accepts spans again");
            }
            Ok(()) => {}
            Err(why) => {
                if !mutant!("dropped-spans-not-counted") {
                    self.lost_spans.inc_by(count as u64);
                }
                // Logged once per outage; the metric has the number.
                if !std::mem::replace(&mut self.is_failing, true) {
                    warn!(spans = count, "cannot export spans to the telemetry collector, they are dropped: {why}");
                }
            }
        }
    }

    async fn post(&self, body: Bytes) -> Result<(), String> {
        let mut request = Request::new(MessageBody::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.config.url.clone();
        for header in &self.config.headers {
            request.headers_mut().append(header.name.clone(), header.value.clone());
        }
        request.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
        let response = self.connection_pool.clone().request(request).await.map_err(|error| root_cause(&error))?;
        let status = response.status();
        // Read to the end, so that the connection can be reused. Errors of single spans are ignored.
        let _ = Limited::new(response.into_body(), MAX_COLLECTOR_RESPONSE_BYTES).collect().await;
        if status.is_success() { Ok(()) } else { Err(format!("HTTP status {}", status.as_u16())) }
    }
}
