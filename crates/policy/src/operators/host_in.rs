//! `host_in`: the value is an http(s) URL whose host is a member of the list.
//!
//! It accepts only absolute URLs whose host every URL parser reads the same way.

use std::net::{Ipv4Addr, Ipv6Addr};

use gatelodge_mutants::mutant;
use serde_json::{Value, json};

use super::ConditionOperator;
use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use crate::call::call_value::CallValue;
use crate::syntax::diagnostic::DiagnosticCode;
use crate::syntax::field_reader::read_text;

#[derive(Debug)]
pub(crate) struct HostInOperator(Vec<HostPattern>);

impl ConditionOperator for HostInOperator {
    const WORD: &'static str = "host_in";
    const HELP: &'static str = "An http(s) URL whose host is a member; `*.example.com` matches all subdomains.";

    fn value_schema() -> Value {
        json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        let mut hosts = Vec::new();
        for item in reader.read_members()? {
            let Some(member) = read_text(item, "a member of `host_in`", reader.diagnostics) else { continue };
            match HostPattern::new(member) {
                Some(host) => hosts.push(host),
                None => {
                    let message = format!("`{member}` is not a host");
                    let help = "write `example.com`, `*.example.com` or `example.com:8443`, in ASCII";
                    reader.report_at(item.span.clone(), DiagnosticCode::BadValue, message, help);
                }
            }
        }
        Some(Self(hosts))
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::STRING
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        host_in(found.as_text()?, &self.0)
    }
}

/// A member of a `host_in` list: `[*.]host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPattern {
    /// Whether the pattern matches the host's subdomains instead of the host itself.
    matches_subdomains: bool,
    host: UrlHost,
}

/// A lower-case host, and the port if one is given.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UrlHost {
    name: String,
    is_ip_address: bool,
    port: Option<u16>,
}

impl HostPattern {
    /// Parses a list member. `None` if it does not have the form `[*.]host[:port]` in ASCII.
    fn new(text: &str) -> Option<Self> {
        let (below, host) = match text.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, text),
        };
        let host = UrlHost::new(host)?;
        // An IP address has no subdomains.
        (!(below && host.is_ip_address)).then_some(Self { matches_subdomains: below, host })
    }

    fn matches(&self, host: &UrlHost) -> bool {
        if self.host.port != host.port {
            return false;
        }
        if !self.matches_subdomains {
            return self.host.name == host.name;
        }
        let label = host.name.strip_suffix(&*self.host.name).and_then(|front| front.strip_suffix('.'));
        !host.is_ip_address && label.is_some_and(|label| !label.is_empty())
    }
}

/// Returns whether the URL's host matches any member. `None` if URL parsers could disagree about the host.
fn host_in(url: &str, members: &[HostPattern]) -> Option<bool> {
    let host = parse_url_host(url)?;
    Some(members.iter().any(|member| member.matches(&host)))
}

fn parse_url_host(url: &str) -> Option<UrlHost> {
    let is_odd = |character: char| character.is_whitespace() || character.is_control() || character == '\\';
    if url.contains(is_odd) {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // Userinfo contains an `@`, which `UrlHost::new` rejects.
    UrlHost::new(rest.get(..end)?)
}

impl UrlHost {
    fn new(text: &str) -> Option<Self> {
        let (written, port) = split_port(text)?;
        let name = written.to_ascii_lowercase();
        let is_address = match written.strip_prefix('[') {
            Some(rest) => is_canonical_v6(rest.strip_suffix(']')?).then_some(true)?,
            None => classify_unbracketed_host(&name)?,
        };
        Some(Self { name, is_ip_address: is_address, port })
    }
}

/// Splits `host[:port]`. Colons inside brackets belong to an IPv6 address.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let host_end = text.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = text.get(host_end..)?.find(':').map(|at| host_end + at) else { return Some((text, None)) };
    let (host, port) = (text.get(..colon)?, text.get(colon + 1..)?);
    let is_allowed_zero = mutant!("port-zero-allowed") && port == "0";
    let is_plain = port.bytes().all(|byte| byte.is_ascii_digit()) && (!port.starts_with('0') || is_allowed_zero);
    is_plain.then_some(())?;
    Some((host, Some(port.parse().ok()?)))
}

