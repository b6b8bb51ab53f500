//! `[telemetry]`: where spans are sent. What the file does not say, the environment may.

use gatelodge_gateway::InjectedHeader;
use http::Uri;

use super::config_reader::ConfigReader;
use super::config_sections::RawTelemetry;
use super::servers_section::{read_headers, read_url, warn_clear_text};
use crate::header_template::EnvironmentLookup;

/// What the file says.
#[derive(Debug, Clone, Default)]
pub struct TelemetrySection {
    /// Where the collector is, without the path for traces.
    pub endpoint: Option<Uri>,
    /// What is sent with each request.
    pub headers: Vec<InjectedHeader>,
    /// What the gateway calls itself.
    pub service_name: Option<String>,
}

/// What the section means.
pub fn read_telemetry_section(
    raw: &RawTelemetry,
    environment: EnvironmentLookup<'_>,
    reader: &mut ConfigReader,
) -> TelemetrySection {
    let headers = read_headers(raw.headers.as_ref(), environment, reader);
    let endpoint = raw.endpoint.as_ref().and_then(|written| {
        let endpoint = read_url(written, reader)?;
        warn_clear_text(&endpoint, &written.span, &headers, reader);
        Some(endpoint)
    });
    TelemetrySection { endpoint, headers, service_name: raw.service_name.as_ref().map(|name| name.value.clone()) }
}
