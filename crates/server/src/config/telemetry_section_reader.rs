//! `[telemetry]`: the collector that spans are sent to. Settings that are missing in the file are read from environment
//! variables.

use gatelodge_admin::header_template::EnvironmentLookup;
use gatelodge_gateway::InjectedHeader;
use http::Uri;

use super::config_sections::RawTelemetry;
use super::servers_section_reader::{read_headers, read_url, warn_clear_text};
use super::toml_reader::ConfigReader;

const EXAMPLE_COLLECTOR_URL: &str = "http://127.0.0.1:4318";

/// Telemetry settings from the configuration file.
#[derive(Debug, Clone, Default)]
pub struct TelemetrySection {
    /// URL of the collector, without the path for traces.
    pub endpoint: Option<Uri>,
    /// Headers to send with each request.
    pub headers: Vec<InjectedHeader>,
    /// The gateway's service name in spans.
    pub service_name: Option<String>,
}

/// Validates the section.
pub fn read_telemetry_section(
    raw: &RawTelemetry,
    environment: EnvironmentLookup<'_>,
    reader: &mut ConfigReader,
) -> TelemetrySection {
    let headers = read_headers(raw.headers.as_ref(), environment, reader);
    let endpoint = raw.endpoint.as_ref().and_then(|written| {
        let endpoint = read_url(written, EXAMPLE_COLLECTOR_URL, reader)?;
        warn_clear_text(&endpoint, &written.span, &headers, reader);
        Some(endpoint)
    });
    TelemetrySection { endpoint, headers, service_name: raw.service_name.as_ref().map(|name| name.value.clone()) }
}
