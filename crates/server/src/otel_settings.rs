//! OpenTelemetry export settings, from the configuration file and the standard `OTEL_*` variables. The file takes
//! precedence. An unusable variable is logged and ignored, because it may be set for all programs on the machine.

use std::time::Duration;

use gatelodge_admin::header_template::EnvironmentLookup;
use gatelodge_admin::server_url;
use gatelodge_gateway::{InjectedHeader, OtlpTraceConfig};
use http::Uri;
use tracing::warn;

use crate::config::TelemetrySection;
use crate::header_expansion;

const TRACES_PATH: &str = "/v1/traces";
const SERVICE_NAME_KEY: &str = "service.name";

/// Returns the export settings, or `None` if export is off.
pub fn resolve_telemetry(file: &TelemetrySection, environment: EnvironmentLookup<'_>) -> Option<OtlpTraceConfig> {
    // An empty variable counts as unset.
    let lookup = |name: &str| environment(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let is_off = lookup("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let exporters = lookup("OTEL_TRACES_EXPORTER").unwrap_or_else(|| "otlp".to_owned());
    if is_off || !exporters.split(',').any(|exporter| exporter.trim() == "otlp") {
        return None;
    }
    let url = match &file.endpoint {
        Some(endpoint) => traces_url(endpoint)?,
        None => endpoint_from_environment(&lookup)?,
    };
    let mut config = OtlpTraceConfig::with_url(url);
    config.headers = if file.headers.is_empty() { headers_from_environment(&lookup) } else { file.headers.clone() };
    config.resource_attributes = resource_attributes(file, &lookup);
    let time = |name: &str, default| number_from_environment(&lookup, name).map_or(default, Duration::from_millis);
    config.timeout = time("OTEL_EXPORTER_OTLP_TIMEOUT", config.timeout);
    config.timeout = time("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", config.timeout);
    config.batch_delay = time("OTEL_BSP_SCHEDULE_DELAY", config.batch_delay);
    let count = |name: &str, default| {
        number_from_environment(&lookup, name).and_then(|number| number.try_into().ok()).unwrap_or(default)
    };
    config.queue_length = count("OTEL_BSP_MAX_QUEUE_SIZE", config.queue_length);
    config.batch_size = count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", config.batch_size);
    Some(config)
}

type TrimmedEnvironmentLookup<'l> = &'l dyn Fn(&str) -> Option<String>;

/// Returns the collector URL from the environment, if its protocol is supported.
fn endpoint_from_environment(lookup: TrimmedEnvironmentLookup<'_>) -> Option<Uri> {
    let traces_variable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let (name, text) = match lookup(traces_variable) {
        Some(text) => (traces_variable, text),
        None => ("OTEL_EXPORTER_OTLP_ENDPOINT", lookup("OTEL_EXPORTER_OTLP_ENDPOINT")?),
    };
    let protocol = lookup("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| lookup("OTEL_EXPORTER_OTLP_PROTOCOL"));
    if protocol.is_some_and(|protocol| protocol != "http/protobuf") {
        warn!(
            "spans are not exported: OTEL_EXPORTER_OTLP_PROTOCOL must be `http/protobuf`, the only supported protocol"
        );
        return None;
    }
    match server_url::parse_server_url(&text) {
        Ok(url) if name == traces_variable => Some(url),
        Ok(url) => traces_url(&url),
        Err(error) => {
            warn!("spans are not exported: {name}: {}; {}", error.message(), error.help());
            None
        }
    }
}

fn traces_url(endpoint: &Uri) -> Option<Uri> {
    let path = format!("{}{TRACES_PATH}", endpoint.path().trim_end_matches('/'));
    let path = endpoint.query().map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
    let mut parts = endpoint.clone().into_parts();
    parts.path_and_query = path.parse().ok();
    Uri::from_parts(parts).ok()
}

fn headers_from_environment(lookup: TrimmedEnvironmentLookup<'_>) -> Vec<InjectedHeader> {
    let name = "OTEL_EXPORTER_OTLP_HEADERS";
    let text = lookup("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| lookup(name)).unwrap_or_default();
    let mut headers = Vec::new();
    for (key, value) in parse_pairs(&text) {
        // `${` is escaped: the value is literal, and no variables are expanded in it.
        match header_expansion::expand_header(&key, &value.replace("${", "$${"), &|_| None) {
            Ok(header) => headers.push(header),
            Err(error) => warn!("a header of {name} is ignored: {}", error.message(&key)),
        }
    }
    headers
}

/// Returns the OpenTelemetry resource attributes, which describe the gateway itself.
fn resource_attributes(file: &TelemetrySection, lookup: TrimmedEnvironmentLookup<'_>) -> Vec<(String, String)> {
    let attributes = parse_pairs(&lookup("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
    let attribute_name = attributes.iter().find(|(name, _)| name == SERVICE_NAME_KEY).map(|(_, value)| value.clone());
    let name = file.service_name.clone().or_else(|| lookup("OTEL_SERVICE_NAME")).or(attribute_name);
    let mut resource = vec![
        (SERVICE_NAME_KEY.to_owned(), name.unwrap_or_else(|| "gatelodge".to_owned())),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let is_new = |(name, _): &(String, String)| name != SERVICE_NAME_KEY && name != "service.version";
    resource.extend(attributes.into_iter().filter(is_new));
    resource
}

/// Parses `a=1,b=2`, with percent-encoded names and values.
fn parse_pairs(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((percent_decode(name.trim())?, percent_decode(value.trim())?))
    };
    text.split(',').filter_map(pair).filter(|(name, _)| !name.is_empty()).collect()
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let code = after.get(..2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        rest = after.get(2..)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

fn number_from_environment(lookup: TrimmedEnvironmentLookup<'_>, name: &str) -> Option<u64> {
    let text = lookup(name)?;
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    if number.is_none() {
        warn!("{name} is not a number from 1 to 1000000, and is ignored");
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve_from_variables(variables: &[(&str, &str)]) -> Option<OtlpTraceConfig> {
        let lookup = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).to_owned());
        resolve_telemetry(&TelemetrySection::default(), &lookup)
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn spans_are_exported_only_if_an_endpoint_is_set() {
        assert!(resolve_from_variables(&[]).is_none());
        assert!(resolve_from_variables(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).is_none());
        assert!(resolve_from_variables(&[("OTEL_SERVICE_NAME", "x"), ("OTEL_TRACES_EXPORTER", "otlp")]).is_none());
        for off in [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ] {
            assert!(resolve_from_variables(&[ENDPOINT, off]).is_none(), "{off:?}");
        }
        assert!(resolve_from_variables(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")]).is_none());
    }

    #[test]
    fn variables_have_the_meaning_that_opentelemetry_defines() {
        let url = |variables: &[(&str, &str)]| resolve_from_variables(variables).expect("on").url.to_string();
        assert_eq!(url(&[ENDPOINT]), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(
            url(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example.com/x/")]),
            "https://c.example.com/x/v1/traces"
        );
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c.example.com/just/so");
        assert_eq!(url(&[ENDPOINT, own]), "http://c.example.com/just/so");
        let config = resolve_from_variables(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%2Cb${X}, x-tenant = 7,broken"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=other"),
            ("OTEL_SERVICE_NAME", "gate"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_BSP_SCHEDULE_DELAY", "never"),
        ])
        .expect("on");
        let sent: Vec<_> =
            config.headers.iter().map(|header| (header.name.as_str(), header.value.to_str().ok())).collect();
        assert_eq!(sent, [("api-key", Some("a,b${X}")), ("x-tenant", Some("7"))]);
        assert!(!format!("{config:?}").contains("a,b"), "a header may be a secret");
        let attribute = |name: &str| {
            config
                .resource_attributes
                .iter()
                .filter(|(own, _)| own == name)
                .map(|(_, value)| value.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!((attribute(SERVICE_NAME_KEY), attribute("deployment.environment")), (vec!["gate"], vec!["test"]));
        assert_eq!((config.timeout.as_millis(), config.batch_delay.as_secs()), (250, 5));
    }

    #[test]
    fn the_file_takes_precedence_over_the_environment() {
        let file = TelemetrySection {
            endpoint: "http://127.0.0.1:9".parse().ok(),
            headers: Vec::new(),
            service_name: Some("by-file".to_owned()),
        };
        let lookup = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://127.0.0.1:4318".to_owned()),
            "OTEL_SERVICE_NAME" => Some("by-variable".to_owned()),
            _ => None,
        };
        let config = resolve_telemetry(&file, &lookup).expect("on");
        assert_eq!(config.url, "http://127.0.0.1:9/v1/traces");
        assert!(config.resource_attributes.contains(&(SERVICE_NAME_KEY.to_owned(), "by-file".to_owned())));
    }
}
