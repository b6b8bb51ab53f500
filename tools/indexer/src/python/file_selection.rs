//! Selects the files of a package that are read.

use std::collections::HashSet;

use super::ast_lowering::mentions_tools;
use super::dynamic_import::{DynamicImport, dynamic_imports};
use super::module_files::{PyModuleFiles, last_module_part};
use super::registration_reachability::import_statements;
use gatelodge_catalogue::SourceFile;

/// Folders whose tools are never offered to a client: examples, tests and templates.
const AUXILIARY_FOLDERS: [&str; 24] = [
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
/// Maximum number of import lookups for finding the auxiliary files that a package uses.
const MAX_IMPORT_LOOKUPS: usize = 100_000;
/// Files used for building and testing.
const AUXILIARY_FILES: [&str; 3] = ["setup.py", "conftest.py", "noxfile.py"];

/// Returns the package's files and the auxiliary files that they import. If a package consists only of auxiliary files,
/// returns all of them except tests and files used for building.
pub fn select_files<'f>(files: &[SourceFile<'f>]) -> Vec<SourceFile<'f>> {
    let python = || files.iter().copied().filter(|file| file.path.ends_with(".py") && !is_template(file.path));
    let main: Vec<_> = python().filter(|file| !is_auxiliary(file)).collect();
    let says_something = |file: &SourceFile<'_>| !file.path.ends_with("__init__.py") || file.text.len() > 400;
    if main.iter().any(says_something) {
        return add_imported_files(&main, &python().filter(is_auxiliary).collect::<Vec<_>>());
    }
    python().filter(|file| !is_test(file) && !is_auxiliary_file(file.path)).collect()
}

/// Adds the auxiliary files that are imported, directly or indirectly. Adds all of them if there are too many imports
/// to look up.
fn add_imported_files<'f>(main: &[SourceFile<'f>], aside: &[SourceFile<'f>]) -> Vec<SourceFile<'f>> {
    let all: Vec<SourceFile<'f>> = main.iter().chain(aside).copied().collect();
    let (files, named) =
        (PyModuleFiles::of(&all), aside.iter().filter_map(|file| last_module_part(file.path)).collect::<HashSet<_>>());
    let mut chosen: Vec<usize> = (0..main.len()).collect();
    let (mut known, mut from, mut asked) = (chosen.iter().copied().collect::<HashSet<_>>(), 0, 0);
    while let Some(at) = chosen.get(from).copied().filter(|_| !aside.is_empty()) {
        from += 1;
        let text = all.get(at).map_or("", |file| file.text);
        for DynamicImport { up, module, is_folder } in dynamic_imports(text) {
            let module: Vec<&str> = module.split('.').collect();
            asked += 1;
            let targets = match is_folder {
                true => files_in_folder(&files, at, up, &module),
                false => find_imported_file(&files, at, up, &module).into_iter().collect(),
            };
            chosen.extend(targets.into_iter().filter(|target| known.insert(*target)));
        }
        for (up, module, item) in import_statements(text).into_iter().flatten() {
            let whole: Vec<&str> = module.split('.').chain(item).filter(|part| !part.is_empty()).collect();
            let around = (1..=whole.len()).filter_map(|count| whole.get(..count));
            for module in around.filter(|parts| parts.last().is_some_and(|last| named.contains(last))) {
                asked += 1;
                chosen.extend(
                    find_imported_file(&files, at, up, module).into_iter().filter(|target| known.insert(*target)),
                );
            }
        }
        if asked > MAX_IMPORT_LOOKUPS || files.is_truncated() {
            return all;
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().filter_map(|at| all.get(at).copied()).collect()
}

/// Finds the file that a module is in. An absolute import has to name any auxiliary folders: `import books.shelf` does
/// not refer to `examples/books/shelf.py`.
fn find_imported_file(files: &PyModuleFiles<'_>, from: usize, up: usize, module: &[&str]) -> Option<usize> {
    let at = files.find_module(from, up, &module.join("."))?;
    (up > 0 || is_import_target(files, at, module.len())).then_some(at)
}

/// Returns the files in a folder that an import may refer to. As in [`find_imported_file`], an absolute import has to
/// name any auxiliary folders.
fn files_in_folder(files: &PyModuleFiles<'_>, from: usize, up: usize, folder: &[&str]) -> Vec<usize> {
    let inside = files.files_in_folder(from, up, folder).into_iter();
    inside.filter(|at| up > 0 || is_import_target(files, *at, folder.len() + 1)).collect()
}

/// Returns whether an absolute import may refer to a file. The file must not be in an auxiliary folder, unless that
/// folder is among the last `named_parts` parts of the path, which the import names.
fn is_import_target(files: &PyModuleFiles<'_>, at: usize, named_parts: usize) -> bool {
    let path = files.get(at).map_or("", |file| file.path);
    let path = path.strip_suffix("/__init__.py").unwrap_or(path);
    let outside = path.split('/').count().saturating_sub(named_parts);
    !path.split('/').take(outside).any(|folder| AUXILIARY_FOLDERS.contains(&folder))
}

pub fn is_auxiliary(file: &SourceFile<'_>) -> bool {
    let folders = file.path.rsplit_once('/').map_or("", |(folders, _)| folders);
    // Below `tools`, a folder may well be about documents or templates.
    let above = folders.split('/').take_while(|folder| *folder != "tools");
    above.into_iter().any(|folder| AUXILIARY_FOLDERS.contains(&folder)) || is_auxiliary_file(file.path) || is_test(file)
}

fn is_auxiliary_file(path: &str) -> bool {
    AUXILIARY_FILES.contains(&path.rsplit('/').next().unwrap_or(path))
}

fn is_test(file: &SourceFile<'_>) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or(file.path);
    let is_named = name.starts_with("test_") || name.ends_with("_test.py");
    // `run_test.py` may be a tool that runs tests.
    let tests = || ["def test_", "import pytest", "unittest"].iter().any(|word| file.text.contains(word));
    file.path.split('/').any(|part| matches!(part, "tests" | "test")) || (is_named && tests())
}

/// Returns whether the path contains template placeholders.
fn is_template(path: &str) -> bool {
    path.contains("{{") || path.contains("{%")
}

/// Returns whether a source file imports an MCP SDK.
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

/// Returns whether a source file can define tools.
pub fn can_have_tools(text: &str) -> bool {
    mentions_tools(text) || text.contains("inputSchema")
}
