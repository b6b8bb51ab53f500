//! Packages made of a few lines.

use gatelodge_crawl::{FoundTool, SourceFile, python_tools};

/// The tools of a package of one file.
pub fn tools(text: &str) -> Vec<FoundTool> {
    tools_of(&[("books/server.py", text)])
}

/// The tools of a package.
pub fn tools_of(files: &[(&str, &str)]) -> Vec<FoundTool> {
    let files: Vec<SourceFile<'_>> = files.iter().map(|(path, text)| SourceFile { path, text }).collect();
    python_tools(&files)
}

/// Their names.
pub fn names(text: &str) -> Vec<String> {
    tools(text).into_iter().map(|tool| tool.name).collect()
}

/// The names of a package's tools.
pub fn names_of(files: &[(&str, &str)]) -> Vec<String> {
    tools_of(files).into_iter().map(|tool| tool.name).collect()
}
