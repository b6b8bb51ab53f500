//! Detects ambiguous resource URIs: URIs that a server could resolve to a resource other than the one they appear to
//! name.

use gatelodge_mutants::mutant;

/// Returns whether the URI contains any of the following: a dot segment; a backslash, control character or white space;
/// a percent-encoded dot, slash, backslash or NUL; or userinfo.
pub(crate) fn is_ambiguous(uri: &str) -> bool {
    // Some URL parsers drop tabs, line breaks and surrounding spaces, and then see a different URI.
    let is_blank = |character: char| character.is_whitespace() && !mutant!("uri-with-space-allowed");
    let is_odd = |character: char| character == '\\' || character.is_control() || is_blank(character);
    uri.contains(is_odd) || has_dot_segment(uri) || has_encoded_separator(uri) || has_userinfo(uri)
}

fn has_dot_segment(uri: &str) -> bool {
    uri.split(['/', '?', '#', ':']).any(|segment| segment == "." || segment == "..")
}

fn has_encoded_separator(uri: &str) -> bool {
    let is_same = |code: &str, trick: &str| {
        code.eq_ignore_ascii_case(trick) && !(mutant!("uppercase-escapes-allowed") && code != trick)
    };
    let is_trick = |code: &str| ["2e", "2f", "5c", "00"].iter().any(|trick| is_same(code, trick));
    uri.match_indices('%').any(|(at, _)| uri.get(at + 1..at + 3).is_some_and(is_trick))
}

/// Schemes after which URL parsers accept any number of slashes, even zero, in front of the authority.
const WEB_SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// Returns whether there is an `@` in any part that some URL parser could read as the authority.
fn has_userinfo(uri: &str) -> bool {
    // Number of slashes directly in front of the current segment, and whether a web scheme precedes them.
    let (mut slashes, mut is_web) = (0, false);
    for part in uri.split_inclusive(['/', '?', '#']) {
        let segment = part.trim_end_matches(['/', '?', '#']);
        if let Some((before, _)) = segment.rsplit_once('@')
            && (slashes == 2
                || (is_web && !mutant!("userinfo-after-extra-slashes-missed"))
                || before.match_indices(':').any(|(at, _)| ends_in_web_scheme(before, at)))
        {
            return true;
        }
        let is_path = part.ends_with('/');
        if !segment.is_empty() {
            slashes = 0;
            is_web = segment.ends_with(':') && ends_in_web_scheme(segment, segment.len() - 1);
        }
        (slashes, is_web) = if is_path { (slashes + 1, is_web) } else { (0, false) };
    }
    false
}

/// Returns whether `text[..end]` ends with a web scheme.
fn ends_in_web_scheme(text: &str, end: usize) -> bool {
    let before = text.as_bytes().get(..end).unwrap_or_default();
    WEB_SCHEMES.iter().any(|web| {
        let start = before.len().checked_sub(web.len());
        start.and_then(|start| before.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(web.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::is_ambiguous;

    #[test]
    fn ambiguous_parts_are_found_at_any_position() {
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
            assert!(is_ambiguous(uri), "{uri}");
        }
        for uri in [
            "file:///a/b.txt",
            "file:///a/..b",
            "mailto:a@b",
            "file:///a@b",
            "http://h/a@b",
            "note://x/1%20y",
            "x:.../y",
            "http://h?q=a@b",
        ] {
            assert!(!is_ambiguous(uri), "{uri}");
        }
    }
}
