//! The task that exports spans. Calls pass spans to it only through a queue.

use bytes::Bytes;
use gatelodge_mutants::mutant;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::span::Span;
use super::{ExportItem, otlp_encoder};
use crate::settings::OtlpTraceConfig;

pub(super) struct SpanExporter {
    config: OtlpTraceConfig,
    /// The queue to which calls add spans. It is closed when the gateway is dropped, and the task then ends.
    items: mpsc::Receiver<ExportItem>,
    lost_spans: Counter,
    is_failing: bool,
}

impl SpanExporter {
    pub fn new(config: OtlpTraceConfig, items: mpsc::Receiver<ExportItem>, lost_spans: Counter) -> Self {
        Self { config, items, lost_spans, is_failing: false }
    }

    pub fn config(&self) -> &OtlpTraceConfig {
        &self.config
    }

    /// Exports spans until the queue is closed. `post` sends one encoded batch to the collector.
    pub async fn run<P, R>(mut self, post: P)
    where
        P: Fn(Bytes) -> R,
        R: Future<Output = Result<(), String>>,
    {
        while let Some(first) = self.items.recv().await {
            let (batch, flush_done) = self.collect_batch(first).await;
            if !batch.is_empty() {
                self.send(&batch, &post).await;
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
    async fn send<R>(&mut self, batch: &[Box<Span>], post: &impl Fn(Bytes) -> R)
    where
        R: Future<Output = Result<(), String>>,
    {
        let body = otlp_encoder::encode(&self.config.resource_attributes, batch);
        let sending = tokio::time::timeout(self.config.timeout, post(body.into())).await;
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
}
