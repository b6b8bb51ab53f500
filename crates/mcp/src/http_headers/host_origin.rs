//! Protects against DNS rebinding: checks a request's `Host` and `Origin` before anything else is read.
//!
//! A malicious web page can make its own host name resolve to this machine. Its requests then have that name in `Host`
//! and the page's origin in `Origin`, so a listener accepts only the hosts and origins that it knows.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{Request, StatusCode};

use crate::message_error::quote_excerpt;

/// Host names and origins that a listener accepts.
///
/// ```
/// use gatelodge_mcp::http_headers::HostOriginGuard;
/// use http::Request;
///
/// let guard = HostOriginGuard::new("127.0.0.1:8080".parse().expect("an address"), &[], &[]);
/// let from = |host: &str| Request::builder().header("host", host).body(()).expect("a request");
/// assert!(guard.check(&from("localhost:8080")).is_ok());
/// assert!(guard.check(&from("rebound.example:8080")).is_err());
/// ```
#[derive(Debug, Clone)]
pub struct HostOriginGuard {
    hosts: Vec<String>,
    origins: Vec<String>,
    is_loopback: bool,
}

/// Rejection of a request because of its `Host` or `Origin`.
#[derive(Debug)]
pub struct HostOriginError {
    /// HTTP status of the response.
    pub status: StatusCode,
    /// Message for the client.
    pub message: String,
}

impl HostOriginGuard {
    /// Makes a guard for a listener. In addition to `hosts`, it accepts the listener's own address unless that is
    /// unspecified (`0.0.0.0`), and on loopback also the usual loopback names.
    pub fn new(address: SocketAddr, hosts: &[String], origins: &[String]) -> Self {
        let mut hosts: Vec<String> = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        hosts.retain(|host| !host.is_empty());
        let is_loopback = address.ip().is_loopback();
        if is_loopback {
            hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        match address.ip() {
            ip if ip.is_unspecified() => {}
            IpAddr::V4(ip) => hosts.push(ip.to_string()),
            IpAddr::V6(ip) => hosts.push(format!("[{ip}]")),
        }
        let origins = origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        Self { hosts, origins, is_loopback }
    }

    /// Checks the headers of a request.
    ///
    /// # Errors
    /// `Host` is missing, repeated or not a name of the listener, or `Origin` names a web page that is not allowed.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), HostOriginError> {
        let host = single_header(request.headers(), &HOST)?;
        let Some(host) = host else { return Err(reject(StatusCode::BAD_REQUEST, "the request has no `Host` header")) };
        if !self.is_exact_host(host) || request.uri().authority().is_some() {
            self.check_host(request, host)?;
        }
        match single_header(request.headers(), &ORIGIN)? {
            Some(origin) if !self.is_trusted_origin(origin) => {
                let message = format!(
                    "web pages from {} may not call this server; to allow them, add the origin to `origins` in the configuration",
                    quote_excerpt(origin)
                );
                Err(reject(StatusCode::FORBIDDEN, &message))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether `Host` is exactly one of the names, in the same case, with or without a port. Nearly all
    /// requests pass this quick check.
    fn is_exact_host(&self, host: &str) -> bool {
        let is_port = |port: &str| matches!(port.len(), 1..=5) && port.bytes().all(|byte| byte.is_ascii_digit());
        self.hosts.iter().any(|own| {
            let rest = host.strip_prefix(own.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
        })
    }

    /// Parses and checks a `Host` that needs more than an exact comparison.
    fn check_host<B>(&self, request: &Request<B>, host: &str) -> Result<(), HostOriginError> {
        let authority: Authority =
            host.parse().map_err(|_| reject(StatusCode::BAD_REQUEST, "the `Host` header is malformed"))?;
        if !self.is_known_host(&authority) {
            let message = format!(
                "{} in the `Host` header is not a name of this server; if it should be, add it to `hosts` in the configuration",
                quote_excerpt(host)
            );
            return Err(reject(StatusCode::MISDIRECTED_REQUEST, &message));
        }
        // An absolute request target could contradict `Host`.
        if request.uri().authority().is_some_and(|target| *target != authority) {
            return Err(reject(StatusCode::BAD_REQUEST, "the request target and the `Host` header differ"));
        }
        Ok(())
    }

    fn is_known_host(&self, authority: &Authority) -> bool {
        let is_plain = !authority.as_str().contains('@');
        is_plain && self.hosts.iter().any(|host| host.eq_ignore_ascii_case(authority.host()))
    }

    fn is_trusted_origin(&self, origin: &str) -> bool {
        if self.origins.iter().any(|own| own.eq_ignore_ascii_case(origin)) {
            return true;
        }
        // A web page on this machine may call a gateway on this machine, from any port.
        let rest = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        let authority = rest.and_then(|rest| rest.parse::<Authority>().ok());
        self.is_loopback && authority.is_some_and(|authority| self.is_known_host(&authority))
    }
}

/// The value of a header that must not be repeated; `None` if it is missing.
fn single_header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, HostOriginError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(reject(StatusCode::BAD_REQUEST, &format!("the request has more than one `{name}` header")));
    }
    match first.map(|value| value.to_str()) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(reject(StatusCode::BAD_REQUEST, &format!("the `{name}` header is not plain text"))),
    }
}

fn reject(status: StatusCode, message: &str) -> HostOriginError {
    HostOriginError { status, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(headers: &[(&str, &str)], target: &str) -> u16 {
        let address = "127.0.0.1:7777".parse().expect("an address");
        let guard =
            HostOriginGuard::new(address, &["gate.example.com".to_owned()], &["https://app.example.com".to_owned()]);
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        guard.check(&request).map_or_else(|rejected| rejected.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_hosts_of_this_gateway_are_accepted() {
        for host in ["localhost:7777", "127.0.0.1", "[::1]:1", "LOCALHOST", "gate.example.com"] {
            assert_eq!(status(&[("host", host)], "/mcp/x"), 200, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "169.254.169.254"] {
            assert_eq!(status(&[("host", host)], "/mcp/x"), 421, "{host}");
        }
        assert_eq!(status(&[], "/mcp/x"), 400);
        assert_eq!(status(&[("host", "localhost"), ("host", "localhost")], "/mcp/x"), 400);
        assert_ne!(status(&[("host", "a@localhost")], "/mcp/x"), 200);
        assert_eq!(status(&[("host", "localhost")], "http://evil.example/mcp/x"), 400);
        assert_eq!(status(&[("host", "localhost")], "http://localhost/mcp/x"), 200);
    }

    #[test]
    fn only_web_pages_of_known_origins_are_accepted() {
        let with = |origin: &str| status(&[("host", "localhost"), ("origin", origin)], "/mcp/x");
        for origin in ["http://localhost:6274", "http://127.0.0.1", "https://app.example.com"] {
            assert_eq!(with(origin), 200, "{origin}");
        }
        for origin in ["null", "http://evil.example", "https://app.example.com.evil.example", "file://", ""] {
            assert_eq!(with(origin), 403, "{origin}");
        }
        let twice = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")];
        assert_eq!(status(&twice, "/mcp/x"), 400);
    }
}
