//! Connection to a telemetry collector. It is not an upstream, but uses the same connections.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Limited};

use super::connection_pool::HttpConnectionPool;
use super::connector::Connector;
use super::root_cause;
use crate::body::MessageBody;
use crate::settings::{InjectedHeader, OtlpTraceConfig};

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
/// Maximum number of bytes read from a collector's response, which is normally only a few bytes long.
const MAX_COLLECTOR_RESPONSE_BYTES: usize = 64 << 10;

/// Posts encoded spans to a collector.
#[derive(Debug, Clone)]
pub(crate) struct CollectorClient {
    connection_pool: HttpConnectionPool,
    url: Uri,
    headers: Vec<InjectedHeader>,
}

impl CollectorClient {
    pub fn new(config: &OtlpTraceConfig) -> Self {
        let connection_pool = HttpConnectionPool::new(Connector::new(config.timeout));
        Self { connection_pool, url: config.url.clone(), headers: config.headers.clone() }
    }

    /// Posts one batch.
    ///
    /// # Errors
    /// Says why the collector did not accept the batch.
    pub async fn post(self, body: Bytes) -> Result<(), String> {
        let mut request = Request::new(MessageBody::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url;
        for header in &self.headers {
            request.headers_mut().append(header.name.clone(), header.value.clone());
        }
        request.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
        let response = self.connection_pool.request(request).await.map_err(|error| root_cause(&error))?;
        let status = response.status();
        // Read to the end, so that the connection can be reused. Errors of single spans are ignored.
        let _ = Limited::new(response.into_body(), MAX_COLLECTOR_RESPONSE_BYTES).collect().await;
        if status.is_success() { Ok(()) } else { Err(format!("HTTP status {}", status.as_u16())) }
    }
}
