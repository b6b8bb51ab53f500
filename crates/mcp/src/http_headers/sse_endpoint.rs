//! The message endpoint of the HTTP+SSE transport (2024-11-05).

use gatelodge_mutants::mutant;
use http::Uri;

/// Maximum length of an endpoint in bytes.
const MAX_ENDPOINT_BYTES: usize = 8 << 10;

/// Resolves the message endpoint that a server announces, relative to the URL of the event stream. Returns `None` if
/// the endpoint is invalid or has a different origin, because requests to it carry credentials.
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
    // Built from the configured origin, so it cannot be any other.
    let own = Uri::builder().scheme(stream.scheme()?.clone()).authority(stream.authority()?.clone());
    own.path_and_query(path).build().ok()
}

/// Returns whether an endpoint starts with a scheme.
fn is_absolute(named: &str) -> bool {
    let scheme = named.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)))
}

/// Returns the path and query of an absolute URL if it has the same origin as the stream.
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
    fn an_endpoint_has_the_origin_of_the_stream_in_every_notation() {
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
