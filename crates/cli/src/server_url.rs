//! Addresses of servers, as people write them.

use std::net::IpAddr;

use http::Uri;

/// Why a text is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerUrlError {
    /// Not `http://…` or `https://…` with a host.
    InvalidForm,
    /// With a user or password in it.
    HasCredentials,
    /// Neither the form nor without a user.
    InvalidFormWithCredentials,
    /// With a `#`.
    HasFragment,
    /// With something behind the host that is no port.
    InvalidPort,
}

impl ServerUrlError {
    /// What is wrong; never the address itself, which may hold a secret.
    pub fn message(&self) -> String {
        match self {
            Self::InvalidForm => "this is not an address of the form `http://host/path` or `https://host/path`",
            Self::HasCredentials => "the address has a user or password in it",
            Self::InvalidFormWithCredentials => {
                "this is not an address of the form `http://host/path` or `https://host/path`, and has a user or \
                 password in it"
            }
            Self::HasFragment => "the address has a `#`, which is never sent",
            Self::InvalidPort => "the address has no port where one should be",
        }
        .to_owned()
    }

    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::InvalidForm => "write it like `https://mcp.example.com/mcp`",
            Self::HasCredentials => "leave it out, and send a header: `Authorization = \"Basic ${NAME}\"`",
            Self::InvalidFormWithCredentials => {
                "write it like `https://mcp.example.com/mcp`, and send a header: `Authorization = \"Basic ${NAME}\"`"
            }
            Self::HasFragment => "leave it out",
            Self::InvalidPort => "a port is a number from 1 to 65535",
        }
    }
}

/// Reads the address of a server.
pub fn parse_server_url(text: &str) -> Result<Uri, ServerUrlError> {
    if text.contains('#') {
        return Err(ServerUrlError::HasFragment);
    }
    let uri: Uri = text.parse().map_err(|_| ServerUrlError::InvalidForm)?;
    let authority = uri.authority().ok_or(ServerUrlError::InvalidForm)?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    if authority.as_str().contains('@') {
        return Err(if is_web { ServerUrlError::HasCredentials } else { ServerUrlError::InvalidFormWithCredentials });
    }
    if !is_web || !is_host_name(authority.host()) {
        return Err(ServerUrlError::InvalidForm);
    }
    // A port that is none would be left out, and the request go to another server.
    let behind = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    match behind.strip_prefix(':').map(str::parse::<u16>) {
        None if behind.is_empty() => Ok(uri),
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

/// Whether an address is on this machine.
pub fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An address as it may be shown: what stands behind the `?` or `#`, or before an `@`, may be a secret.
pub fn redact_url(url: &str) -> String {
    let url = crate::diagnostic_report::escape_for_terminal(url);
    let (before, behind) = url.split_at_checked(url.find(['?', '#']).unwrap_or(url.len())).unwrap_or((&url, ""));
    let behind = behind.chars().next().map(|sign| format!("{sign}***")).unwrap_or_default();
    let host = before.split_once("://").map(|(scheme, rest)| (scheme, rest.split_once('/').unwrap_or((rest, ""))));
    match host.and_then(|(scheme, (host, path))| Some((scheme, host.rsplit_once('@')?.1, path))) {
        Some((scheme, host, path)) => format!("{scheme}://***@{host}/{path}{behind}"),
        None => format!("{before}{behind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_web_addresses_are_taken() {
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
    fn this_machine_is_known_by_its_names() {
        for (url, is) in [
            ("http://localhost:1", true),
            ("http://127.9.0.1", true),
            ("http://[::1]:2/", true),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&parse_server_url(url).expect("a url")), is, "{url}");
        }
    }
}
