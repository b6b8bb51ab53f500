//! `[gateway]` and `[admin]`: where to listen, and the bounds.

use std::net::SocketAddr;
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_reader::{ConfigReader, SpannedValue};
use super::config_sections::{RawAdmin, RawGateway};
use super::telemetry_section::TelemetrySection;
use super::time_syntax::{DURATION_SYNTAX, parse_duration};

/// Where agents connect unless the file says otherwise: this machine only.
pub const DEFAULT_GATEWAY_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);
/// Where people and their monitoring connect: this machine only.
pub const DEFAULT_ADMIN_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7421);

/// Where to listen, and the bounds.
#[derive(Debug, Clone)]
pub struct GatewaySection {
    /// For agents.
    pub listen: SocketAddr,
    /// For those who run the gateway.
    pub admin_listen: SocketAddr,
    /// How much, how many and how long.
    pub settings: GatewaySettings,
    /// Where spans are sent, as far as the file says it.
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

/// What the two sections mean.
pub fn read_gateway_section(gateway: RawGateway, admin: &RawAdmin, reader: &mut ConfigReader) -> GatewaySection {
    let hosts = read_names(gateway.hosts, "host", is_host_text, reader);
    let origins = read_names(gateway.origins, "origin", is_origin, reader);
    let has_hosts = !hosts.is_empty();
    let callers = read_address(gateway.listen.as_ref(), DEFAULT_GATEWAY_ADDRESS, has_hosts, reader);
    let admin = read_address(admin.listen.as_ref(), DEFAULT_ADMIN_ADDRESS, has_hosts, reader);
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
    GatewaySection { listen: callers, admin_listen: admin, settings, telemetry: TelemetrySection::default() }
}

fn read_address(
    written: Option<&SpannedValue<String>>,
    default: SocketAddr,
    has_hosts: bool,
    reader: &mut ConfigReader,
) -> SocketAddr {
    let Some(SpannedValue { value, span }) = written else { return default };
    let Ok(address) = value.parse::<SocketAddr>() else {
        let message = format!("`{value}` is not an address and a port");
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, message)
                .with_help(format!("write them like `{default}`")),
        );
        return default;
    };
    if !address.ip().is_loopback() && !has_hosts {
        let message = format!("others can reach {address}, and `hosts` does not say under which names");
        let help = "add `hosts = [\"gate.example.com\"]` to `[gateway]`: requests for other hosts are refused";
        reader.report(ConfigDiagnostic::new(ConfigDiagnosticCode::NeedsHosts, span, message).with_help(help));
    }
    address
}

fn read_names(
    written: Option<SpannedValue<Vec<SpannedValue<String>>>>,
    what: &str,
    is_one: fn(&str) -> bool,
    reader: &mut ConfigReader,
) -> Vec<String> {
    let written = written.map(|names| names.value).unwrap_or_default();
    for SpannedValue { value, span } in written.iter().filter(|name| !is_one(&name.value)) {
        let example = if what == "host" { "gate.example.com" } else { "https://app.example.com" };
        let message = format!("`{value}` is not an {what}").replace("an host", "a host");
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

/// Zero would refuse everything, and more than this no machine has.
const MAX_LIMIT: u64 = 1 << 40;

fn set_limit(field: &mut usize, written: Option<&SpannedValue<u64>>, reader: &mut ConfigReader) {
    let Some(SpannedValue { value, span }) = written else { return };
    match usize::try_from(*value) {
        Ok(number) if (1..=MAX_LIMIT).contains(value) => *field = number,
        _ => {
            let fault = ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, format!("{value} is no bound"));
            reader.report(fault.with_help("write a number from 1 on"));
        }
    }
}

pub fn set_duration(field: &mut Duration, written: Option<&SpannedValue<String>>, reader: &mut ConfigReader) {
    let Some(SpannedValue { value, span }) = written else { return };
    match parse_duration(value) {
        Some(length) => *field = length,
        None => reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, format!("`{value}` is not a length of time"))
                .with_help(format!("write {DURATION_SYNTAX}")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table says the defaults in words; they must be those that hold.
    #[test]
    fn the_documented_defaults_are_those_in_force() {
        let settings = GatewaySettings::default();
        let of = |name: &str| {
            let fields = RawGateway::SECTION.fields.iter().chain(RawAdmin::SECTION.fields);
            fields.filter(|field| field.name == name).map(|field| field.default.trim_matches('`')).collect::<Vec<_>>()
        };
        assert_eq!(of("listen"), [DEFAULT_GATEWAY_ADDRESS.to_string(), DEFAULT_ADMIN_ADDRESS.to_string()]);
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
            assert_eq!(of(name), [number.to_string()], "{name}");
        }
        for (name, length) in [
            ("session_idle_timeout", settings.session_idle_timeout),
            ("connect_timeout", settings.connect_timeout),
            ("call_timeout", settings.call_timeout),
            ("drain_timeout", settings.drain_timeout),
        ] {
            assert_eq!(of(name).first().and_then(|text| parse_duration(text)), Some(length), "{name}");
        }
    }
}
