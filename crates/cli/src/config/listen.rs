//! `[gateway]` and `[admin]`: where to listen, and the bounds.

use std::net::SocketAddr;
use std::time::Duration;

use gatelodge_gateway::GatewaySettings;

use super::fault::{Code, Fault};
use super::read::{At, Reader};
use super::sections::{RawAdmin, RawGateway};
use super::telemetry::TelemetryFile;
use super::words::{DURATION_FORM, duration};

/// Where agents connect unless the file says otherwise: this machine only.
pub const CALLERS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);
/// Where people and their monitoring connect: this machine only.
pub const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7421);

/// Where to listen, and the bounds.
#[derive(Debug, Clone)]
pub struct Listen {
    /// For agents.
    pub callers: SocketAddr,
    /// For those who run the gateway.
    pub admin: SocketAddr,
    /// How much, how many and how long.
    pub settings: GatewaySettings,
    /// Where spans are sent, as far as the file says it.
    pub telemetry: TelemetryFile,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            callers: CALLERS,
            admin: ADMIN,
            settings: GatewaySettings::default(),
            telemetry: TelemetryFile::default(),
        }
    }
}

/// What the two sections mean.
pub fn listen(gateway: RawGateway, admin: &RawAdmin, reader: &mut Reader) -> Listen {
    let hosts = names(gateway.hosts, "host", is_host, reader);
    let origins = names(gateway.origins, "origin", is_origin, reader);
    let has_hosts = !hosts.is_empty();
    let callers = address(gateway.listen.as_ref(), CALLERS, has_hosts, reader);
    let admin = address(admin.listen.as_ref(), ADMIN, has_hosts, reader);
    let mut settings = GatewaySettings { hosts, origins, ..GatewaySettings::default() };
    set(&mut settings.request_limits.max_bytes, gateway.max_request_bytes.as_ref(), reader);
    set(&mut settings.reply_limits.max_bytes, gateway.max_reply_bytes.as_ref(), reader);
    set(&mut settings.connections, gateway.connections.as_ref(), reader);
    set(&mut settings.in_flight_per_grant, gateway.in_flight_per_grant.as_ref(), reader);
    set(&mut settings.in_flight_per_server, gateway.in_flight_per_server.as_ref(), reader);
    set(&mut settings.processes_per_server, gateway.processes_per_server.as_ref(), reader);
    set(&mut settings.sessions, gateway.sessions.as_ref(), reader);
    set(&mut settings.sessions_per_grant, gateway.sessions_per_grant.as_ref(), reader);
    set_time(&mut settings.session_idle, gateway.session_idle.as_ref(), reader);
    set_time(&mut settings.connect_time, gateway.connect_time.as_ref(), reader);
    set_time(&mut settings.call_time, gateway.call_time.as_ref(), reader);
    set_time(&mut settings.drain_time, gateway.drain_time.as_ref(), reader);
    Listen { callers, admin, settings, telemetry: TelemetryFile::default() }
}

fn address(written: Option<&At<String>>, default: SocketAddr, has_hosts: bool, reader: &mut Reader) -> SocketAddr {
    let Some(At { value, span }) = written else { return default };
    let Ok(address) = value.parse::<SocketAddr>() else {
        let message = format!("`{value}` is not an address and a port");
        reader.fault(Fault::new(Code::BadValue, span, message).help(format!("write them like `{default}`")));
        return default;
    };
    if !address.ip().is_loopback() && !has_hosts {
        let message = format!("others can reach {address}, and `hosts` does not say under which names");
        let help = "add `hosts = [\"gate.example.com\"]` to `[gateway]`: requests for other hosts are refused";
        reader.fault(Fault::new(Code::NeedsHosts, span, message).help(help));
    }
    address
}

fn names(
    written: Option<At<Vec<At<String>>>>,
    what: &str,
    is_one: fn(&str) -> bool,
    reader: &mut Reader,
) -> Vec<String> {
    let written = written.map(|names| names.value).unwrap_or_default();
    for At { value, span } in written.iter().filter(|name| !is_one(&name.value)) {
        let example = if what == "host" { "gate.example.com" } else { "https://app.example.com" };
        let message = format!("`{value}` is not an {what}").replace("an host", "a host");
        reader.fault(Fault::new(Code::BadValue, span, message).help(format!("write it like `{example}`")));
    }
    written.into_iter().map(|name| name.value).collect()
}

fn is_host(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'[' | b']' | b':');
    let has_port = !text.starts_with('[') && text.contains(':');
    !text.is_empty() && text.bytes().all(is_plain) && !has_port
}

fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or(text.strip_prefix("http://"));
    host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ', '*']))
}

/// Zero would refuse everything, and more than this no machine has.
const MOST: u64 = 1 << 40;

fn set(field: &mut usize, written: Option<&At<u64>>, reader: &mut Reader) {
    let Some(At { value, span }) = written else { return };
    match usize::try_from(*value) {
        Ok(number) if (1..=MOST).contains(value) => *field = number,
        _ => {
            let fault = Fault::new(Code::BadValue, span, format!("{value} is no bound"));
            reader.fault(fault.help("write a number from 1 on"));
        }
    }
}

pub fn set_time(field: &mut Duration, written: Option<&At<String>>, reader: &mut Reader) {
    let Some(At { value, span }) = written else { return };
    match duration(value) {
        Some(length) => *field = length,
        None => reader.fault(
            Fault::new(Code::BadValue, span, format!("`{value}` is not a length of time"))
                .help(format!("write {DURATION_FORM}")),
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
        assert_eq!(of("listen"), [CALLERS.to_string(), ADMIN.to_string()]);
        for (name, number) in [
            ("max_request_bytes", settings.request_limits.max_bytes),
            ("max_reply_bytes", settings.reply_limits.max_bytes),
            ("connections", settings.connections),
            ("in_flight_per_grant", settings.in_flight_per_grant),
            ("in_flight_per_server", settings.in_flight_per_server),
            ("processes_per_server", settings.processes_per_server),
            ("sessions", settings.sessions),
            ("sessions_per_grant", settings.sessions_per_grant),
        ] {
            assert_eq!(of(name), [number.to_string()], "{name}");
        }
        for (name, length) in [
            ("session_idle", settings.session_idle),
            ("connect_time", settings.connect_time),
            ("call_time", settings.call_time),
            ("drain_time", settings.drain_time),
        ] {
            assert_eq!(of(name).first().and_then(|text| duration(text)), Some(length), "{name}");
        }
    }
}
