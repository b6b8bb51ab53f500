//! Where messages go in the transport of 2024-11-05.

use gatelodge_mutants::mutant;
use http::Uri;

/// The most bytes of an address.
const MAX_ENDPOINT_BYTES: usize = 8 << 10;

/// The address that a server names for messages, at the origin of the one where its stream is. None for any other, and
/// for what is no address: what goes there carries credentials.
pub fn resolve_endpoint(stream: &Uri, named: &str) -> Option<Uri> {
    let named = named.trim().split('#').next().unwrap_or_default();
    if named.is_empty() || named.len() > MAX_ENDPOINT_BYTES {
        return None;
    }
    if mutant!("sse-endpoint-on-any-origin") && is_absolute(named) {
        return named.parse().ok();
    }
    let path = if named.starts_with("//") {
        same_origin_path(stream, &format!("{}:{named}", stream.scheme_str()?))?
    } else if named.starts_with('/') {
        named.to_owned()
    } else if named.starts_with('?') {
        format!("{}{named}", stream.path())
    } else if is_absolute(named) {
        same_origin_path(stream, named)?
    } else {
        let folder = stream.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{named}")
    };
    let is_plain = |path: &str| !path.split('/').any(|part| matches!(part, "." | ".."));
    if !is_plain(path.split('?').next().unwrap_or_default()) {
        return None;
    }
    // Built of the origin that is configured, so that it can be no other.
    let own = Uri::builder().scheme(stream.scheme()?.clone()).authority(stream.authority()?.clone());
    own.path_and_query(path).build().ok()
}

/// Whether an address begins with a scheme, whatever follows it.
fn is_absolute(named: &str) -> bool {
    let scheme = named.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)))
}

/// The path and the query of an absolute address, if it is of the stream's origin.
fn same_origin_path(stream: &Uri, named: &str) -> Option<String> {
    let named: Uri = named.parse().ok()?;
    let is_own = named.scheme() == stream.scheme()
        && named.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        && named.host()?.eq_ignore_ascii_case(stream.host()?)
        && effective_port(&named) == effective_port(stream);
    let path = named.path_and_query().map_or("/", |path| path.as_str());
    is_own.then(|| path.to_owned())
}

fn effective_port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or(match uri.scheme_str()? {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_the_streams_own_origin_however_it_is_written() {
        let stream = Uri::from_static("https://Books.example/a/sse?key=1");
        for (named, path) in [
            ("/message?sessionId=1", "/message?sessionId=1"),
            (" /message \n", "/message"),
            ("/message?to=http://evil.example/", "/message?to=http://evil.example/"),
            ("?sessionId=1", "/a/sse?sessionId=1"),
            ("messages/?session_id=1", "/a/messages/?session_id=1"),
            ("https://books.example/m?s=1", "/m?s=1"),
            ("https://books.EXAMPLE:443/m#part", "/m"),
            ("//books.example/m", "/m"),
        ] {
            let found = resolve_endpoint(&stream, named).map(|uri| uri.to_string());
            assert_eq!(found, Some(format!("https://Books.example{path}")), "{named}");
        }
        for named in [
            "",
            "https://evil.example/m",
            "http://books.example/m",
            "https://books.example:8443/m",
            "https://books.example@evil.example/m",
            "https://user@books.example/m",
            "//evil.example/m",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "/a/../admin",
            "./m",
            "/m with spaces",
        ] {
            assert_eq!(resolve_endpoint(&stream, named), None, "{named}");
        }
    }
}
