//! `[gateway]` and `[admin]`: addresses and limits.

use std::net::SocketAddr;
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_sections::{RawAdmin, RawGateway};
use super::telemetry_section_reader::TelemetrySection;
use super::time_syntax::{DURATION_SYNTAX, duration_error, parse_duration};
use super::toml_reader::{ConfigReader, DurationText, SpannedValue};

/// Default address that clients connect to. Only this machine can reach it.
pub const DEFAULT_GATEWAY_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);
/// Default address of the health, readiness and metrics endpoints. Only this machine can reach it.
pub const DEFAULT_ADMIN_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7421);

/// Addresses and limits.
#[derive(Debug, Clone)]
pub struct GatewaySection {
    /// Address that clients connect to.
    pub listen: SocketAddr,
    /// Address of the health, readiness and metrics endpoints.
    pub admin_listen: SocketAddr,
    /// Limits and timeouts.
    pub settings: GatewaySettings,
    /// The `[telemetry]` section. Settings that are missing in it are read from environment variables.
    pub telemetry: TelemetrySection,
}

impl Default for GatewaySection {
    fn default() -> Self {
        Self {
            listen: DEFAULT_GATEWAY_ADDRESS,
            admin_listen: DEFAULT_ADMIN_ADDRESS,
            settings: GatewaySettings::default(),
            telemetry: TelemetrySection::default(),
        }
    }
}

/// Validates the `[gateway]` and `[admin]` sections.
pub fn read_gateway_section(gateway: RawGateway, admin: &RawAdmin, reader: &mut ConfigReader) -> GatewaySection {
    let hosts = read_names(gateway.hosts, "host", is_host_text, reader);
    let origins = read_names(gateway.origins, "origin", is_origin, reader);
    let has_hosts = !hosts.is_empty();
    let listen = read_address(gateway.listen.as_ref(), DEFAULT_GATEWAY_ADDRESS, has_hosts, reader);
    let admin_listen = read_address(admin.listen.as_ref(), DEFAULT_ADMIN_ADDRESS, has_hosts, reader);
    let mut settings = GatewaySettings { hosts, origins, ..GatewaySettings::default() };
    set_limit(&mut settings.request_limits.max_bytes, gateway.max_request_bytes.as_ref(), reader);
    set_limit(&mut settings.reply_limits.max_bytes, gateway.max_reply_bytes.as_ref(), reader);
    set_limit(&mut settings.max_connections, gateway.max_connections.as_ref(), reader);
    set_limit(&mut settings.in_flight_per_grant, gateway.in_flight_per_grant.as_ref(), reader);
    set_limit(&mut settings.in_flight_per_server, gateway.in_flight_per_server.as_ref(), reader);
    set_limit(&mut settings.processes_per_server, gateway.processes_per_server.as_ref(), reader);
    set_limit(&mut settings.max_sessions, gateway.max_sessions.as_ref(), reader);
    set_limit(&mut settings.max_sessions_per_grant, gateway.max_sessions_per_grant.as_ref(), reader);
    set_duration(&mut settings.session_idle_timeout, gateway.session_idle_timeout.as_ref(), reader);
    set_duration(&mut settings.connect_timeout, gateway.connect_timeout.as_ref(), reader);
    set_duration(&mut settings.call_timeout, gateway.call_timeout.as_ref(), reader);
    set_duration(&mut settings.drain_timeout, gateway.drain_timeout.as_ref(), reader);
    GatewaySection { listen, admin_listen, settings, telemetry: TelemetrySection::default() }
}

fn read_address(
    written: Option<&SpannedValue<String>>,
    default: SocketAddr,
    has_hosts: bool,
    reader: &mut ConfigReader,
) -> SocketAddr {
    let Some(SpannedValue { value, span }) = written else { return default };
    let Ok(address) = value.parse::<SocketAddr>() else {
        let message = format!("`{value}` is not an address with a port");
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, message)
                .with_help(format!("write it like `{default}`")),
        );
        return default;
    };
    if !address.ip().is_loopback() && !has_hosts {
        let message = format!("other machines can reach {address}, but `hosts` is missing");
        let help = "add `hosts = [\"gate.example.com\"]` to `[gateway]`: requests for other hosts are refused";
        reader.report(ConfigDiagnostic::new(ConfigDiagnosticCode::NeedsHosts, span, message).with_help(help));
    }
    address
}

