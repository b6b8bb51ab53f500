//! Test packages of a few lines.

use gatelodge_catalogue::{ExtractedTool, SourceFile};
use gatelodge_indexer::{ToolExtraction, extract_python_tools};

/// Returns the tools of a package with one file.
pub fn tools(text: &str) -> Vec<ExtractedTool> {
    tools_of(&[("books/server.py", text)])
}

/// Returns the tools of a package that is read completely.
pub fn tools_of(files: &[(&str, &str)]) -> Vec<ExtractedTool> {
    let found = extract(files);
    assert_eq!(found.unread_parts, 0);
    found.tools
}

/// Extracts from a package.
pub fn extract(files: &[(&str, &str)]) -> ToolExtraction {
    let files: Vec<SourceFile<'_>> = files.iter().map(|(path, text)| SourceFile { path, text }).collect();
    extract_python_tools(&files)
}

/// Returns the tool names of a package with one file.
pub fn names(text: &str) -> Vec<String> {
    tools(text).into_iter().map(|tool| tool.name).collect()
}

/// Returns the tool names of a package.
pub fn names_of(files: &[(&str, &str)]) -> Vec<String> {
    tools_of(files).into_iter().map(|tool| tool.name).collect()
}

/// Returns the names of default tools and of optional ones.
pub fn split(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let (optional, default): (Vec<_>, Vec<_>) = tools_of(files).into_iter().partition(|tool| tool.optional);
    let names = |tools: Vec<ExtractedTool>| tools.into_iter().map(|tool| tool.name).collect();
    (names(default), names(optional))
}

/// Asserts the names of default tools and of optional ones.
pub fn assert_tools(found: (Vec<String>, Vec<String>), default: &[&str], optional: &[&str]) {
    assert_eq!(found.0, default, "by default");
    assert_eq!(found.1, optional, "only under a setting");
}
