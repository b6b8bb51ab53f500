//! Where pages are: names of packages and tools as names of files, which are foreign and must not lead elsewhere.

use std::collections::BTreeSet;

use crate::package_index::IndexedServer;

/// Longer names are cut, and told apart by their sum.
const MAX_SEGMENT_BYTES: usize = 100;

/// The folder of a server.
pub(super) fn server_path(server: &IndexedServer<'_>) -> String {
    // A scope is a folder of its own; nothing else may be one.
    let name = match server.package().split_once('/') {
        Some((scope, name)) if scope.starts_with('@') => format!("{}/{}", path_segment(scope), path_segment(name)),
        _ => path_segment(server.package()),
    };
    format!("servers/{}/{name}", server.source().as_str())
}

/// The places of a server's tools, in their order. Names that differ in the case of letters alone have places that do
/// not, because some file systems take them for one.
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

/// A name as one part of a path: letters, digits and a few signs; the rest is written out.
fn path_segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'@' => out.push(char::from(byte)),
            // A leading one hides a file, and two lead upwards.
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
