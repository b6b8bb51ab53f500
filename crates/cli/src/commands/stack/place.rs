//! Files as a report names them: from the folder that the command runs in. Where that is on this machine is nobody's
//! business.

use std::path::{Component, Path};

/// A file that was named: as it is reached from here, or by its name alone where it is elsewhere.
pub fn named(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    below_here(path).unwrap_or_else(|| uri(Path::new(name)))
}

/// A file below the folder that the command runs in; none if it is elsewhere.
pub fn below_here(path: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?.canonicalize().ok()?;
    // From the root, the way to a file is all of its path.
    here.parent()?;
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.components().all(is_plain) {
        return Some(uri(path));
    }
    // A link is where it stands, not where it leads.
    let folder = path.parent()?.canonicalize().ok()?;
    Some(uri(&folder.strip_prefix(here).ok()?.join(path.file_name()?)))
}

/// A path as an address that is relative.
fn uri(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(escaped(&part.to_string_lossy())),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

fn escaped(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@+".contains(&byte);
    part.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_from_here_and_never_from_the_root() {
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(named(Path::new("./sub/.mcp.json")), "sub/.mcp.json");
        assert_eq!(named(&here.join("src/.mcp.json")), "src/.mcp.json");
        assert_eq!(named(Path::new("src/../src/.mcp.json")), "src/.mcp.json");
        assert_eq!(named(Path::new("/etc/a b#1%.json")), "a%20b%231%25.json");
        assert_eq!(named(Path::new("../../../../../x.json")), "x.json");
    }
}
