//! Makes file paths in a report relative to the current directory, so that the report does not reveal where that
//! directory is.

use std::path::{Component, Path};

/// Returns the path of a file relative to the current directory, or only the file name if it is not below that
/// directory.
pub fn report_path(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    path_below_current_directory(path).unwrap_or_else(|| relative_uri(Path::new(name)))
}

/// Returns the path relative to the current directory, or `None` if the file is not below that directory.
pub fn path_below_current_directory(path: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?.canonicalize().ok()?;
    // Relative to the root directory, the path would be the full path.
    here.parent()?;
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.components().all(is_plain) {
        return Some(relative_uri(path));
    }
    // The folder is resolved, but a link is reported at its own location, not at its target.
    let folder = path.parent()?.canonicalize().ok()?;
    Some(relative_uri(&folder.strip_prefix(here).ok()?.join(path.file_name()?)))
}

/// Converts a path to a relative URI.
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
    fn path_is_relative_to_the_current_directory_and_never_absolute() {
        let here = std::env::current_dir().expect("a folder");
        assert_eq!(report_path(Path::new("./sub/.mcp.json")), "sub/.mcp.json");
        assert_eq!(report_path(&here.join("src/.mcp.json")), "src/.mcp.json");
        assert_eq!(report_path(Path::new("src/../src/.mcp.json")), "src/.mcp.json");
        assert_eq!(report_path(Path::new("/etc/a b#1%.json")), "a%20b%231%25.json");
        assert_eq!(report_path(Path::new("../../../../../x.json")), "x.json");
    }
}
