//! Builds the paths of pages. Package and tool names are untrusted, so they are escaped to keep each page in its
//! folder.

use std::collections::BTreeSet;

use crate::package_index::IndexedServer;

/// Maximum length of a path segment. Longer ones are truncated and get a checksum as a suffix.
const MAX_SEGMENT_BYTES: usize = 100;

/// Returns the path of the folder for a server's pages.
pub(super) fn server_path(server: &IndexedServer<'_>) -> String {
    // Only a scope can be a folder of its own.
    let name = match server.package().split_once('/') {
        Some((scope, name)) if scope.starts_with('@') => format!("{}/{}", path_segment(scope), path_segment(name)),
        _ => path_segment(server.package()),
    };
    format!("servers/{}/{name}", server.source().as_str())
}

/// Returns the page path of each of a server's tools, in order. Names that differ only in case get distinct paths,
/// because some file systems ignore case.
pub(super) fn tool_paths(own: &IndexedServer<'_>) -> Vec<String> {
    let folder = server_path(own);
    let mut taken = BTreeSet::new();
    let mut places = Vec::new();
    for tool in own.tools() {
        let plain = path_segment(tool.name());
        let mut name = plain.clone();
        let mut number = 2;
        while !taken.insert(name.to_lowercase()) {
            name = format!("{plain}~{number}");
            number += 1;
        }
        places.push(format!("{folder}/tools/{name}"));
    }
    places
}

/// Converts a name to a path segment. Everything except letters, digits and a few symbols is escaped.
fn path_segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'@' => out.push(char::from(byte)),
            // A leading dot hides a file, and two dots lead upwards.
            b'.' if !out.is_empty() && !out.ends_with('.') => out.push('.'),
            byte => out.push_str(&format!("~{byte:02x}")),
        }
    }
    if out.len() > MAX_SEGMENT_BYTES {
        out.truncate(MAX_SEGMENT_BYTES);
        out.push_str(&format!("~{:08x}", crc32fast::hash(name.as_bytes())));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::path_segment;

    #[test]
    fn no_name_leads_out_of_its_folder() {
        assert_eq!(path_segment("../../etc"), "~2e.~2f.~2e~2fetc");
        assert_eq!(path_segment(".."), "~2e.");
        assert_eq!(path_segment("a/b\\c:d"), "a~2fb~5cc~3ad");
        assert_eq!(path_segment("ünï"), "~c3~bcn~c3~af");
        assert_eq!(path_segment("get_it-2.0"), "get_it-2.0");
        assert!(path_segment(&"x".repeat(300)).len() < 120);
        assert_ne!(path_segment(&format!("{}a", "x".repeat(300))), path_segment(&format!("{}b", "x".repeat(300))));
    }
}
