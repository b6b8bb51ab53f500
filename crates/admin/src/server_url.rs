//! Parses, checks and redacts the URLs of MCP servers.

use std::net::IpAddr;

use http::Uri;

/// The URL that help texts show.
pub const EXAMPLE_SERVER_URL: &str = "https://mcp.example.com/mcp";

/// Why a string is not a valid server URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerUrlError {
    /// The URL is not `http://…` or `https://…` with a host.
    InvalidForm,
    /// The URL contains a user name or password.
    HasCredentials,
    /// The URL has an invalid form, and also contains a user name or password.
    InvalidFormWithCredentials,
    /// The URL contains a `#`.
    HasFragment,
    /// The part after the host is not a valid port.
    InvalidPort,
}

impl ServerUrlError {
    /// Returns the error message. It does not contain the URL, which may contain a secret.
    pub fn message(&self) -> String {
        match self {
            Self::InvalidForm => "this is not a URL of the form `http://host/path` or `https://host/path`",
            Self::HasCredentials => "the URL has a user or password in it",
            Self::InvalidFormWithCredentials => {
                "this is not a URL of the form `http://host/path` or `https://host/path`, and has a user or \
                password in it"
            }
            Self::HasFragment => "the URL has a `#`, which is never sent",
            Self::InvalidPort => "the URL has an invalid port",
        }
        .to_owned()
    }

    /// Returns how to fix the error.
    pub fn help(&self) -> &'static str {
        match self {
            Self::InvalidForm => "write it like `https://mcp.example.com/mcp`",
            Self::HasCredentials => "remove it, and send a header: `Authorization = \"Basic ${NAME}\"`",
            Self::InvalidFormWithCredentials => {
                "write it like `https://mcp.example.com/mcp`, and send a header: `Authorization = \"Basic ${NAME}\"`"
            }
            Self::HasFragment => "remove it",
            Self::InvalidPort => "a port is a number from 1 to 65535",
        }
    }
}

/// Parses a server URL.
pub fn parse_server_url(text: &str) -> Result<Uri, ServerUrlError> {
    if text.contains('#') {
        return Err(ServerUrlError::HasFragment);
    }
    let uri: Uri = text.parse().map_err(|_| ServerUrlError::InvalidForm)?;
    let authority = uri.authority().ok_or(ServerUrlError::InvalidForm)?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    if authority.as_str().contains('@') {
        return Err(if is_http { ServerUrlError::HasCredentials } else { ServerUrlError::InvalidFormWithCredentials });
    }
    if !is_http || !is_host_name(authority.host()) {
        return Err(ServerUrlError::InvalidForm);
    }
    // The HTTP client would ignore an invalid port and send the request to another server.
    let after = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    match after.strip_prefix(':').map(str::parse::<u16>) {
        None if after.is_empty() => Ok(uri),
        Some(Ok(1..)) => Ok(uri),
        _ => Err(ServerUrlError::InvalidPort),
    }
}

fn is_host_name(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[') {
        return address.strip_suffix(']').is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
    }
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    host.strip_suffix('.').unwrap_or(host).split('.').all(is_label)
}

/// Returns whether a URL points to this machine.
pub fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Redacts a URL for output: the query, the fragment and the user information may contain secrets.
pub fn redact_url(url: &str) -> String {
    let url = gatelodge_json::escape_for_terminal(url);
    let (before, after) = url.split_at_checked(url.find(['?', '#']).unwrap_or(url.len())).unwrap_or((&url, ""));
    let after = after.chars().next().map(|sign| format!("{sign}***")).unwrap_or_default();
    let host = before.split_once("://").map(|(scheme, rest)| (scheme, rest.split_once('/').unwrap_or((rest, ""))));
    match host.and_then(|(scheme, (host, path))| Some((scheme, host.rsplit_once('@')?.1, path))) {
        Some((scheme, host, path)) => format!("{scheme}://***@{host}/{path}{after}"),
        None => format!("{before}{after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_urls_without_credentials_are_accepted() {
        for url in ["http://localhost:1/mcp", "https://a.example.com", "http://[::1]:8/x?y=z"] {
            assert!(parse_server_url(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "localhost:1",
            "/mcp",
            "ftp://a",
            "http://",
            "https:///x",
            "file:///x",
            "http://a..b/",
            "https://[zz]/",
        ] {
            assert_eq!(parse_server_url(url), Err(ServerUrlError::InvalidForm), "{url}");
        }
        for url in
            ["http://a:187100/mcp", "http://a:99999", "http://a:80a/", "http://a:-5", "http://a:0/", "http://a:/"]
        {
            assert_eq!(parse_server_url(url), Err(ServerUrlError::InvalidPort), "{url}");
        }
        assert_eq!(parse_server_url("https://me:pw@a.example.com/"), Err(ServerUrlError::HasCredentials));
        assert_eq!(parse_server_url("ftp://me:pw@a.example.com/"), Err(ServerUrlError::InvalidFormWithCredentials));
        assert_eq!(parse_server_url("https://a/#b"), Err(ServerUrlError::HasFragment));
        assert_eq!(redact_url("https://a/mcp?key=1"), "https://a/mcp?***");
    }

    #[test]
    fn loopback_urls_are_recognized() {
        for (url, expected) in [
            ("http://localhost:1", true),
            ("http://127.9.0.1", true),
            ("http://[::1]:2/", true),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&parse_server_url(url).expect("a url")), expected, "{url}");
        }
    }
}