fn read_names(
    written: Option<SpannedValue<Vec<SpannedValue<String>>>>,
    noun: &str,
    is_valid: fn(&str) -> bool,
    reader: &mut ConfigReader,
) -> Vec<String> {
    let written = written.map(|names| names.value).unwrap_or_default();
    for SpannedValue { value, span } in written.iter().filter(|name| !is_valid(&name.value)) {
        let example = if noun == "host" { "gate.example.com" } else { "https://app.example.com" };
        let message = format!("`{value}` is not an {noun}").replace("an host", "a host");
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, message)
                .with_help(format!("write it like `{example}`")),
        );
    }
    written.into_iter().map(|name| name.value).collect()
}

fn is_host_text(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'[' | b']' | b':');
    let has_port = !text.starts_with('[') && text.contains(':');
    !text.is_empty() && text.bytes().all(is_plain) && !has_port
}

fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or(text.strip_prefix("http://"));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', '*']))
}

/// Upper bound for configured limits, beyond what any machine can handle. The lower bound is 1, because a limit of zero
/// would refuse everything.
const MAX_CONFIGURED_LIMIT: u64 = 1 << 40;

fn set_limit(field: &mut usize, written: Option<&SpannedValue<u64>>, reader: &mut ConfigReader) {
    let Some(SpannedValue { value, span }) = written else { return };
    match usize::try_from(*value) {
        Ok(number) if (1..=MAX_CONFIGURED_LIMIT).contains(value) => *field = number,
        _ => {
            let message = format!("{value} is not a valid limit");
            let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, message);
            reader.report(diagnostic.with_help("write a number of at least 1"));
        }
    }
}

pub fn set_duration(field: &mut Duration, written: Option<&SpannedValue<DurationText>>, reader: &mut ConfigReader) {
    let Some(SpannedValue { value: DurationText(text), span }) = written else { return };
    match parse_duration(text) {
        Some(duration) => *field = duration,
        None => reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, duration_error(text))
                .with_help(format!("write {DURATION_SYNTAX}")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation table states the defaults as text, which must agree with the code.
    #[test]
    fn the_documented_defaults_agree_with_the_code() {
        let settings = GatewaySettings::default();
        let documented = |name: &str| {
            let fields = RawGateway::SECTION.fields.iter().chain(RawAdmin::SECTION.fields);
            fields.filter(|field| field.name == name).map(|field| field.default.trim_matches('`')).collect::<Vec<_>>()
        };
        assert_eq!(documented("listen"), [DEFAULT_GATEWAY_ADDRESS.to_string(), DEFAULT_ADMIN_ADDRESS.to_string()]);
        for (name, number) in [
            ("max_request_bytes", settings.request_limits.max_bytes),
            ("max_reply_bytes", settings.reply_limits.max_bytes),
            ("max_connections", settings.max_connections),
            ("in_flight_per_grant", settings.in_flight_per_grant),
            ("in_flight_per_server", settings.in_flight_per_server),
            ("processes_per_server", settings.processes_per_server),
            ("max_sessions", settings.max_sessions),
            ("max_sessions_per_grant", settings.max_sessions_per_grant),
        ] {
            assert_eq!(documented(name), [number.to_string()], "{name}");
        }
        for (name, length) in [
            ("session_idle_timeout", settings.session_idle_timeout),
            ("connect_timeout", settings.connect_timeout),
            ("call_timeout", settings.call_timeout),
            ("drain_timeout", settings.drain_timeout),
        ] {
            assert_eq!(documented(name).first().and_then(|text| parse_duration(text)), Some(length), "{name}");
        }
    }
}
