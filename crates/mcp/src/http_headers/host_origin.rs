//! Who may speak to a listener at all: `UrlHost` and `ConnectionOrigin`, checked before anything else is read.
//!
//! A web page that makes a browser resolve its own name to this machine sends its own name as `UrlHost`, and its own
//! address as `ConnectionOrigin`. Both must be ones that people here use.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{Request, StatusCode};

use crate::message_error::quote_excerpt;

/// The names under which a listener is reached.
#[derive(Debug, Clone)]
pub struct HostOriginGuard {
    hosts: Vec<String>,
    origins: Vec<String>,
    is_loopback: bool,
}

/// Why a request is not let in.
#[derive(Debug)]
pub struct HostOriginError {
    /// The status to answer with.
    pub status: StatusCode,
    /// What is wrong, fit to be shown to the caller.
    pub message: String,
}

impl HostOriginGuard {
    /// For a listener at an address. On loopback its usual names are known; elsewhere the address itself is.
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

    /// Checks the head of a request.
    ///
    /// # Errors
    /// Its `UrlHost` is missing, doubled or not a name of the listener, or a page sent it that is not known.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), HostOriginError> {
        let host = single_header(request.headers(), &HOST)?;
        let Some(host) = host else { return Err(reject(StatusCode::BAD_REQUEST, "the request has no `Host` header")) };
        if !self.is_exact_host(host) || request.uri().authority().is_some() {
            self.check_host(request, host)?;
        }
        match single_header(request.headers(), &ORIGIN)? {
            Some(origin) if !self.is_trusted_origin(origin) => {
                let message = format!(
                    "a web page at {} may not call this server; name it under `origins` in the configuration if it may",
                    quote_excerpt(origin)
                );
                Err(reject(StatusCode::FORBIDDEN, &message))
            }
            _ => Ok(()),
        }
    }

    /// Whether a `UrlHost` is one of the names, alone or with a port, to the letter. Nearly all are.
    fn is_exact_host(&self, host: &str) -> bool {
        let is_port = |port: &str| matches!(port.len(), 1..=5) && port.bytes().all(|byte| byte.is_ascii_digit());
        self.hosts.iter().any(|own| {
            let rest = host.strip_prefix(own.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
        })
    }

    /// Reads the `UrlHost` as what it is, and checks it.
    fn check_host<B>(&self, request: &Request<B>, host: &str) -> Result<(), HostOriginError> {
        let authority: Authority =
            host.parse().map_err(|_| reject(StatusCode::BAD_REQUEST, "the `Host` header is not a host"))?;
        if !self.is_known_host(&authority) {
            let message = format!(
                "the `Host` {} is not a name of this server; name it under `hosts` in the configuration if it is one",
                quote_excerpt(host)
            );
            return Err(reject(StatusCode::MISDIRECTED_REQUEST, &message));
        }
        // A target with a host of its own would be another opinion on where the request goes.
        if request.uri().authority().is_some_and(|target| *target != authority) {
            return Err(reject(StatusCode::BAD_REQUEST, "the request's target and its `Host` header disagree"));
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
        // A page on this machine may call a gateway on this machine, under any port.
        let rest = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
        let authority = rest.and_then(|rest| rest.parse::<Authority>().ok());
        self.is_loopback && authority.is_some_and(|authority| self.is_known_host(&authority))
    }
}

/// The one value of a header, if it has one.
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
    fn only_names_of_this_gateway_are_let_in() {
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
    fn only_pages_of_known_origins_are_let_in() {
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
