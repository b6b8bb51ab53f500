//! Resource URIs that could mean another resource than their text says.

/// Whether a URI holds a dot segment, an encoded dot, slash, backslash or NUL, a backslash, NUL or userinfo.
pub(crate) fn is_treacherous(uri: &str) -> bool {
    // Some readers drop tabs, line breaks and outer spaces, and see another text then.
    let is_odd = |character: char| character == '\\' || character.is_control() || character.is_whitespace();
    uri.contains(is_odd) || has_dot_segment(uri) || has_encoded_trick(uri) || has_userinfo(uri)
}

fn has_dot_segment(uri: &str) -> bool {
    uri.split(['/', '?', '#', ':']).any(|segment| segment == "." || segment == "..")
}

fn has_encoded_trick(uri: &str) -> bool {
    let is_trick = |code: &str| ["2e", "2f", "5c", "00"].iter().any(|trick| code.eq_ignore_ascii_case(trick));
    uri.match_indices('%').any(|(at, _)| uri.get(at + 1..at + 3).is_some_and(is_trick))
}

fn has_userinfo(uri: &str) -> bool {
    let has_at = |rest: &str| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        rest.get(..end).is_some_and(|authority| authority.contains('@'))
    };
    // Behind the schemes of the web any number of slashes begins an authority, none too.
    if let Some((scheme, rest)) = uri.split_once(':')
        && ["http", "https", "ws", "wss", "ftp"].iter().any(|web| scheme.eq_ignore_ascii_case(web))
        && has_at(rest.trim_start_matches('/'))
    {
        return true;
    }
    // Every run of slashes may begin an authority for some reader; it ends at the next `/`, `?` or `#`.
    uri.match_indices("//").any(|(at, _)| has_at(uri.get(at..).unwrap_or_default().trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::is_treacherous;

    #[test]
    fn tricks_are_seen_anywhere() {
        for uri in [
            "file:///a/../b",
            "file:///a/.",
            "file:../x",
            "file:///a?x=/../y",
            "file:///a/%2e%2E/b",
            "x://h/%2F",
            "x://h/%5c",
            "x://h/%00",
            "x://h/a\\b",
            "x://h/\0",
            "http://user@host/",
            "http://u:p@h",
            "x:y?z=http://u@h",
            "http:///u@h/x",
            "http:////u@h",
            "x:a:..",
            "https:u@h/x",
            "https:/u@h/x",
            "file:///a/.\t./x",
            "file:///a ",
            "x:\u{85}",
            "x://h#/..",
        ] {
            assert!(is_treacherous(uri), "{uri}");
        }
        for uri in [
            "file:///a/b.txt",
            "file:///a/..b",
            "mailto:a@b",
            "http://h/a@b",
            "note://x/1%20y",
            "x:.../y",
            "http://h?q=a@b",
        ] {
            assert!(!is_treacherous(uri), "{uri}");
        }
    }
}
