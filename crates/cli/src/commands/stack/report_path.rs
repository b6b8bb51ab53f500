//! Files as a report names them: from the folder that the command runs in. Where that is on this machine is nobody's
//! business.

use std::path::{Component, Path};

/// A file that was named: as it is reached from here, or by its name alone where it is elsewhere.
pub fn report_path(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    path_below_current_directory(path).unwrap_or_else(|| relative_uri(Path::new(name)))
}

/// A file below the folder that the command runs in; none if it is elsewhere.
pub fn path_below_current_directory(path: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?.canonicalize().ok()?;
    // From the root, the way to a file is all of its path.
    here.parent()?;
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.components().all(is_plain) {
        return Some(relative_uri(path));
    }
    // A link is where it stands, not where it leads.
    let folder = path.parent()?.canonicalize().ok()?;
    Some(relative_uri(&folder.strip_prefix(here).ok()?.join(path.file_name()?)))
}

/// A path as an address that is relative.
fn relative_uri(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(percent_encode(&part.to_string_lossy())),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

fn percent_encode(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@+".contains(&byte);
    part.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_from_here_and_never_from_the_root() {
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(report_path(Path::new("./sub/.mcp.json")), "sub/.mcp.json");
        assert_eq!(report_path(&here.join("src/.mcp.json")), "src/.mcp.json");
        assert_eq!(report_path(Path::new("src/../src/.mcp.json")), "src/.mcp.json");
        assert_eq!(report_path(Path::new("/etc/a b#1%.json")), "a%20b%231%25.json");
        assert_eq!(report_path(Path::new("../../../../../x.json")), "x.json");
    }
}
