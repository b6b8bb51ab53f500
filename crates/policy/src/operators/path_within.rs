//! `path_within`: the value is an absolute file path to a directory or into it. Paths are normalized textually, without
//! access to a file system.

use gatelodge_mutants::mutant;
use serde_json::{Value, json};

use super::ConditionOperator;
use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use crate::call::call_value::CallValue;
use crate::syntax::diagnostic::DiagnosticCode;

#[derive(Debug)]
pub(crate) struct PathWithinOperator(DirectoryPath);

impl ConditionOperator for PathWithinOperator {
    const WORD: &'static str = "path_within";
    const HELP: &'static str = "An absolute file path in this directory.";

    fn value_schema() -> Value {
        json!({ "type": "string", "pattern": r"^/[^\\\x00]*$" })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        let text = reader.read_text()?;
        let directory = DirectoryPath::new(text);
        if directory.is_none() {
            let (message, help) = if text.contains('\\') {
                (
                    format!("`{text}` has a backslash in it"),
                    "write it with slashes, such as `/srv/files`; nothing is escaped",
                )
            } else if text.contains('\0') {
                ("the directory has a NUL character in it".to_owned(), "remove it")
            } else {
                (
                    format!("`{text}` is not an absolute directory"),
                    "write a path that begins with a slash, such as `/srv/files`",
                )
            };
            reader.report(DiagnosticCode::BadValue, message, help);
        }
        directory.map(Self)
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::STRING
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        self.0.contains(found.as_text()?)
    }
}

/// The path of an absolute directory, split into segments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DirectoryPath(Vec<Box<str>>);

impl DirectoryPath {
    /// Parses the path of a directory. `None` if it is relative or contains NUL or a backslash.
    fn new(text: &str) -> Option<Self> {
        let segments = normalize(text)?;
        Some(Self(segments.into_iter().map(Into::into).collect()))
    }

    /// Returns whether `path` is this directory or is inside it. `None` if `path` is not a valid absolute path.
    fn contains(&self, path: &str) -> Option<bool> {
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
