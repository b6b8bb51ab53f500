//! Where spans are sent, by the file and by the variables that OpenTelemetry has for it. The file wins; a variable that
//! cannot be used is told and changes nothing: others may have set it for all programs of a machine.

use std::time::Duration;

use gatelodge_gateway::{InjectedHeader, TelemetryConfig};
use http::Uri;
use tracing::warn;

use crate::config::TelemetrySection;
use crate::header_template::{self, EnvironmentLookup};
use crate::server_url;

const TRACES_PATH: &str = "/v1/traces";
const SERVICE_NAME_KEY: &str = "service.name";

/// Where spans are sent; none if nobody wants them.
pub fn resolve_telemetry(file: &TelemetrySection, environment: EnvironmentLookup<'_>) -> Option<TelemetryConfig> {
    // An empty variable counts as none.
    let look = |name: &str| environment(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let is_off = look("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let exporters = look("OTEL_TRACES_EXPORTER").unwrap_or_else(|| "otlp".to_owned());
    if is_off || !exporters.split(',').any(|exporter| exporter.trim() == "otlp") {
        return None;
    }
    let url = match &file.endpoint {
        Some(endpoint) => traces_url(endpoint)?,
        None => endpoint_from_environment(&look)?,
    };
    let mut config = TelemetryConfig::with_url(url);
    config.headers = if file.headers.is_empty() { headers_from_environment(&look) } else { file.headers.clone() };
    config.resource_attributes = resource_attributes(file, &look);
    let time = |name: &str, default| number_from_environment(&look, name).map_or(default, Duration::from_millis);
    config.timeout = time("OTEL_EXPORTER_OTLP_TIMEOUT", config.timeout);
    config.timeout = time("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", config.timeout);
    config.batch_delay = time("OTEL_BSP_SCHEDULE_DELAY", config.batch_delay);
    let count = |name: &str, default| {
        number_from_environment(&look, name).and_then(|many| many.try_into().ok()).unwrap_or(default)
    };
    config.queue_length = count("OTEL_BSP_MAX_QUEUE_SIZE", config.queue_length);
    config.batch_size = count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", config.batch_size);
    Some(config)
}

type TrimmedEnvironmentLookup<'l> = &'l dyn Fn(&str) -> Option<String>;

/// The collector that the environment names, if we speak as it wants.
fn endpoint_from_environment(look: TrimmedEnvironmentLookup<'_>) -> Option<Uri> {
    let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let (name, text) = match look(own) {
        Some(text) => (own, text),
        None => ("OTEL_EXPORTER_OTLP_ENDPOINT", look("OTEL_EXPORTER_OTLP_ENDPOINT")?),
    };
    let protocol = look("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| look("OTEL_EXPORTER_OTLP_PROTOCOL"));
    if protocol.is_some_and(|protocol| protocol != "http/protobuf") {
        warn!("no spans are sent: only `http/protobuf` is spoken, and OTEL_EXPORTER_OTLP_PROTOCOL asks for another");
        return None;
    }
    match server_url::parse_server_url(&text) {
        Ok(url) if name == own => Some(url),
        Ok(url) => traces_url(&url),
        Err(fault) => {
            warn!("no spans are sent: {name}: {}; {}", fault.message(), fault.help());
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

fn headers_from_environment(look: TrimmedEnvironmentLookup<'_>) -> Vec<InjectedHeader> {
    let name = "OTEL_EXPORTER_OTLP_HEADERS";
    let text = look("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| look(name)).unwrap_or_default();
    let mut told = Vec::new();
    for (key, value) in parse_pairs(&text) {
        // What stands there is the value itself; nothing of ours is put in.
        match header_template::expand_header(&key, &value.replace("${", "$${"), &|_| None) {
            Ok(header) => told.push(header),
            Err(fault) => warn!("a header of {name} is not sent: {}", fault.message(&key)),
        }
    }
    told
}

/// What is said of the gateway itself.
fn resource_attributes(file: &TelemetrySection, look: TrimmedEnvironmentLookup<'_>) -> Vec<(String, String)> {
    let told = parse_pairs(&look("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
    let in_told = told.iter().find(|(name, _)| name == SERVICE_NAME_KEY).map(|(_, value)| value.clone());
    let name = file.service_name.clone().or_else(|| look("OTEL_SERVICE_NAME")).or(in_told);
    let mut resource = vec![
        (SERVICE_NAME_KEY.to_owned(), name.unwrap_or_else(|| "gatelodge".to_owned())),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let is_new = |(name, _): &(String, String)| name != SERVICE_NAME_KEY && name != "service.version";
    resource.extend(told.into_iter().filter(is_new));
    resource
}

/// `a=1,b=2`, with what is written as `%2C` in its place.
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
    while let Some((before, behind)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let code = behind.get(..2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        rest = behind.get(2..)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

fn number_from_environment(look: TrimmedEnvironmentLookup<'_>, name: &str) -> Option<u64> {
    let text = look(name)?;
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    if number.is_none() {
        warn!("{name} is not a number from 1 to 1000000, and changes nothing");
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Option<TelemetryConfig> {
        let look = |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).to_owned());
        resolve_telemetry(&TelemetrySection::default(), &look)
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn nothing_is_sent_unless_somebody_asks_for_it() {
        assert!(with(&[]).is_none());
        assert!(with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).is_none());
        assert!(with(&[("OTEL_SERVICE_NAME", "x"), ("OTEL_TRACES_EXPORTER", "otlp")]).is_none());
        for off in [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ] {
            assert!(with(&[ENDPOINT, off]).is_none(), "{off:?}");
        }
        assert!(with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")]).is_none());
    }

    #[test]
    fn the_variables_say_what_opentelemetry_says_they_do() {
        let url = |variables: &[(&str, &str)]| with(variables).expect("on").url.to_string();
        assert_eq!(url(&[ENDPOINT]), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(
            url(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example.com/x/")]),
            "https://c.example.com/x/v1/traces"
        );
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c.example.com/just/so");
        assert_eq!(url(&[ENDPOINT, own]), "http://c.example.com/just/so");
        let config = with(&[
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
        let said = |name: &str| {
            config
                .resource_attributes
                .iter()
                .filter(|(own, _)| own == name)
                .map(|(_, value)| value.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!((said(SERVICE_NAME_KEY), said("deployment.environment")), (vec!["gate"], vec!["test"]));
        assert_eq!((config.timeout.as_millis(), config.batch_delay.as_secs()), (250, 5));
    }

    #[test]
    fn the_file_wins_over_the_environment() {
        let file = TelemetrySection {
            endpoint: "http://127.0.0.1:9".parse().ok(),
            headers: Vec::new(),
            service_name: Some("by-file".to_owned()),
        };
        let look = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some("http://127.0.0.1:4318".to_owned()),
            "OTEL_SERVICE_NAME" => Some("by-variable".to_owned()),
            _ => None,
        };
        let config = resolve_telemetry(&file, &look).expect("on");
        assert_eq!(config.url, "http://127.0.0.1:9/v1/traces");
        assert!(config.resource_attributes.contains(&(SERVICE_NAME_KEY.to_owned(), "by-file".to_owned())));
    }
}