/// Classifies a host without brackets: `true` for an IPv4 address, and `false` for a plain name. `None` if it is
/// neither.
fn classify_unbracketed_host(host: &str) -> Option<bool> {
    let is_mark = |byte: u8| byte == b'-' || (mutant!("host-underscore-allowed") && byte == b'_');
    let is_plain =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte));
    if !host.split('.').all(is_plain) {
        return None;
    }
    let last = host.rsplit('.').next().unwrap_or(host);
    let is_hex = last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if !is_hex && !last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(false);
    }
    // URL parsers treat a host with a numeric last label as an IPv4 address. Only the canonical form is accepted.
    let address: Ipv4Addr = host.parse().ok()?;
    (address.to_string() == host).then_some(true)
}

fn is_canonical_v6(text: &str) -> bool {
    let Ok(address) = text.parse::<Ipv6Addr>() else { return false };
    // An embedded IPv4 address has two notations, and parsers disagree on which one is canonical.
    let holds_v4 = address.to_ipv4_mapped().is_some() || text.contains('.');
    (!holds_v4 || mutant!("mapped-ipv4-address-allowed")) && address.to_string() == text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url_matches(url: &str, member: &str) -> Option<bool> {
        host_in(url, &[HostPattern::new(member).expect(member)])
    }

    #[test]
    fn hosts_are_compared_in_lower_case_and_with_their_port() {
        assert_eq!(url_matches("HTTPS://Example.COM/x?y#z", "example.com"), Some(true));
        assert_eq!(url_matches("https://example.com:8443/", "example.com"), Some(false));
        assert_eq!(url_matches("https://example.com:8443/", "example.com:8443"), Some(true));
        assert_eq!(url_matches("https://example.com/", "example.com:443"), Some(false));
        assert_eq!(url_matches("https://evil-example.com", "example.com"), Some(false));
        assert_eq!(url_matches("http://[::1]:80/", "[::1]:80"), Some(true));
    }

    #[test]
    fn a_star_matches_one_or_more_labels_and_never_an_address() {
        assert_eq!(url_matches("https://a.b.example.com", "*.example.com"), Some(true));
        assert_eq!(url_matches("https://example.com", "*.example.com"), Some(false));
        assert_eq!(url_matches("https://xexample.com", "*.example.com"), Some(false));
        assert!(HostPattern::new("*.0.0.1").is_none());
    }

    #[test]
    fn an_ambiguous_url_is_refused() {
        for url in [
            "example.com",
            "//example.com",
            "http:/example.com",
            "http:example.com",
            "ftp://example.com",
            "http://",
            "http://u@example.com",
            "http://example.com@evil",
            "http://exa mple.com",
            "http://example.com /",
            "http://example.com\\x",
            "http://ex%61mple.com",
            "http://a..b",
            "http://.a",
            "http://a.",
            "http://a:",
            "http://a:080",
            "http://a:0",
            "http://a:99999",
            "http://127.1",
            "http://0x7f000001",
            "http://2130706433",
            "http://127.0.0.01",
            "http://1.2.3.4.5",
            "http://1.2.3.0x4",
            "http://[::01]",
            "http://[0:0:0:0:0:0:0:1]",
            "http://[::ffff:1.2.3.4]",
            "http://[::1",
            "http://[fe80::1%25eth0]",
            "http://[::1]x",
            "http://[FE80::1]",
            "http://a_b.com",
            "http://exämple.com",
            "http://example\u{3002}com",
            " http://a",
            "http://a\n",
            "http://a\t/",
        ] {
            assert_eq!(url_matches(url, "example.com"), None, "{url}");
        }
    }

    #[test]
    fn members_are_hosts_with_an_optional_port() {
        for member in [
            "", "*", "*.", "http://a", "a/b", "a:", "a:x", "ä.com", "a_b", "a.*.b", "127.1", "a b", "a.", "**.a", "u@a",
        ] {
            assert!(HostPattern::new(member).is_none(), "{member}");
        }
    }
}
