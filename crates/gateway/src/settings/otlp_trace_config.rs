//! Address and limits of a telemetry collector.

use std::time::Duration;

use http::Uri;

use super::InjectedHeader;

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
