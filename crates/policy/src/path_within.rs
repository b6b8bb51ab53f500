//! The `path_within` operator. Paths are normalized textually, without access to a file system.

use gatelodge_mutants::mutant;

/// The path of an absolute directory, split into segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryPath(Vec<Box<str>>);

impl DirectoryPath {
    /// Parses the path of a directory. `None` if it is relative or contains NUL or a backslash.
    pub fn new(text: &str) -> Option<Self> {
        let segments = normalize(text)?;
        Some(Self(segments.into_iter().map(Into::into).collect()))
    }

    /// Returns whether `path` is this directory or is inside it. `None` if `path` is not a valid absolute path.
    pub fn contains(&self, path: &str) -> Option<bool> {
        let segments = normalize(path)?;
        let starts_alike = self.0.iter().zip(&segments).all(|(ours, theirs)| **ours == **theirs);
        Some(starts_alike && segments.len() >= self.0.len())
    }
}

/// Splits a path into segments and resolves `//`, `.` and `..`. The parent of the root is the root.
fn normalize(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix('/')?;
    if rest.contains(['\0', '\\']) {
        return None;
    }
    let mut segments = Vec::new();
    for segment in rest.split('/') {
        match segment {
            "" | "." => {}
            ".." if !mutant!("parent-directory-not-resolved") => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    Some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_compared_by_whole_segments_after_normalization() {
        let contains = |directory: &str, path: &str| DirectoryPath::new(directory).and_then(|dir| dir.contains(path));
        for (directory, path) in [
            ("/a", "/a"),
            ("/a/", "/a/b"),
            ("/a", "//a//b/."),
            ("/a", "/../a/b"),
            ("/", "/x"),
            ("/x/../a", "/a/b/../c"),
        ] {
            assert_eq!(contains(directory, path), Some(true), "{directory} {path}");
        }
        for (directory, path) in [("/a", "/ab"), ("/a", "/a/../b"), ("/a/b", "/a"), ("/a", "/"), ("/a", "/A")] {
            assert_eq!(contains(directory, path), Some(false), "{directory} {path}");
        }
        for path in ["", "a", "./a", "~/a", "/a\0", "/a\\..\\b", "C:\\a"] {
            assert_eq!(contains("/", path), None, "{path}");
        }
    }
}
