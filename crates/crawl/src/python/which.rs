//! Which files of a package are looked at.

use super::lower::speaks_of_tools;
use crate::found::SourceFile;

/// Folders whose tools no client is ever offered: they show or test how a package is used, or are copied elsewhere
/// to start from.
const ASIDE: [&str; 24] = [
    "tests",
    "test",
    "unittests",
    "integration_tests",
    "e2e",
    "examples",
    "example",
    "docs",
    "doc",
    "samples",
    "sample",
    "demos",
    "benchmarks",
    "benchmark",
    "templates",
    "template",
    "cookbook",
    "notebooks",
    "build",
    "node_modules",
    "site-packages",
    ".venv",
    "venv",
    "fixtures",
];
/// Files that only build or test.
const ASIDE_FILES: [&str; 3] = ["setup.py", "conftest.py", "noxfile.py"];

/// The files that count. A package that has nothing but examples is one of examples, and they are its tools; tests
/// are nobody's.
pub fn chosen<'f>(files: &[SourceFile<'f>]) -> Vec<SourceFile<'f>> {
    let python = || files.iter().copied().filter(|file| file.path.ends_with(".py") && !is_template(file.path));
    let main: Vec<_> = python().filter(|file| !is_aside(file)).collect();
    let says_something = |file: &SourceFile<'_>| !file.path.ends_with("__init__.py") || file.text.len() > 400;
    if main.iter().any(says_something) {
        return main;
    }
    python().filter(|file| !is_test(file) && !is_aside_file(file.path)).collect()
}

fn is_aside(file: &SourceFile<'_>) -> bool {
    let folders = file.path.rsplit_once('/').map_or("", |(folders, _)| folders);
    // Below `tools` a folder may well be about documents or templates.
    let above = folders.split('/').take_while(|folder| *folder != "tools");
    above.into_iter().any(|folder| ASIDE.contains(&folder)) || is_aside_file(file.path) || is_test(file)
}

fn is_aside_file(path: &str) -> bool {
    ASIDE_FILES.contains(&path.rsplit('/').next().unwrap_or(path))
}

fn is_test(file: &SourceFile<'_>) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or(file.path);
    let is_named = name.starts_with("test_") || name.ends_with("_test.py");
    // `run_test.py` may be a tool that runs tests.
    let tests = || ["def test_", "import pytest", "unittest"].iter().any(|word| file.text.contains(word));
    file.path.split('/').any(|part| matches!(part, "tests" | "test")) || (is_named && tests())
}

/// A name to be filled in.
fn is_template(path: &str) -> bool {
    path.contains("{{") || path.contains("{%")
}

/// Whether a text imports an SDK.
pub fn imports_mcp(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let module = line.strip_prefix("from ").or_else(|| line.strip_prefix("import "));
        module.is_some_and(|module| {
            let module = module.split([' ', ',']).next().unwrap_or(module).to_ascii_lowercase();
            module.split('.').next().is_some_and(|root| root.contains("mcp"))
        })
    })
}

/// Whether a text can have tools at all.
pub fn can_have_tools(text: &str) -> bool {
    speaks_of_tools(text) || text.contains("inputSchema")
}
